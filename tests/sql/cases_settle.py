"""Settlement: what each outcome does to the row and to the history, and who may write it."""

from support import expect, ids

HISTORY = ("SELECT attempt, outcome, http_status, error_class, error, response_excerpt, duration_ms, relay, dns_ms, "
           "connect_ms, tls_ms, first_byte_ms, next_attempt_at IS NOT NULL FROM outbox.attempt ORDER BY id")


def claimed(db, count=1, **columns):
    """A relay and the ids of `count` deliveries it has claimed."""
    if not db.sql.value("SELECT count(*) FROM outbox.endpoint"):
        db.endpoint("a")
    relay = db.relay()
    for _ in range(count):
        db.insert(**columns)
    return relay, ids(db.claim(relay, discover_limit=1000)[1])


def case_published_deletes_the_row_and_writes_the_attempt(db):
    relay, (one,) = claimed(db)
    expect(db.settle(relay, (one, "published", {"http_status": 204, "excerpt": "ok", "duration_ms": 12, "started_ago_ms": 20,
                                                "phases": [1, 2, None, 4]})), [one])
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 0)
    expect(db.sql.rows(HISTORY), [(1, "published", 204, None, None, "ok", 12, relay, 1, 2, None, 4, False)])
    expect(db.sql.value("SELECT round(extract(epoch FROM finished_at - started_at) * 1000) FROM outbox.attempt"), 20)


def case_retried_waits_counts_and_pins_the_format(db):
    relay, (one,) = claimed(db)
    expect(db.settle(relay, (one, "retried", {"retry_in_ms": 5000, "http_status": 503, "error_class": "http", "error": "busy",
                                              "format": "raw"})), [one])
    expect(db.sql.row("SELECT status, attempts, claimed_by, format, round(extract(epoch FROM due_at - clock_timestamp())) FROM outbox.delivery"),
           ("pending", 1, None, "raw", 5))
    expect(db.sql.rows(HISTORY), [(1, "retried", 503, "http", "busy", None, None, relay, None, None, None, None, True)])
    db.sql.execute("UPDATE outbox.delivery SET due_at = now()")
    db.claim(relay)
    db.settle(relay, (one, "retried", {"retry_in_ms": 0, "format": "enriched"}))
    expect(db.sql.row("SELECT attempts, format FROM outbox.delivery"), (2, "raw"), "the first format stays")


def case_our_own_faults_use_up_no_attempt(db):
    relay, (one,) = claimed(db)
    db.settle(relay, (one, "retried", {"counts": False, "retry_in_ms": 0}))
    expect(db.sql.row("SELECT attempts FROM outbox.delivery"), (0,))
    expect(db.sql.row("SELECT attempt FROM outbox.attempt"), (1,))


def case_failed_keeps_the_row_expired_and_cancelled_do_not(db):
    relay, (one, two, three) = claimed(db, 3)
    expect(db.settle(relay, (one, "failed", {"http_status": 410}), (two, "expired"), (three, "cancelled", {"error": "by hand"})),
           [one, two, three])
    expect(db.sql.rows("SELECT id, status, attempts, claimed_by FROM outbox.delivery"), [(one, "failed", 1, None)])
    expect(sorted(db.sql.rows("SELECT delivery, outcome, attempt FROM outbox.attempt")),
           [(one, "failed", 1), (two, "expired", 0), (three, "cancelled", 0)])


def case_released_leaves_no_history(db):
    relay, (one, two) = claimed(db, 2)
    expect(db.settle(relay, (one, "released"), (two, "released", {"retry_in_ms": 60000, "format": "raw"})), [one, two])
    expect(db.sql.value("SELECT count(*) FROM outbox.attempt"), 0)
    expect(db.sql.rows("SELECT attempts, claimed_by, format, due_at > clock_timestamp() FROM outbox.delivery ORDER BY id"),
           [(0, None, None, False), (0, None, None, True)])


def case_a_row_that_becomes_due_again_is_due_at_the_clock_or_later(db):
    relay, rows = claimed(db, 2)
    before = db.sql.value("SELECT clock_timestamp()")
    db.settle(relay, (rows[0], "retried", {"retry_in_ms": -5000}), (rows[1], "released"))
    expect(db.sql.value("SELECT bool_and(due_at >= %s) FROM outbox.delivery", before), True)


def case_a_mixed_batch_writes_each_row_its_own_values(db):
    relay, rows = claimed(db, 60)
    outcomes = ["published", "retried", "failed", "released", "expired", "cancelled"]
    results = [(row, outcomes[i % 6], {"http_status": 100 + i, "error": f"e{i}", "retry_in_ms": 1000 * i, "phases": [i, i, i, i],
                                       "duration_ms": i}) for i, row in enumerate(rows)]
    results = results[1::2] + results[::2]
    expect(db.settle(relay, *results), rows)
    expect(sorted(db.sql.rows("SELECT delivery, outcome, http_status, error, first_byte_ms FROM outbox.attempt")),
           sorted((r[0], r[1], r[2]["http_status"], r[2]["error"], r[2]["phases"][3]) for r in results if r[1] != "released"))


