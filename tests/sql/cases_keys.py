"""Ordering keys: the oldest row of a key, one at a time, and no key holding up another."""

from support import expect, ids


def setup(db, *names):
    for name in names or ("a",):
        db.endpoint(name)
    return db.relay()


def keyed(rows):
    return [(row["ordering_key"], row["event"]) for row in rows]


def case_only_the_oldest_row_of_a_key_is_offered_B20(db):
    relay = setup(db)
    events = [db.insert(ordering_key=key) for key in ("K", "K", "L", "K")]
    _, rows = db.claim(relay, {"a": 10})
    expect(keyed(rows), [("K", events[0]), ("L", events[2])])
    expect(db.claim(relay, {"a": 10})[1], [], "nothing of a key while its oldest is claimed")
    db.settle(relay, *[(i, "published") for i in ids(rows)])
    _, rows = db.claim(relay, {"a": 10})
    expect(keyed(rows), [("K", events[1])])


def case_a_retried_row_holds_back_its_successors_B21(db):
    relay = setup(db)
    first, second, other = (db.insert(ordering_key=key) for key in ("K", "K", "Q"))
    _, rows = db.claim(relay, {"a": 10})
    db.settle(relay, (rows[0]["id"], "retried", {"retry_in_ms": 3600_000}), (rows[1]["id"], "published"))
    expect(db.claim(relay, {"a": 10})[1], [])
    db.sql.execute("UPDATE outbox.delivery SET due_at = now() WHERE event = %s", first)
    expect(keyed(db.claim(relay, {"a": 10})[1]), [("K", first)])


def case_a_failed_row_lets_its_key_go_on_or_blocks_it_until_unblocked_B21(db):
    for blocks, wanted in [(False, 1), (True, 0)]:
        relay = db.relay() if db.sql.value("SELECT count(*) FROM outbox.endpoint") else setup(db)
        key = f"K{blocks}"
        db.insert(ordering_key=key)
        db.insert(ordering_key=key)
        _, rows = db.claim(relay, {"a": 10})
        db.settle(relay, (rows[0]["id"], "failed", {"blocks": blocks}))
        _, rows = db.claim(relay, {"a": 10})
        expect(len(rows), wanted)
        if rows:
            db.settle(relay, (rows[0]["id"], "published"))
    expect(db.sql.value("SELECT outbox.unblock('a', 'KTrue')"), 1)
    expect(len(db.claim(relay, {"a": 10})[1]), 1)


def case_a_failed_row_without_a_key_never_blocks(db):
    relay = setup(db)
    db.insert()
    _, rows = db.claim(relay, {"a": 10})
    db.settle(relay, (rows[0]["id"], "failed", {"blocks": True}))
    expect(db.sql.value("SELECT blocks FROM outbox.delivery"), False)


def case_keys_of_two_lanes_do_not_hold_each_other_back(db):
    relay = setup(db, "a", "b")
    db.insert(ordering_key="K")
    db.insert(ordering_key="K")
    _, rows = db.claim(relay, {"a": 10})
    db.settle(relay, (rows[0]["id"], "retried", {"retry_in_ms": 3600_000}))
    expect(len(db.claim(relay, {"a": 10, "b": 10})[1]), 1)


def case_a_claim_that_is_not_committed_offers_nothing_more_of_the_key(db):
    first = setup(db)
    second = db.relay()
    db.insert(ordering_key="K")
    db.insert(ordering_key="K")
    one = db.session()
    one.execute("BEGIN")
    _, rows = db.claim(first, {"a": 10}, session=one)
    expect(len(rows), 1)
    expect(db.claim(second, {"a": 10})[1], [])
    one.execute("COMMIT")
    expect(db.claim(second, {"a": 10})[1], [])


def case_a_successor_is_not_offered_before_the_settlement_commits_B23(db):
    relay = setup(db)
    db.insert(ordering_key="K")
    db.insert(ordering_key="K")
    _, rows = db.claim(relay, {"a": 10})
    one = db.session()
    one.execute("BEGIN")
    db.settle(relay, (rows[0]["id"], "published"), session=one)
    expect(db.claim(relay, {"a": 10})[1], [])
    one.execute("COMMIT")
    expect(len(db.claim(relay, {"a": 10})[1]), 1)


def case_rescued_rows_go_before_their_successors_B23(db):
    dead = setup(db)
    first = db.insert(ordering_key="K")
    db.insert(ordering_key="K")
    db.claim(dead, {"a": 10})
    relay = db.relay()
    db.age(dead)
    db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", relay)
    expect(keyed(db.claim(relay, {"a": 10})[1]), [("K", first)])


