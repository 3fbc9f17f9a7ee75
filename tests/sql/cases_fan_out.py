"""Fan-out by the trigger: who gets an event, and that the application's INSERT neither fails nor waits."""

import io

from support import expect, wait_for


def lanes(db, event):
    return sorted(lane for lane, in db.delivery(event, "lane"))


def case_patterns_match_exactly_by_prefix_and_by_star(db):
    for name, events in [("all", "{*}"), ("order", "{order.*}"), ("item", "{order.item.*,order.item.added}"), ("exact", "{order.created}"),
                         ("none", "{}"), ("other", "{orders.*,order}"), ("odd", "{NULL,\"\",a.*.c}")]:
        db.endpoint(name, events)
    expect(lanes(db, db.insert("order.created")), ["all", "exact", "order"])
    expect(lanes(db, db.insert("order.item.added")), ["all", "item", "order"])
    expect(lanes(db, db.insert("order")), ["all", "other"])
    expect(lanes(db, db.insert("ORDER.created")), ["all"])
    expect(lanes(db, db.insert("a.b.c")), ["all"])


def case_changes_of_an_endpoint_change_who_matches(db):
    db.endpoint("a", "{x}")
    db.sql.execute("UPDATE outbox.endpoint SET events = '{y.*}', enabled = false, paused = true WHERE name = 'a'")
    expect(lanes(db, db.insert("y.z")), ["a"], "disabled and paused endpoints still collect")
    expect(lanes(db, db.insert("x")), [""])
    db.sql.execute("UPDATE outbox.endpoint SET name = 'b' WHERE name = 'a'")
    expect(lanes(db, db.insert("y.q")), ["b"])
    expect(db.sql.rows("SELECT DISTINCT lane, endpoint FROM outbox.delivery WHERE lane <> ''"), [("b", "b")], "renamed along")
    db.sql.execute("DELETE FROM outbox.endpoint")
    expect(db.sql.value("SELECT count(*) FROM outbox.subscription"), 0)


def case_tenants_see_their_own_events_only(db):
    db.endpoint("everyone")
    db.endpoint("t1", tenant="T1")
    db.endpoint("t2", tenant="T2")
    expect(lanes(db, db.insert(tenant_id="T1")), ["everyone", "t1"])
    expect(lanes(db, db.insert()), ["everyone"])
    expect(lanes(db, db.insert(endpoint="t2", tenant_id="T2")), ["t2"])


def case_an_endpoint_of_another_tenant_by_name_ends_failed_with_reason_tenant(db):
    db.endpoint("t1", tenant="T1")
    for tenant in ["T2", None]:
        event = db.insert(endpoint="t1", tenant_id=tenant)
        expect(db.delivery(event, "status, lane"), [("failed", "t1")])
        expect(db.sql.rows("SELECT outcome, error_class, error FROM outbox.attempt WHERE event = %s", event),
               [("failed", "tenant", "endpoint t1 belongs to another tenant")])


def case_unknown_name_and_no_match_are_unrouted(db):
    db.endpoint("a", "{x}")
    for columns in [{"endpoint": "nobody"}, {"event_type": "y"}]:
        event = db.insert(**columns)
        expect(db.delivery(event, "lane, endpoint, status, fan_after"), [("", None, "unrouted", None)])


def case_direct_urls_get_the_lane_of_their_origin(db):
    for url, lane in [
        ("https://Example.COM/a?b#c", "url:https://example.com:443"),
        ("HTTP://example.com", "url:http://example.com:80"),
        ("https://user:pa@ss@example.com:8443/x", "url:https://example.com:8443"),
        ("https://example.com:/x", "url:https://example.com:443"),
        ("http://[::1]/x", "url:http://[::1]:80"), ("http://[::1]:81", "url:http://[::1]:81"),
        ("https://example.com?x=@y", "url:https://example.com:443"),
        ("nonsense", "url:invalid"), ("https://", "url:invalid"), ("https:///x", "url:invalid"), ("", "url:invalid"),
    ]:
        expect(lanes(db, db.insert(url=url)), [lane], url)
    expect(lanes(db, db.insert(url="https://x", breaker_key="T1:x")), ["url:T1:x"])


def case_due_is_now_or_deliver_at_and_limits_are_copied(db):
    db.endpoint("a")
    event = db.insert(deliver_at="2100-01-01", expires_at="2101-01-01", max_attempts=3, payload=None, payload_bytes=b"12345")
    expect(db.sql.row("SELECT due_at = '2100-01-01', expires_at = '2101-01-01', max_attempts, size FROM outbox.delivery "
                      "WHERE event = %s", event), (True, True, 3, 5))
    event = db.insert(deliver_at="2000-01-01")
    expect(db.sql.value("SELECT due_at > clock_timestamp() - interval '1 minute' FROM outbox.delivery WHERE event = %s", event), True)


