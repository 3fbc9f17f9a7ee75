"""Health of endpoints, what follows from turning one on or off, and events about outboxd itself."""

from support import expect


def health(db, failing=None, success=None, after=None, name="a"):
    """Seconds, as one relay saw them."""
    def ms(seconds):
        return None if seconds is None else int(seconds * 1000)
    return db.sql.rows("SELECT * FROM outbox.endpoint_health(ARRAY[%s], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[])",
                       name, ms(failing), ms(success), ms(after))


def row(db, name="a"):
    return db.sql.row("SELECT enabled, round(extract(epoch FROM clock_timestamp() - failing_since))::int, "
                      "round(extract(epoch FROM clock_timestamp() - last_success_at))::int FROM outbox.endpoint WHERE name = %s", name)


def reports(db, on=True):
    db.sql.execute("UPDATE outbox.setting SET value = %s WHERE name = 'operator_events'", str(on).lower())


def events(db):
    return db.sql.rows("SELECT event_type, payload ->> 'endpoint', tenant_id FROM outbox.event WHERE event_type LIKE 'outboxd.%%' ORDER BY id", *())


def case_failing_since_is_written_once_and_cleared_by_a_success(db):
    db.endpoint("a")
    health(db, failing=60)
    expect(row(db), (True, 60, None))
    health(db, failing=3600)
    expect(row(db), (True, 60, None), "written already")
    health(db, success=5)
    expect(row(db), (True, None, 5))


def case_a_relay_that_only_fails_does_not_reach_behind_another_ones_success(db):
    db.endpoint("a")
    health(db, failing=60)
    health(db, success=10)
    health(db, failing=7 * 86400, after=86400)
    expect(row(db), (True, 10, 10))


def case_the_rule_disables_with_the_reason_and_only_what_fails_for_this_relay(db):
    db.endpoint("a")
    health(db, failing=2 * 86400, after=5 * 86400)
    expect(row(db)[0], True)
    expect(health(db, success=None, after=60), [], "no failure seen here")
    db.sql.execute("UPDATE outbox.endpoint SET failing_since = clock_timestamp() - interval '6 d'")
    expect(health(db, failing=1), [], "without the rule")
    found = health(db, failing=1, after=5 * 86400)
    expect((found[0][0], "without one success" in found[0][1]), ("a", True))
    expect(row(db)[0], False)
    expect(health(db, failing=1, after=5 * 86400), [], "disabled once")


def case_a_working_endpoint_is_not_written_again_within_half_an_hour(db):
    db.endpoint("a")
    health(db, success=0)
    before = db.sql.value("SELECT xmin::text FROM outbox.endpoint")
    health(db, success=0)
    expect(db.sql.value("SELECT xmin::text FROM outbox.endpoint"), before)


def case_enabling_by_plain_sql_begins_anew_and_closes_the_circuit(db):
    db.endpoint("a")
    health(db, failing=86400)
    db.sql.execute("UPDATE outbox.endpoint SET enabled = false, disabled_reason = 'why'")
    expect(db.sql.value("SELECT disabled_at IS NOT NULL FROM outbox.endpoint"), True)
    db.sql.execute("SELECT outbox.circuit_trip('a', 5, '60s', '5m', 'boom')")
    db.sql.execute("UPDATE outbox.endpoint SET enabled = true")
    expect(db.sql.row("SELECT failing_since, disabled_reason, disabled_at FROM outbox.endpoint"), (None, None, None))
    expect(db.sql.value("SELECT count(*) FROM outbox.circuit"), 0)


def case_another_address_closes_the_circuit_and_other_changes_do_not(db):
    db.endpoint("a")
    db.sql.execute("SELECT outbox.circuit_trip('a', 5, '60s', '5m', 'boom')")
    db.sql.execute("UPDATE outbox.endpoint SET settings = '{\"timeout\": \"3s\"}', url = url")
    expect(db.sql.value("SELECT count(*) FROM outbox.circuit"), 1)
    db.sql.execute("UPDATE outbox.endpoint SET url = 'https://other.example.com/'")
    expect(db.sql.value("SELECT count(*) FROM outbox.circuit"), 0)