def case_everything_but_a_success_is_fenced_B02(db):
    relay, rows = claimed(db, 6)
    other = db.relay()
    db.age(relay)
    db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)
    expect(db.settle(relay, *zip(rows[1:], ["retried", "failed", "expired", "cancelled", "released"])), [])
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE status = 'pending'"), 6)
    taken = ids(db.claim(other)[1])
    expect(taken, rows)
    expect(db.settle(relay, (rows[0], "published"), (rows[1], "failed")), [rows[0]], "a success holds whoever owns the row")
    expect(db.settle(other, (rows[0], "retried", {"retry_in_ms": 0}), (rows[1], "published")), [rows[1]])


def case_unknown_ids_and_empty_batches_change_nothing(db):
    relay, (one,) = claimed(db)
    expect(db.settle(relay, (999, "published"), (998, "failed")), [])
    expect(db.settle(relay), [])
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 1)


def case_of_two_results_for_one_delivery_the_success_wins_else_the_first(db):
    relay, (one, two) = claimed(db, 2)
    expect(db.settle(relay, (one, "failed"), (one, "published", {"http_status": 200}), (one, "published", {"http_status": 201}),
                     (two, "retried", {"http_status": 500}), (two, "failed")), [one, two])
    expect(sorted(db.sql.rows("SELECT delivery, outcome, http_status FROM outbox.attempt")),
           [(one, "published", 200), (two, "retried", 500)])
    expect(db.settle(relay, (one, "published"), (one, "published")), [], "again: nothing left")


def case_null_arrays_stand_for_nothing_said(db):
    relay, (one, two) = claimed(db, 2)
    rows = db.sql.rows("SELECT * FROM outbox.settle(%s, ARRAY[%s, %s]::bigint[], '{published,retried}', null, null, null, null, null, "
                       "null, null, null, null, null, null)", relay, one, two)
    expect(sorted(r[0] for r in rows), [one, two])


def case_a_late_success_waits_for_a_rescue_and_still_deletes_the_row_B02(db):
    relay, (one,) = claimed(db)
    other = db.relay()
    db.age(relay)
    rescuer = db.session()
    rescuer.execute("BEGIN")
    expect(len(rescuer.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)), 1)
    waiting = db.session().in_background("SELECT * FROM outbox.settle(%s, ARRAY[%s]::bigint[], '{published}', null, null, null, null, "
                                         "null, null, null, null, null, null, null)", relay, one)
    waiting.is_blocked(db.sql)
    rescuer.execute("COMMIT")
    expect(waiting.finish(), [(one,)])
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery"), 0)
    expect([o for o, in db.sql.rows("SELECT outcome FROM outbox.attempt ORDER BY id")], ["lost", "published"])


def case_a_late_failure_that_waits_for_a_rescue_writes_nothing_B02(db):
    for outcome in ["failed", "retried", "released", "expired", "cancelled"]:
        relay, (one,) = claimed(db)
        other = db.relay()
        db.age(relay)
        rescuer = db.session()
        rescuer.execute("BEGIN")
        rescuer.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)
        waiting = db.session().in_background("SELECT * FROM outbox.settle(%s, ARRAY[%s]::bigint[], ARRAY[%s], null, null, null, null, "
                                             "null, null, null, null, null, null, null)", relay, one, outcome)
        waiting.is_blocked(db.sql)
        rescuer.execute("COMMIT")
        expect(waiting.finish(), [], outcome)
        expect(db.sql.row("SELECT status, rescued, claimed_by FROM outbox.delivery"), ("pending", 1, None), outcome)
        db.sql.execute("DELETE FROM outbox.delivery")


def case_rescue_skips_a_row_that_a_success_is_about_to_delete(db):
    relay, rows = claimed(db, 2)
    other = db.relay()
    db.age(relay)
    settler = db.session()
    settler.execute("BEGIN")
    db.settle(relay, (rows[0], "published"), session=settler)
    expect([r[0] for r in db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)], [rows[1]])
    settler.execute("ROLLBACK")
    expect([r[0] for r in db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)], [rows[0]],
           "its relay's row had to stay for that")
    expect(db.sql.rows("SELECT id FROM outbox.relay"), [(other,)])


def case_two_relays_that_settle_the_same_rows_in_opposite_order_do_not_deadlock(db):
    relay, rows = claimed(db, 200)
    settle = "SELECT * FROM outbox.settle(%s, %s::bigint[], %s, null, null, null, null, null, null, null, null, null, null, null)"
    waiting = [db.session().in_background(settle, relay, order, ["published"] * 200) for order in (rows, rows[::-1]) * 2]
    expect(sorted(len(w.finish()) for w in waiting), [0, 0, 0, 200])
    expect(db.sql.value("SELECT count(*) FROM outbox.attempt"), 200)