def case_due_at_is_taken_when_the_row_is_written_not_at_the_transaction_s_start(db):
    db.endpoint("a")
    db.sql.execute("BEGIN")
    begin = db.sql.value("SELECT clock_timestamp()")
    event = db.insert()
    expect(db.sql.value("SELECT due_at >= %s AND due_at > now() FROM outbox.delivery WHERE event = %s", begin, event), True)
    db.sql.execute("ROLLBACK")


def case_more_endpoints_than_the_inline_limit_are_left_to_the_daemon(db):
    db.sql.execute("UPDATE outbox.setting SET value = '3' WHERE name = 'inline_limit'")
    for i in range(3):
        db.endpoint(f"e{i}")
    expect(lanes(db, db.insert()), ["e0", "e1", "e2"])
    db.endpoint("e3")
    expect(db.delivery(db.insert(), "lane, status, fan_after"), [("", "unrouted", "")])


def case_a_nonsense_inline_limit_breaks_no_insert(db):
    db.endpoint("a")
    for value in ["junk", "", "99999999999999"]:
        db.sql.execute("UPDATE outbox.setting SET value = %s", value)
        expect(lanes(db, db.insert()), ["a"], value)
    db.sql.execute("DELETE FROM outbox.setting")
    expect(lanes(db, db.insert()), ["a"])


def case_events_behind_an_unrouted_one_of_their_key_wait_for_the_daemon(db):
    db.endpoint("a", "{x}")
    first = db.insert("unknown", ordering_key="K")
    expect(db.delivery(db.insert("x", ordering_key="K"), "status, fan_after"), [("unrouted", "")])
    expect(db.delivery(db.insert("x", ordering_key="L"), "status"), [("pending",)])
    db.sql.execute("UPDATE outbox.delivery SET due_at = 'infinity' WHERE event = %s OR fan_after IS NOT NULL", first)
    expect(db.delivery(db.insert("x", ordering_key="K"), "status"), [("pending",)], "given up rows hold nothing back")


def case_one_statement_keeps_the_order_of_a_key_too(db):
    db.endpoint("a", "{x}")
    db.sql.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) VALUES ('x', '{}', 'K'), ('other', '{}', 'K'), "
                   "('x', '{}', 'K'), ('x', '{}', 'L'), ('x', '{}', NULL)")
    expect([row[0] for row in db.sql.rows("SELECT status FROM outbox.delivery ORDER BY event")],
           ["pending", "unrouted", "unrouted", "pending", "pending"])


def case_many_rows_in_one_statement_are_routed_as_one_by_one(db):
    db.sql.execute("UPDATE outbox.setting SET value = '2' WHERE name = 'inline_limit'")
    for name, events, tenant in [("all", "{*}", "T1"), ("two", "{x.*,x.y}", None), ("three", "{x.y}", "T2"), ("wide", "{w,x.z}", None),
                                 ("wider", "{w}", None), ("widest", "{w}", None)]:
        db.endpoint(name, events, tenant)
    rows = [(kind, tenant, endpoint, url, due) for kind in ["x.y", "x.z", "w", "nothing"] for tenant in [None, "T1", "T2"]
            for endpoint, url in [(None, None), ("all", None), ("three", None), ("nobody", None), (None, "https://h/x"), (None, "bad")]
            for due in [None, "2100-01-01"]]
    one, many = "(%s, '{}', %s, %s, %s, %s)", "INSERT INTO outbox.event (event_type, payload, tenant_id, endpoint, url, deliver_at) VALUES "
    seen = []
    for statements in [[[row] for row in rows], [rows]]:
        db.sql.execute("TRUNCATE outbox.event")
        for statement in statements:
            db.sql.execute(many + ", ".join([one] * len(statement)), *[value for row in statement for value in row])
        seen.append(db.sql.rows(
            "SELECT e.event_type, e.tenant_id, e.endpoint, e.url, e.deliver_at IS NULL, d.lane, d.endpoint, d.status, d.due_at > now() + '1h', "
            "d.size, d.fan_after, a.outcome FROM outbox.event e LEFT JOIN outbox.delivery d ON d.event = e.id "
            "LEFT JOIN outbox.attempt a ON a.delivery = d.id ORDER BY e.id, d.lane"))
    assert len(seen[0]) > len(rows) and {row[7] for row in seen[0]} == {"pending", "failed", "unrouted"}, seen[0]
    expect(seen[1], seen[0])


# The application ------------------------------------------------------------------------------------------------------