def case_disabling_is_reported_when_asked_for_and_removal_is_not(db):
    db.endpoint("a")
    db.sql.execute("UPDATE outbox.endpoint SET tenant_id = 'acme'")
    db.sql.execute("UPDATE outbox.endpoint SET enabled = false")
    expect(events(db), [], "not asked for")
    reports(db)
    db.sql.execute("UPDATE outbox.endpoint SET enabled = true")
    db.sql.execute("UPDATE outbox.endpoint SET enabled = false, disabled_reason = 'by hand'")
    expect(events(db), [("outboxd.endpoint.disabled", "a", "acme")])
    expect(db.sql.value("SELECT payload ->> 'reason' FROM outbox.event"), "by hand")
    db.endpoint("b")
    db.sql.execute("SELECT outbox.remove_endpoint('b')")
    expect(len(events(db)), 1)


def fail(db, relay):
    db.sql.execute("SELECT outbox.settle(%s, array_agg(d.id), array_agg('failed'::text), array_agg(true), array_agg(404), array_agg('http'::text), "
                   "array_agg('HTTP 404'::text), array_agg(NULL::text), array_agg(1), array_agg(1), array_agg(NULL::bigint), "
                   "array_fill(NULL::int, ARRAY[4 * count(*)::int]), array_agg(NULL::text), array_agg(false)) "
                   "FROM outbox.delivery d WHERE d.claimed_by = %s", relay, relay)


def case_a_failed_delivery_is_reported_once_and_its_report_never(db):
    db.endpoint("a")
    relay = db.relay()
    reports(db)
    db.insert()
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = %s", relay)
    fail(db, relay)
    expect(events(db), [("outboxd.delivery.failed", "a", None)])
    expect(db.sql.row("SELECT payload ->> 'error', payload ->> 'attempts' FROM outbox.event WHERE event_type = 'outboxd.delivery.failed'"), ("HTTP 404", "1"))
    # The settlement is sent again after a lost reply.
    db.sql.execute("SELECT outbox.failure_events(ARRAY(SELECT id FROM outbox.delivery WHERE status = 'failed'))")
    expect(len(events(db)), 1)
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = %s WHERE status = 'pending'", relay)
    fail(db, relay)
    expect(len(events(db)), 1, "the report failed as well")
    # A replay that fails again is another failure.
    db.sql.execute("SELECT outbox.retry(d.id) FROM outbox.delivery d JOIN outbox.event e ON e.id = d.event WHERE e.event_type NOT LIKE 'outboxd.%%'", *())
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = %s WHERE status = 'pending'", relay)
    fail(db, relay)
    expect(len(events(db)), 2)


def case_a_trigger_of_the_application_that_refuses_reports_breaks_no_settlement(db):
    db.endpoint("a")
    relay = db.relay()
    reports(db)
    db.insert()
    db.sql.execute("CREATE FUNCTION outbox.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
    db.sql.execute("CREATE TRIGGER refuse BEFORE INSERT ON outbox.event FOR EACH ROW EXECUTE FUNCTION outbox.refuse()")
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = %s", relay)
    fail(db, relay)
    expect(db.sql.value("SELECT status FROM outbox.delivery"), "failed")
    db.sql.execute("UPDATE outbox.endpoint SET enabled = false")
    expect(row(db)[0], False)


def case_a_delivery_that_rescue_gives_up_blocks_its_key_where_that_is_asked_for(db):
    for number, (own, default, blocks) in enumerate([("block", "continue", True), (None, "block", True), (None, "continue", False), ("continue", "block", False)]):
        name = f"e{number}"
        db.endpoint(name, "{%s}" % name)
        db.sql.execute("UPDATE outbox.endpoint SET settings = %s::jsonb WHERE name = %s", '{"on_failed": "%s"}' % own if own else "{}", name)
        db.sql.execute("UPDATE outbox.setting SET value = %s WHERE name = 'on_failed'", default)
        db.sql.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) VALUES (%s, '{}', 'k')", name)
        dead = db.relay()
        db.sql.execute("UPDATE outbox.delivery SET claimed_by = %s WHERE lane = %s", dead, name)
        db.sql.execute("UPDATE outbox.relay SET lease_until = clock_timestamp() - interval '1 s' WHERE id = %s", dead)
        expect(db.sql.rows("SELECT lane, outcome FROM outbox.rescue(NULL, 0, 100)"), [(name, "failed")])
        expect(db.sql.value("SELECT blocks FROM outbox.delivery WHERE lane = %s", name), blocks, name)
