"""Routing by the daemon: unrouted rows, wide events, order of a key, grace."""

from support import expect


def route(db, limit=100, grace="24h", session=None):
    return (session or db.sql).row("SELECT * FROM outbox.route(%s, %s)", limit, grace)


def lanes(db, event):
    return sorted(lane for lane, in db.delivery(event, "lane"))


def case_an_endpoint_that_appears_gets_what_waited_for_it(db):
    by_name, by_type, never = db.insert(endpoint="late"), db.insert("x.y"), db.insert("z")
    expect(route(db), (0, 0))
    db.endpoint("late", "{x.*}")
    expect(route(db), (2, 0))
    expect((lanes(db, by_name), lanes(db, by_type), lanes(db, never)), (["late"], ["late"], [""]))
    expect(db.delivery(by_type, "status, size, due_at <= clock_timestamp()"), [("pending", 8, True)])
    expect(route(db), (0, 0))


def case_routed_rows_keep_deliver_at_and_limits(db):
    event = db.insert("x", deliver_at="2100-01-01", expires_at="2101-01-01", max_attempts=2, ordering_key="K")
    db.endpoint("a")
    route(db)
    expect(db.delivery(event, "due_at = '2100-01-01', expires_at = '2101-01-01', max_attempts, ordering_key"), [(True, True, 2, "K")])


def case_an_endpoint_that_becomes_visible_after_the_look_is_still_found(db):
    event = db.insert("x")
    late = db.session()
    late.execute("BEGIN")
    late.execute("INSERT INTO outbox.endpoint (name, url) VALUES ('a', 'u')")
    expect(route(db), (0, 0))
    late.execute("COMMIT")
    expect(route(db), (1, 0))
    expect(lanes(db, event), ["a"])


def case_an_event_that_becomes_visible_after_the_look_is_still_found(db):
    writer = db.session()
    writer.execute("BEGIN")
    event = db.insert("x", session=writer)
    db.insert("y")
    db.endpoint("a")
    expect(route(db), (1, 0))
    writer.execute("COMMIT")
    expect(route(db), (1, 0))
    expect(lanes(db, event), ["a"])


def case_a_wrong_tenant_by_name_ends_failed_here_too(db):
    event = db.insert(endpoint="t", tenant_id="T1")
    db.endpoint("t", tenant="T2")
    route(db)
    expect(db.delivery(event, "status, lane"), [("failed", "t")])
    expect(db.sql.rows("SELECT outcome, error_class FROM outbox.attempt"), [("failed", "tenant")])


def case_rows_past_their_grace_stay_for_an_operator(db):
    event = db.insert("x", created_at="2020-01-01")
    expect(route(db), (0, 0))
    expect(db.delivery(event, "status, due_at = 'infinity'"), [("unrouted", True)])
    db.endpoint("a")
    expect(route(db), (0, 0))
    expect(db.statuses(event), [("", "unrouted")])
    expect(db.sql.value("SELECT outbox.retry(id) FROM outbox.delivery"), "ok")
    expect(route(db), (1, 0))


def case_a_wide_event_is_fanned_out_in_slices_exactly_once(db):
    db.sql.execute("UPDATE outbox.setting SET value = '3'")
    names = [f"e{i:03}" for i in range(25)]
    for name in names:
        db.endpoint(name)
    event = db.insert()
    steps = []
    while True:
        done, left = route(db, 10)
        steps.append(done)
        db.sql.execute("DELETE FROM outbox.delivery WHERE lane = 'e000'")  # delivered meanwhile
        if not left:
            break
    expect(steps, [10, 10, 5])
    expect(lanes(db, event), names[1:])


def case_a_key_s_events_behind_a_wide_one_are_routed_after_it(db):
    db.sql.execute("UPDATE outbox.setting SET value = '3'")
    for i in range(6):
        db.endpoint(f"e{i}", "{wide}")
    db.endpoint("last", "{wide,narrow}")
    first = db.insert("wide", ordering_key="K")
    second = db.insert("narrow", ordering_key="K")
    free = db.insert("narrow", ordering_key="L")
    expect((lanes(db, second), lanes(db, free)), ([""], ["last"]))
    expect(route(db, 4)[0], 4)
    expect((len(lanes(db, first)), lanes(db, second)), (5, [""]), "the slice is not the whole")
    while route(db, 4)[1]:
        pass
    expect((lanes(db, first)[-1], len(lanes(db, first)), lanes(db, second)), ("last", 7, ["last"]))
    expect(db.delivery(db.insert("narrow", ordering_key="K"), "status"), [("pending",)])


def case_a_key_s_event_behind_one_without_a_match_is_routed_at_once(db):
    db.endpoint("a", "{x}")
    first, second = db.insert("unknown", ordering_key="K"), db.insert("x", ordering_key="K")
    expect(lanes(db, second), [""])
    expect(route(db), (1, 0))
    expect((lanes(db, first), lanes(db, second)), ([""], ["a"]))


def case_after_a_new_endpoint_old_events_of_a_key_come_first(db):
    old = [db.insert("x", ordering_key="K") for _ in range(5)]
    while route(db)[1]:
        pass
    db.endpoint("a", "{x}")
    young = db.insert("x", ordering_key="K")
    expect(lanes(db, young), [""])
    order = []
    for _ in range(20):
        if route(db, 2) == (0, 0):
            break
        order = [event for event, in db.sql.rows("SELECT event FROM outbox.delivery WHERE lane = 'a' ORDER BY id")]
        expect(order, (old + [young])[:len(order)])
    expect(order, old + [young])


def case_rows_without_a_match_are_not_written_again(db):
    db.insert("x")
    route(db)
    before = db.sql.value("SELECT ctid::text FROM outbox.delivery")
    for _ in range(3):
        expect(route(db), (0, 0))
    expect(db.sql.value("SELECT ctid::text FROM outbox.delivery"), before)


def case_two_passes_never_run_at_once(db):
    db.insert("x")
    db.endpoint("a")
    one = db.session()
    one.execute("BEGIN")
    expect(route(db, session=one), (1, 0))
    second = db.session("relay", "-c lock_timeout=1000")
    expect(route(db, session=second), (0, 0))
    one.execute("COMMIT")
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 1)


def case_an_unrouted_row_of_a_deleted_event_goes(db):
    event = db.insert("x")
    db.sql.execute("DELETE FROM outbox.event WHERE id = %s", event)
    route(db)
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 0)