def case_the_application_s_role_needs_insert_and_two_columns_only(db):
    db.endpoint("a")
    db.endpoint("t", tenant="T")
    app = db.session("app")
    event, public = app.row("INSERT INTO outbox.event (event_type, payload) VALUES ('t', '{}') RETURNING id, event_id")
    assert event and len(public) == 36
    app.execute("INSERT INTO outbox.event (event_type, payload, endpoint, ordering_key) VALUES ('t', '{}', 't', 'k'), ('t', '{}', 'x', 'k')")
    expect(len(db.delivery(event)), 1)
    for forbidden in ["SELECT payload FROM outbox.event", "SELECT * FROM outbox.delivery", "DELETE FROM outbox.event",
                      "UPDATE outbox.event SET subject = 'x'", "TRUNCATE outbox.event", "SELECT * FROM outbox.endpoint_secret",
                      "INSERT INTO outbox.delivery (event, lane, due_at) VALUES (1, 'a', now())", "SELECT outbox.sweep(1)"]:
        expect(app.error(forbidden)[0], "42501", forbidden)


def case_copy_many_rows_on_conflict_and_returning_work(db):
    db.endpoint("a")
    app = db.session("app")
    with app.connection.cursor() as cursor:
        cursor.copy_expert("COPY outbox.event (event_type, payload) FROM STDIN", io.StringIO("t\t{}\n" * 500))
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 500)
    sql = "INSERT INTO outbox.event (event_id, event_type, payload) VALUES ('same', 't', '{}') ON CONFLICT (event_id) DO NOTHING RETURNING id, event_id"
    expect(len(app.rows(sql)), 1)
    expect(app.rows(sql), [])
    expect(app.rows("INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' WHERE false RETURNING id"), [])
    expect(len(app.rows("INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' FROM generate_series(1, 50) RETURNING id, event_id")), 50)
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 551)


def case_hostile_session_settings_change_nothing_B73(db):
    db.endpoint("a", "{order.*}")
    db.sql.execute("SELECT outbox.set_wake(%s, true)", db.relay())
    for settings in ["-c search_path=", "-c search_path=public,pg_temp", "-c standard_conforming_strings=off -c backslash_quote=off",
                     "-c datestyle=sql,dmy -c intervalstyle=sql_standard -c timezone=Asia/Kolkata -c bytea_output=escape",
                     "-c enable_indexscan=off -c enable_nestloop=off -c enable_tidscan=off -c plan_cache_mode=force_custom_plan",
                     "-c default_transaction_isolation=serializable", "-c default_transaction_isolation=repeatable\\ read",
                     "-c plpgsql.variable_conflict=use_variable -c plpgsql.extra_errors=all -c transform_null_equals=on",
                     "-c join_collapse_limit=1 -c from_collapse_limit=1 -c quote_all_identifiers=on -c array_nulls=off"]:
        app = db.session("app", settings)
        before = db.sql.value("SELECT count(*) FROM outbox.delivery WHERE lane = 'a'")
        app.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) VALUES ('order.x', '{}', 'k'), ('order.x', '{}', NULL)")
        expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE lane = 'a'"), before + 2, settings)


def case_temporary_tables_and_public_functions_cannot_capture_the_trigger(db):
    db.endpoint("a")
    app = db.session("app")
    app.execute("CREATE TEMP TABLE subscription (pattern text, tenant_id text, endpoint text)")
    app.execute("CREATE TEMP TABLE delivery (x int)")
    app.execute("CREATE FUNCTION pg_temp.greatest_trap(text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$")
    expect(lanes(db, db.insert(session=app)), ["a"])


def case_repeatable_read_and_serializable_transactions_insert(db):
    db.endpoint("a")
    for level in ["REPEATABLE READ", "SERIALIZABLE"]:
        first, second = db.session("app"), db.session("app")
        for session in (first, second):
            session.execute(f"BEGIN ISOLATION LEVEL {level}")
            db.insert(session=session)
        first.execute("COMMIT")
        second.execute("COMMIT")
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 4)


def case_an_insert_waits_for_nobody_B73(db):
    db.endpoint("a")
    relay = db.relay()
    db.insert()
    holder = db.session()
    holder.execute("BEGIN")
    # Everything that runs beside applications, at once in one open transaction.
    db.claim(relay, session=holder)
    holder.execute("SELECT outbox.set_wake(%s, true)", relay)
    holder.execute("SELECT outbox.sweep(100)")
    holder.execute("SELECT outbox.route(100, '1h')")
    holder.execute("UPDATE outbox.endpoint SET url = 'https://other', events = '{t}'")
    holder.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) VALUES ('zzz', '{}', 'K')")
    app = db.session("app", "-c lock_timeout=2000 -c statement_timeout=10000")
    for key in [None, "K"]:
        db.insert(session=app, ordering_key=key)
    app.execute("INSERT INTO outbox.event (event_type, payload) SELECT 'order.x', '{}' FROM generate_series(1, 100)")
    holder.execute("ROLLBACK")


