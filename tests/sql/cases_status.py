"""The view `status`: one row per event and endpoint, in every state."""

from support import expect, ids


def status(db, event, columns="endpoint, status, attempts, last_outcome, last_error"):
    return sorted(db.sql.rows(f"SELECT {columns} FROM outbox.status WHERE event = %s", event), key=str)


def case_a_delivery_s_way_from_pending_to_published(db):
    db.endpoint("a")
    relay, event = db.relay(), db.insert()
    expect(status(db, event), [("a", "pending", 0, None, None)])
    _, rows = db.claim(relay)
    expect(status(db, event), [("a", "pending", 0, None, None)])
    db.settle(relay, (rows[0]["id"], "retried", {"retry_in_ms": 60000, "error_class": "timeout"}))
    expect(status(db, event), [("a", "retrying", 1, "retried", "timeout")])
    expect(status(db, event, "next_attempt_at > clock_timestamp(), published_at"), [(True, None)])
    db.sql.execute("UPDATE outbox.delivery SET due_at = now()")
    db.claim(relay)
    db.settle(relay, (rows[0]["id"], "published", {"http_status": 200}))
    expect(status(db, event), [("a", "published", 2, "published", None)])
    expect(status(db, event, "next_attempt_at, published_at IS NOT NULL, delivery"), [(None, True, rows[0]["id"])])


def case_each_endpoint_has_a_row_of_its_own(db):
    for name in "abcd":
        db.endpoint(name)
    relay, event = db.relay(), db.insert()
    _, rows = db.claim(relay)
    row = {r["lane"]: r["id"] for r in rows}
    db.settle(relay, (row["a"], "published"), (row["b"], "failed", {"error": "no"}), (row["c"], "expired"))
    expect(status(db, event), [("a", "published", 1, "published", None), ("b", "failed", 1, "failed", "no"),
                               ("c", "expired", 0, "expired", None), ("d", "pending", 0, None, None)])


def case_unrouted_wide_unseen_and_direct_events(db):
    db.sql.execute("UPDATE outbox.setting SET value = '0'")
    wide_open = db.insert("x")
    expect(status(db, wide_open, "endpoint, status"), [(None, "unrouted")])
    expect(status(db, db.insert(endpoint="nobody"), "endpoint, status"), [("nobody", "unrouted")])
    db.endpoint("a", "{wide}")
    expect(status(db, db.insert("wide"), "endpoint, status"), [(None, "pending")], "the daemon will fan it out")
    unseen = db.insert(session=db.session("postgres", "-c session_replication_role=replica"))
    expect(status(db, unseen, "endpoint, status, delivery"), [(None, "pending", None)])
    relay, direct = db.relay(), db.insert(url="https://u/x")
    expect(status(db, direct, "endpoint, url, status"), [(None, "https://u/x", "pending")])
    _, rows = db.claim(relay)
    db.settle(relay, *[(i, "published") for i in ids(rows)])
    expect(status(db, direct, "endpoint, url, status"), [(None, "https://u/x", "published")])


def case_a_replay_shows_as_one_row_before_and_after(db):
    db.endpoint("a")
    relay, event = db.relay(), db.insert()
    for outcome, shown in [("published", "published"), ("failed", "failed"), ("published", "published")]:
        _, rows = db.claim(relay)
        db.settle(relay, (rows[0]["id"], outcome))
        expect(status(db, event, "status"), [(shown,)])
        db.sql.rows("SELECT * FROM outbox.replay(%s, null)", event)
        expect(status(db, event, "status, attempts"), [("pending", 0)])


def case_a_lost_attempt_shows_as_retrying(db):
    db.endpoint("a")
    dead, event = db.relay(), db.insert()
    db.claim(dead)
    db.age(dead)
    db.sql.rows("SELECT * FROM outbox.rescue(%s, 5, 5)", db.relay())
    expect(status(db, event), [("a", "retrying", 0, "lost", f"relay {dead} lost its lease")])
