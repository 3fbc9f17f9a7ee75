"""What an operator does: replay, retry, cancel, unblock, remove an endpoint."""

from support import expect, ids


def replay(db, event, endpoint=None):
    return db.sql.rows("SELECT endpoint, lane, result FROM outbox.replay(%s, %s) ORDER BY 2", event, endpoint)


def end(db, relay, outcome="published"):
    _, rows = db.claim(relay)
    return db.settle(relay, *[(i, outcome) for i in ids(rows)])


def case_a_published_event_is_sent_again_and_again(db):
    db.endpoint("a")
    db.endpoint("b")
    relay, event = db.relay(), db.insert()
    for _ in range(3):
        expect(len(end(db, relay)), 2)
        db.endpoint("later%d" % db.sql.value("SELECT count(*) FROM outbox.attempt"))  # joined since: was not addressed
        expect(replay(db, event), [("a", "a", "replayed"), ("b", "b", "replayed")])
        expect(db.delivery(event, "attempts, rescued, status"), [(0, 0, "pending")] * 2)


def case_one_endpoint_may_be_named_even_one_that_was_not_addressed(db):
    db.endpoint("a")
    db.endpoint("b", "{other}")
    relay, event = db.relay(), db.insert()
    end(db, relay)
    expect(replay(db, event, "a"), [("a", "a", "replayed")])
    expect(replay(db, event, "b"), [("b", "b", "replayed")])
    expect(replay(db, event, "c"), [("c", "c", "no such endpoint")])


def case_another_tenant_s_endpoint_is_refused(db):
    db.endpoint("a")
    db.endpoint("t", tenant="T")
    event = db.insert()
    expect(replay(db, event, "t"), [("t", "t", "endpoint belongs to another tenant")])


def case_a_failed_row_is_used_again_with_fresh_attempts(db):
    db.endpoint("a")
    relay, event = db.relay(), db.insert(ordering_key="K", expires_at="2100-01-01")
    (row,) = end(db, relay, "failed")
    db.sql.execute("UPDATE outbox.delivery SET attempts = 9, rescued = 3, blocks = true, expires_at = '2000-01-01'")
    expect(replay(db, event), [("a", "a", "replayed")])
    expect(db.delivery(event, "id, status, attempts, rescued, blocks, expires_at > now()"), [(row, "pending", 0, 0, False, True)])


def case_a_pending_row_becomes_due_a_claimed_one_is_left(db):
    db.endpoint("a")
    relay, event = db.relay(), db.insert(deliver_at="2100-01-01")
    expect(replay(db, event), [("a", "a", "already pending")])
    expect(len(db.claim(relay)[1]), 1)
    before = db.sql.row("SELECT due_at, claimed_by FROM outbox.delivery")
    expect(replay(db, event), [("a", "a", "already pending")])
    expect(db.sql.row("SELECT due_at, claimed_by FROM outbox.delivery"), before)


def case_direct_urls_expired_and_unrouted_events_are_replayed(db):
    relay = db.relay()
    event = db.insert(url="https://x")
    end(db, relay)
    expect(replay(db, event), [(None, "url:https://x:443", "replayed")])
    expired = db.insert(url="https://y", expires_at="2000-01-01")
    end(db, relay, "expired")
    expect(replay(db, expired), [(None, "url:https://y:443", "replayed")])
    expect(db.delivery(expired, "expires_at"), [(None,)])
    lost = db.insert("x", created_at="2000-01-01")
    db.sql.execute("SELECT outbox.route(10, '1h')")
    expect(replay(db, lost), [(None, "", "unrouted")])
    db.endpoint("a")
    db.sql.execute("SELECT outbox.route(10, '1h')")
    expect(db.delivery(lost, "lane, status"), [("a", "pending")])


def case_an_event_never_fanned_out_goes_to_all_that_match(db):
    for name in "ab":
        db.endpoint(name)
    event = db.insert(session=db.session("postgres", "-c session_replication_role=replica"))
    expect(len(replay(db, event)), 2)
    expect([db.sql.value("SELECT outbox.sweep(10, '0')") for _ in range(3)], [0, 0, 0])
    expect(len(db.delivery(event)), 2)
    expect(replay(db, 999), [])


def case_cancel_ends_a_delivery_unless_it_is_claimed(db):
    db.endpoint("a")
    relay = db.relay()
    for status in ("pending", "failed", "unrouted"):
        event = db.insert("unknown" if status == "unrouted" else "t", endpoint="none" if status == "unrouted" else None)
        db.sql.execute("UPDATE outbox.delivery SET status = %s WHERE event = %s", status, event)
        (row,) = db.delivery(event, "id")[0]
        expect(db.sql.value("SELECT outbox.cancel(%s)", row), "ok")
        expect(db.delivery(event), [])
        expect([s for _, s in db.statuses(event)], ["cancelled"])
    db.insert()
    _, rows = db.claim(relay)
    for function in ("cancel", "retry"):
        expect(db.sql.value(f"SELECT outbox.{function}(%s)", rows[0]["id"]), f"claimed by relay {relay}")
        expect(db.sql.value(f"SELECT outbox.{function}(999)"), "no such delivery")


def case_retry_makes_failed_waiting_and_unrouted_rows_due(db):
    db.endpoint("a")
    relay = db.relay()
    event = db.insert()
    (row,) = end(db, relay, "failed")
    expect(db.sql.value("SELECT outbox.retry(%s)", row), "ok")
    expect(db.delivery(event, "status, attempts, due_at <= clock_timestamp()"), [("pending", 0, True)])
    _, rows = db.claim(relay)
    db.settle(relay, (row, "retried", {"retry_in_ms": 3600_000}))
    expect(db.sql.value("SELECT outbox.retry(%s)", row), "ok")
    expect(db.delivery(event, "status, attempts, due_at <= clock_timestamp()"), [("pending", 1, True)])


def case_removing_an_endpoint_cancels_in_batches_and_waits_for_claims(db):
    db.endpoint("a")
    relay = db.relay()
    db.insert_many(5)
    db.insert(ordering_key="K")
    db.insert(ordering_key="K")
    claimed = ids(db.claim(relay, {"a": 1})[1])
    remove = "SELECT * FROM outbox.remove_endpoint('a', 4)"
    expect([db.sql.row(remove) for _ in range(3)], [(4, False), (2, False), (0, False)])
    expect(db.delivery(db.insert(), "status"), [("unrouted",)], "matches nothing any more")
    db.settle(relay, (claimed[0], "published"))
    expect(db.sql.row(remove), (0, True))
    expect(db.sql.value("SELECT count(*) FROM outbox.endpoint"), 0)
    expect(db.sql.row(remove), (0, True), "gone already")
    expect(sorted(db.sql.rows("SELECT outcome, count(*) FROM outbox.attempt GROUP BY 1")), [("cancelled", 6), ("published", 1)])