def case_rolled_back_events_and_savepoints_leave_nothing(db):
    db.endpoint("a")
    db.sql.execute("BEGIN")
    db.insert()
    db.sql.execute("SAVEPOINT s")
    db.insert()
    db.sql.execute("ROLLBACK TO s")
    kept = db.insert()
    db.sql.execute("COMMIT")
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 2)
    expect(len(db.delivery(kept)), 1)


# Wake-up --------------------------------------------------------------------------------------------------------------

def listening(db):
    session = db.session()
    session.execute("LISTEN outbox_wake")
    return session


def heard(session):
    """All payloads up to now: NOTIFY is delivered in order of commit, so a marker of our own ends the list."""
    session.execute("NOTIFY outbox_wake, 'marker'")
    def marked():
        session.connection.poll()
        return any(n.payload == "marker" for n in session.connection.notifies)
    wait_for(marked, what="the marker")
    found = [n.payload for n in session.connection.notifies if n.payload != "marker"]
    session.connection.notifies.clear()
    return found


def case_notify_is_sent_only_while_a_relay_asks_for_it(db):
    db.endpoint("a")
    ears = listening(db)
    relay = db.relay()
    expect(heard(ears), ["relay"], "a relay that comes is announced to the others")
    db.insert()
    expect(heard(ears), [])
    db.sql.execute("SELECT outbox.set_wake(%s, true)", relay)
    db.insert()
    expect(heard(ears), ["lane:a"])
    db.sql.execute("SELECT outbox.set_wake(%s, false)", relay)
    db.insert()
    expect(heard(ears), [])


def case_notify_names_one_lane_or_any_or_route_and_nothing_for_the_future(db):
    db.endpoint("a", "{x,z}")
    db.endpoint("b", "{y,z}")
    db.sql.execute("SELECT outbox.set_wake(%s, true)", db.relay())
    ears = listening(db)
    db.insert("x", deliver_at="2100-01-01")
    expect(heard(ears), [])
    db.insert("z")
    expect(heard(ears), ["any"])
    db.insert("nothing")
    expect(heard(ears), ["route"])
    db.insert("y")
    expect(heard(ears), ["lane:b"])


def case_changes_of_endpoints_secrets_and_circuits_are_announced_bookkeeping_is_not(db):
    db.endpoint("a")
    ears = listening(db)
    before = db.sql.value("SELECT outbox.endpoint_digest()")
    for sql, wanted in [
        ("UPDATE outbox.endpoint SET paused = true", ["endpoint"]),
        ("INSERT INTO outbox.endpoint_secret (endpoint, secret) VALUES ('a', 's')", ["endpoint"]),
        ("UPDATE outbox.endpoint_secret SET expires_at = now()", ["endpoint"]),
        ("DELETE FROM outbox.endpoint_secret", ["endpoint"]),
        ("UPDATE outbox.endpoint SET last_success_at = now(), failing_since = NULL", []),
        ("SELECT * FROM outbox.circuit_trip('a', 5, '1m', '1h', 'x')", ["circuit"]),
    ]:
        db.sql.execute(sql)
        expect(heard(ears), wanted, sql)
        if wanted == ["endpoint"]:
            after = db.sql.value("SELECT outbox.endpoint_digest()")
            assert after != before, sql
            before = after


def case_two_phase_commit_works_while_nobody_asks_to_be_woken(db):
    db.endpoint("a")
    relay = db.relay()
    db.sql.execute("BEGIN")
    db.insert()
    db.sql.execute("PREPARE TRANSACTION 'p'")
    db.sql.execute("COMMIT PREPARED 'p'")
    expect(len(db.claim(relay)[1]), 1)


def case_a_replica_s_session_writes_the_event_alone(db):
    db.endpoint("a")
    replica = db.session("postgres", "-c session_replication_role=replica")
    event = db.insert(session=replica)
    expect(db.delivery(event), [])
    expect(db.statuses(event), [("", "pending")])


def case_a_hundred_thousand_rows_in_one_statement_stay_quick(db):
    db.endpoint("a")
    app = db.session("app", "-c statement_timeout=60000")
    app.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) "
                "SELECT 'order.x', '{}', CASE WHEN i % 2 = 0 THEN 'k' || i % 100 END FROM generate_series(1, 100000) i")
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 100000)