def case_the_walk_over_keys_goes_on_from_after_key_and_wraps(db):
    relay = setup(db)
    for i in range(10):
        db.insert(ordering_key=f"k{i}")
    report, rows = db.claim(relay, {"a": 4})
    expect((sorted(k for k, _ in keyed(rows)), report["keys"]), (["k0", "k1", "k2", "k3"], {"a": "k3"}))
    report, rows = db.claim(relay, {"a": 4}, after_key=["k3"])
    expect((sorted(k for k, _ in keyed(rows)), report["keys"]), (["k4", "k5", "k6", "k7"], {"a": "k7"}))
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = NULL WHERE ordering_key < 'k3'")
    report, rows = db.claim(relay, {"a": 4}, after_key=["k7"])
    expect((sorted(k for k, _ in keyed(rows)), report["keys"]), (["k0", "k1", "k8", "k9"], {"a": "k1"}))
    report, rows = db.claim(relay, {"a": 4}, after_key=["k1"])
    expect((sorted(k for k, _ in keyed(rows)), report["keys"]), (["k2"], {"a": None}))
    report, rows = db.claim(relay, {"a": 4}, after_key=["k1"])
    expect((rows, report["keys"]), ([], {"a": None}), "came round")
    expect(db.claim(relay, {"a": 4})[0]["keys"], {}, "all visited, nothing to remember")


def case_no_more_than_256_keys_are_visited_at_a_time_and_none_is_forgotten(db):
    relay = setup(db)
    db.sql.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) SELECT 't', '{}', 'k' || lpad(i::text, 4, '0') FROM generate_series(1, 600) i")
    db.sql.execute("UPDATE outbox.delivery SET due_at = now() + interval '1 hour' WHERE ordering_key < 'k0599'")
    found, after = [], None
    for _ in range(3):
        report, rows = db.claim(relay, {"a": 10}, after_key=[after])
        found += [k for k, _ in keyed(rows)]
        after = report["keys"].get("a")
    expect(sorted(found), ["k0599", "k0600"])
    expect(report["keys"], {"a": None} if after is None else {"a": after})


def case_keyed_and_unkeyed_rows_share_a_lane_s_limit(db):
    relay = setup(db)
    db.insert_many(20)
    for i in range(20):
        db.insert(ordering_key=f"k{i:02}")
    _, rows = db.claim(relay, {"a": 10})
    expect((len(rows), len([r for r in rows if r["ordering_key"]])), (10, 5))
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = NULL")
    chosen = {"unkeyed": 0, "keyed": 0}
    for _ in range(40):
        _, rows = db.claim(relay, {"a": 1})
        if not rows:
            break
        expect(len(rows), 1)
        chosen["keyed" if rows[0]["ordering_key"] else "unkeyed"] += 1
    assert min(chosen.values()) >= 10, chosen


def case_half_a_limit_that_one_kind_cannot_use_goes_to_the_other(db):
    relay = setup(db)
    db.insert_many(20)
    db.insert(ordering_key="k")
    _, rows = db.claim(relay, {"a": 10})
    expect((len(rows), len([r for r in rows if r["ordering_key"]])), (10, 1))
    for i in range(20):
        db.insert(ordering_key=f"z{i:02}")
    db.sql.execute("DELETE FROM outbox.delivery WHERE ordering_key IS NULL")
    db.insert()
    _, rows = db.claim(relay, {"a": 10})
    expect((len(rows), len([r for r in rows if r["ordering_key"]])), (10, 9))


def case_a_lane_cut_by_the_row_limit_keeps_its_place(db):
    relay = setup(db, "a", "b")
    for i in range(6):
        db.insert(ordering_key=f"k{i}")
    report, rows = db.claim(relay, {"a": 3, "b": 3}, max_rows=4)
    expect((len(rows), report["keys"]), (4, {"a": "k2"}))


def case_a_blocked_key_with_a_hundred_thousand_rows_costs_one_look(db):
    relay = setup(db)
    db.insert_many(100_000, key="blocked")
    db.sql.execute("UPDATE outbox.delivery SET due_at = now() + interval '1 hour' WHERE event = (SELECT min(event) FROM outbox.delivery)")
    db.sql.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) SELECT 't', '{}', 'k' || lpad(i::text, 4, '0') FROM generate_series(1, 1000) i")
    db.sql.execute("VACUUM ANALYZE outbox.delivery")
    buffers = plan_buffers(db, relay)
    assert buffers < 6000, buffers


def plan_buffers(db, relay):
    plan = db.sql.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM outbox.claim(%s, 0, '{a}', '{200}', null, null, null, null, "
                        "null, 0, 0, 1000, 1000000, 1000000)", relay)[0]["Plan"]
    expect(plan["Actual Rows"], 201)
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
