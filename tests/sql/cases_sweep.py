"""The sweep: events the trigger never saw are found, once, and no late commit is passed over."""

from support import expect


def sweep(db, batch=100, settle="0", session=None):
    return (session or db.sql).value("SELECT outbox.sweep(%s, %s)", batch, settle)


def state(db):
    return db.sql.value("SELECT state FROM outbox.maintenance WHERE name = 'sweep'")


def silent(db):
    """A session whose inserts the trigger does not see."""
    return db.session("postgres", "-c session_replication_role=replica")


def case_an_insert_under_replica_role_is_found_and_fanned_out(db):
    db.endpoint("a")
    event = db.insert(session=silent(db), ordering_key="K", max_attempts=4)
    expect([sweep(db) for _ in range(3)], [0, 1, 0])
    expect(db.delivery(event, "lane, status, ordering_key, max_attempts, size"), [("a", "pending", "K", 4, 8)])


def case_every_kind_of_address_is_fanned_out_by_the_sweep(db):
    db.endpoint("a", "{x}")
    db.endpoint("t", "{}", tenant="T")
    session = silent(db)
    wanted = {db.insert("x", session=session): [("a", "pending")], db.insert("y", session=session): [("", "unrouted")],
              db.insert(url="https://u", session=session): [("url:https://u:443", "pending")],
              db.insert(endpoint="t", session=session): [("t", "failed")], db.insert(endpoint="t", tenant_id="T", session=session): [("t", "pending")],
              db.insert(endpoint="gone", session=session): [("", "unrouted")]}
    sweep(db)
    expect(sweep(db), 6)
    for event, rows in wanted.items():
        expect(db.delivery(event, "lane, status"), rows)


def case_events_with_a_delivery_or_only_history_are_left_alone(db):
    db.endpoint("a")
    relay = db.relay()
    db.insert()
    _, rows = db.claim(relay)
    db.settle(relay, (rows[0]["id"], "published"))
    db.insert()
    db.insert("a", endpoint="unknown")
    expect([sweep(db) for _ in range(4)], [0, 0, 0, 0])
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 2)


def case_the_mark_waits_for_transactions_that_may_hold_a_lower_id_B01(db):
    db.endpoint("a")
    late = silent(db)
    late.execute("BEGIN")
    hidden = db.insert(session=late)
    db.insert()
    expect([sweep(db) for _ in range(3)], [0, 0, 0])
    expect(state(db).get("done", 0), 0)
    late.execute("COMMIT")
    expect(sweep(db), 1)
    expect(len(db.delivery(hidden)), 1)


def case_the_mark_waits_for_the_settling_time(db):
    db.insert(session=silent(db))
    expect([sweep(db, settle="1 hour") for _ in range(3)], [0, 0, 0])
    expect(sweep(db), 1)


def case_an_id_drawn_long_before_its_transaction_is_found_by_the_full_walk(db):
    db.endpoint("a")
    late = silent(db)
    drawn = late.value("SELECT nextval(pg_get_serial_sequence('outbox.event', 'id'))")
    db.insert()
    sweep(db)
    sweep(db)
    assert state(db)["done"] > drawn
    late.execute("INSERT INTO outbox.event (id, event_type, payload) OVERRIDING SYSTEM VALUE VALUES (%s, 't', '{}')", drawn)
    expect(sum(sweep(db, 1) for _ in range(4)), 1)
    expect(len(db.delivery(drawn)), 1)


def case_batches_bound_a_call_and_reach_everything(db):
    db.endpoint("a")
    silent(db).execute("INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' FROM generate_series(1, 25)")
    found = [sweep(db, 10) for _ in range(6)]
    expect(sum(found), 25)
    assert max(found) <= 20, found
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE status = 'pending'"), 25)


def case_two_sweeps_at_once_fan_out_once(db):
    db.endpoint("a")
    event = db.insert(session=silent(db))
    sweep(db)
    one = db.session()
    one.execute("BEGIN")
    expect(sweep(db, session=one), 1)
    second = db.session("relay", "-c lock_timeout=1000")
    expect(sweep(db, session=second), 0)
    one.execute("COMMIT")
    expect([sweep(db, session=second) for _ in range(3)], [0, 0, 0])
    expect(len(db.delivery(event)), 1)


def case_a_sweep_on_an_old_snapshot_fails_instead_of_fanning_out_twice(db):
    db.endpoint("a")
    event = db.insert(session=silent(db))
    sweep(db)
    old = db.session()
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    old.value("SELECT count(*) FROM outbox.delivery")
    sweep(db)
    relay = db.relay()
    _, rows = db.claim(relay)
    db.settle(relay, (rows[0]["id"], "published"))
    expect(old.error("SELECT outbox.sweep(100, '0')")[0], "40001")
    old.execute("ROLLBACK")
    expect([sweep(db) for _ in range(3)], [0, 0, 0])
    expect(db.statuses(event), [("a", "published")])


def case_a_disabled_trigger_is_made_up_for(db):
    db.endpoint("a")
    db.sql.execute("ALTER TABLE outbox.event DISABLE TRIGGER event_fan_out")
    db.insert_many(3)
    db.sql.execute("ALTER TABLE outbox.event ENABLE TRIGGER event_fan_out")
    db.insert()
    sweep(db)
    expect(sweep(db), 3)
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE lane = 'a'"), 4)


def case_what_the_sweep_cannot_route_gets_the_grace_last_used(db):
    db.sql.execute("SELECT outbox.route(10, '100 years')")
    event = db.insert("x", session=silent(db), created_at="2000-01-01")
    sweep(db)
    expect(sweep(db), 1)
    expect(db.delivery(event, "status, due_at < 'infinity' AND due_at > now()"), [("unrouted", True)])


def case_route_event_gives_one_event_to_routing_once(db):
    db.endpoint("a")
    event = db.insert(session=silent(db))
    expect([db.sql.value("SELECT outbox.route_event(%s)", event) for _ in range(2)], [True, False])
    expect(db.sql.value("SELECT outbox.route_event(999)"), False)
    expect(len(db.delivery(event)), 1)
