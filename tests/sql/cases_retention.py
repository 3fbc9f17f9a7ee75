"""Retention: what goes, what stays, and that a call is bounded."""

from support import expect


def purge(db, published="1 day", failed="10 days", attempts="5 days", batch=100, session=None):
    return (session or db.sql).row("SELECT * FROM outbox.purge(%s, %s, %s, %s)", published, failed, attempts, batch)


def finish(db, outcome="published", age="0 days", **columns):
    """An event whose one delivery ended with `outcome` so long ago."""
    if not db.sql.value("SELECT count(*) FROM outbox.endpoint"):
        db.endpoint("a")
    relay = db.relay()
    event = db.insert(**columns)
    _, rows = db.claim(relay)
    db.settle(relay, *[(row["id"], outcome) for row in rows])
    db.sql.execute("UPDATE outbox.attempt SET finished_at = finished_at - %s::interval WHERE event = %s", age, event)
    # Only a superuser's replica session can make an event old: events never change.
    db.session("postgres", "-c session_replication_role=replica").execute(
        "UPDATE outbox.event SET created_at = created_at - %s::interval WHERE id = %s", age, event)
    return event


def left(db):
    return [event for event, in db.sql.rows("SELECT id FROM outbox.event ORDER BY id")]


def case_published_events_go_after_their_time_with_their_history(db):
    finish(db, age="2 days")
    young = finish(db)
    expect(purge(db), (1, 0, 1))
    expect(left(db), [young])
    expect(db.sql.rows("SELECT DISTINCT event FROM outbox.attempt"), [(young,)])


def case_events_that_ended_badly_stay_longer(db):
    for outcome in ("expired", "cancelled"):
        finish(db, outcome, "2 days")
        finish(db, outcome, "11 days")
    expect(purge(db), (2, 0, 2))
    expect(len(left(db)), 2)


def case_live_and_unfinished_events_stay_however_old(db):
    waiting = finish(db, "retried", "100 days")
    expect(purge(db)[:2], (0, 0))
    expect(left(db), [waiting])
    db.insert(session=db.session("postgres", "-c session_replication_role=replica"), created_at="2000-01-01")
    expect(purge(db)[0], 0, "never fanned out: nothing proves that it was sent")
    expect(len(left(db)), 2)


def case_failed_deliveries_end_cancelled_after_their_time_and_their_event_goes(db):
    finish(db, "failed", "11 days")
    young = finish(db, "failed", "2 days")
    expect(purge(db), (0, 1, 0))
    expect(db.sql.rows("SELECT outcome, error FROM outbox.attempt ORDER BY id DESC LIMIT 1"), [("cancelled", "retention")])
    expect(purge(db), (1, 0, 2))
    expect(left(db), [young])


def case_rows_nobody_could_route_go_too(db):
    event = db.insert("x", created_at="2020-01-01")
    db.sql.execute("SELECT outbox.route(10, '1h')")
    expect(purge(db)[1], 1)
    expect(purge(db)[0], 1)
    expect(left(db), [])
    assert event


def case_non_final_attempts_go_by_their_own_time_final_ones_do_not(db):
    event = finish(db, "retried")
    db.sql.execute("UPDATE outbox.delivery SET due_at = now()")
    relay = db.relay()
    _, rows = db.claim(relay)
    db.settle(relay, (rows[0]["id"], "published"))
    db.sql.execute("UPDATE outbox.attempt SET finished_at = now() - interval '6 days'")
    expect(purge(db, published="100 days"), (0, 0, 1))
    expect(db.statuses(event), [("a", "published")])


def case_null_keeps_for_ever(db):
    finish(db, age="1000 days")
    expect(purge(db, None, None, None), (0, 0, 0))


def case_a_call_is_bounded_and_calls_reach_everything(db):
    kept = finish(db, "retried", "100 days")
    for _ in range(7):
        finish(db, age="2 days")
    young = finish(db)
    removed = [purge(db, batch=3, attempts=None)[0] for _ in range(4)]
    expect(sum(removed), 7)
    assert max(removed) <= 3, removed
    expect(left(db), [kept, young])


def case_two_purges_never_run_at_once(db):
    finish(db, age="2 days")
    one = db.session()
    one.execute("BEGIN")
    purge(db, session=one)
    expect(purge(db, session=db.session("relay", "-c lock_timeout=1000")), (0, 0, 0))
