"""The claim of rows without ordering key: limits, bounds, discovery, leases, two relays at once."""

import itertools

from support import expect, ids


def lanes(rows):
    return sorted(row["lane"] for row in rows)


def setup(db, *names):
    for name in names:
        db.endpoint(name, "{%s}" % name)
    return db.relay()


def case_rows_come_in_order_with_their_event_columns_and_a_report(db):
    relay = setup(db, "a")
    events = [db.insert("a") for _ in range(3)]
    report, rows = db.claim(relay, {"a": 2})
    expect([r["event"] for r in rows], events[:2])
    expect(sorted(report), ["cursor", "keys", "more", "now", "wrapped", "xmax", "xmin"])
    assert report["xmin"] <= report["xmax"]
    expect(abs(report["now"] - float(db.sql.value("SELECT extract(epoch FROM clock_timestamp())"))) < 60, True)
    expect(db.sql.rows("SELECT claimed_by FROM outbox.delivery ORDER BY event"), [(relay,), (relay,), (None,)])
    expect([r["event"] for r in db.claim(relay, {"a": 5})[1]], events[2:])
    expect(db.claim(relay, {"a": 5})[1], [])


def case_a_claim_is_a_hot_update(db):
    relay = setup(db, "a")
    db.insert_many(2000, "a")
    db.sql.value("SELECT pg_stat_force_next_flush()::text")
    for _ in range(8):
        db.claim(relay, {"a": 250})
    db.sql.value("SELECT pg_stat_force_next_flush()::text")
    updated, hot = db.sql.row("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'outbox.delivery'::regclass")
    expect(updated, 2000)
    expect(hot, 2000)


def case_no_lease_wrong_epoch_unknown_relay_raise_ob001(db):
    relay = setup(db, "a")
    db.insert("a")
    claim = "SELECT * FROM outbox.claim(%s, %s, '{a}', '{5}', null, null, null, null, null, 0, 0, 100, 1000, 1000)"
    expect(db.sql.error(claim, relay, 1)[0], "OB001")
    expect(db.sql.error(claim, relay + 1, 0)[0], "OB001")
    db.age(relay)
    expect(db.sql.error(claim, relay, 0)[0], "OB001")
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL"), 0)


def case_future_failed_claimed_and_unrouted_rows_are_left(db):
    relay = setup(db, "a")
    db.insert("a", deliver_at="2100-01-01")
    failed, claimed, fine = (db.insert("a") for _ in range(3))
    db.insert("unrouted")
    db.sql.execute("UPDATE outbox.delivery SET status = 'failed' WHERE event = %s", failed)
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = 77 WHERE event = %s", claimed)
    expect([r["event"] for r in db.claim(relay, {"a": 10})[1]], [fine])


def case_expired_rows_are_claimed_so_that_the_relay_can_say_so(db):
    relay = setup(db, "a")
    event = db.insert("a", expires_at="2000-01-01")
    expect([r["event"] for r in db.claim(relay, {"a": 10})[1]], [event])


def case_a_bound_leaves_out_what_is_not_above_it(db):
    relay = setup(db, "a")
    db.insert_many(5, "a")
    rows = db.sql.rows("SELECT due_at, id FROM outbox.delivery ORDER BY id")
    due, first = rows[1]
    expect(ids(db.claim(relay, {"a": 10}, bound_due=[due], bound_id=[first])[1]), [row[1] for row in rows[2:]])
    expect(ids(db.claim(relay, {"a": 10}, bound_due=[None], bound_id=[None])[1]), [row[1] for row in rows[:2]])


def case_a_late_committer_is_found_by_the_rule_of_now_xmin_and_xmax_B01(db):
    relay = setup(db, "a")
    late = db.session()
    late.execute("BEGIN")
    hidden = db.insert("a", session=late)
    seen = db.insert("a")
    report, rows = db.claim(relay, {"a": 10})
    expect([r["event"] for r in rows], [seen])
    bound = {"bound_due": [rows[-1]["due_at"]], "bound_id": [rows[-1]["id"]]}
    second, rows = db.claim(relay, {"a": 10}, **bound)
    expect(rows, [])
    assert second["xmin"] < report["xmax"], "the late transaction keeps xmin back, so the bound is not yet proven"
    late.execute("COMMIT")
    # The row lies below the bound: only a bound that was lowered (or dropped) finds it.
    third, rows = db.claim(relay, {"a": 10}, **bound)
    expect(rows, [])
    assert third["xmin"] >= report["xmax"], (third, report)
    expect([r["event"] for r in db.claim(relay, {"a": 10})[1]], [hidden])
    # Whatever becomes claimable from now on is due at or after that first claim's now.
    expect(db.sql.value("SELECT bool_and(due_at >= to_timestamp(%s)) FROM outbox.delivery WHERE event = %s",
                        report["now"], db.insert("a")), True)


def case_the_youngest_transaction_of_all_counts_as_at_work_B01(db):
    """A snapshot's own xmax is the id after the latest that ended: the only transaction at work is often not below it."""
    relay = setup(db, "a")
    late = db.session()
    late.execute("BEGIN")
    db.insert("a", session=late)
    report, rows = db.claim(relay, {"a": 9})
    expect(rows, [])
    own = late.value("SELECT pg_current_xact_id_if_assigned()::text::bigint")
    assert report["xmax"] > own, ("it wrote before the claim's moment, and yet counts as begun later", report, own)
    late.execute("COMMIT")
    later, rows = db.claim(relay, {"a": 9})
    expect(len(rows), 1)
    assert later["xmin"] >= report["xmax"], (later, report)


def case_limits_rows_and_bytes_bound_a_claim(db):
    relay = setup(db, "a", "b")
    for name in ("a", "b"):
        for _ in range(4):
            db.insert(name, payload='"%s"' % ("x" * 98))
    expect(lanes(db.claim(relay, {"a": 2, "b": 1}, max_rows=10)[1]), ["a", "a", "b"])
    report, rows = db.claim(relay, {"a": 9, "b": 9}, max_rows=1)
    expect((len(rows), report["more"]), (1, False), "cut by rows, which the caller sees itself")
    report, rows = db.claim(relay, {"a": 9, "b": 9}, max_bytes=250)
    expect((len(rows), report["more"]), (2, True), "cut by bytes")
    expect(len(db.claim(relay, {"a": 9, "b": 9}, max_bytes=10)[1]), 1, "the first row is always taken")


def case_bodies_above_fetch_max_need_no_room(db):
    relay = setup(db, "a")
    for _ in range(5):
        db.insert("a", payload='"%s"' % ("x" * 998))
    report, rows = db.claim(relay, {"a": 9}, max_bytes=10, fetch_max=500)
    expect((len(rows), report["more"]), (5, False))


def case_empty_lanes_do_not_use_up_the_row_limit(db):
    relay = setup(db, "a")
    db.insert_many(3, "a")
    known = {f"empty{i}": 5 for i in range(50)} | {"a": 5}
    expect(len(db.claim(relay, known, max_rows=3)[1]), 3)


def case_no_lanes_and_no_discovery_claims_nothing(db):
    relay = setup(db, "a")
    db.insert("a")
    report, rows = db.claim(relay, None, discover_lanes=0)
    expect((rows, report["keys"], report["cursor"]), ([], {}, None))


# Discovery ------------------------------------------------------------------------------------------------------------

def case_discovery_finds_unknown_lanes_but_none_known_or_excluded(db):
    relay = setup(db, "a", "b", "c", "d", "e")
    for name in "abcde":
        db.insert_many(2, name)
    report, rows = db.claim(relay, {"b": 1}, discover_lanes=10, exclude=["d"])
    expect(lanes(rows), ["a", "a", "b", "c", "c", "e", "e"])
    expect((report["cursor"], report["wrapped"]), (None, True))


def case_discovery_goes_on_from_its_cursor_and_wraps_once(db):
    names = [f"n{i}" for i in range(6)]
    relay = setup(db, *names)
    for name in names:
        db.insert(name)
    found, cursor = [], None
    for _ in range(3):
        report, rows = db.claim(relay, None, discover_after=cursor, discover_lanes=2)
        cursor = report["cursor"]
        found.append(lanes(rows))
    expect(found, [["n0", "n1"], ["n2", "n3"], ["n4", "n5"]])
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = NULL")
    report, rows = db.claim(relay, None, discover_after="n4", discover_lanes=3)
    expect((lanes(rows), report["cursor"], report["wrapped"]), (["n0", "n1", "n5"], "n1", True))
    report, rows = db.claim(relay, None, discover_after="n2", discover_lanes=50)
    expect((lanes(rows), report["cursor"], report["wrapped"]), (["n2", "n3", "n4"], None, True))


def case_discovery_at_any_cursor_with_any_known_lanes_visits_each_lane_once(db):
    names = [f"n{i}" for i in range(5)]
    relay = setup(db, *names)
    for name in names:
        db.insert(name)
    for size in range(6):
        for known in itertools.combinations(names, size):
            for cursor in [None, "", "n", "n0", "n2", "n2x", "n4", "zz"]:
                db.sql.execute("UPDATE outbox.delivery SET claimed_by = NULL WHERE claimed_by IS NOT NULL")
                _, rows = db.claim(relay, None, discover_after=cursor, discover_lanes=50, exclude=list(known))
                expect(lanes(rows), sorted(set(names) - set(known)), (known, cursor))


def case_discovery_limits_rows_per_lane_and_passes_lanes_with_nothing_due(db):
    relay = setup(db, "a", "b", "c")
    db.insert_many(9, "c")
    for name in "ab":
        db.insert(name, deliver_at="2100-01-01")
    _, rows = db.claim(relay, None, discover_lanes=1, discover_limit=4)
    expect(lanes(rows), ["c"] * 4)


def case_lists_longer_than_the_lanes_do_not_reach_found_lanes(db):
    relay = setup(db, "a", "b")
    for name in "ab":
        db.insert(name)
    far = ["2100-01-01"] * 3
    _, rows = db.claim(relay, None, discover_lanes=5, bound_due=far, bound_id=[1, 1, 1], after_key=["z"] * 3)
    expect(lanes(rows), ["a", "b"])


def case_discovery_finds_direct_urls_and_lanes_with_keys_only(db):
    relay = setup(db, "a")
    db.insert("a", ordering_key="k")
    db.insert(url="https://x")
    expect(lanes(db.claim(relay)[1]), ["a", "url:https://x:443"])


# Two relays -----------------------------------------------------------------------------------------------------------

def case_two_sessions_never_take_the_same_row_and_never_wait(db):
    first = setup(db, "a")
    second = db.relay()
    db.insert_many(30, "a")
    one, two = db.session(), db.session("relay", "-c lock_timeout=1000")
    one.execute("BEGIN")
    taken = ids(db.claim(first, {"a": 10}, session=one)[1])
    others = ids(db.claim(second, {"a": 10}, session=two)[1])
    expect((len(taken), len(others), set(taken) & set(others)), (10, 10, set()))
    one.execute("ROLLBACK")
    expect(ids(db.claim(second, {"a": 10}, session=two)[1]), taken)


def case_a_running_claim_holds_back_epoch_and_rescue_so_that_nothing_is_lost_B19(db):
    relay = setup(db, "a")
    other = db.relay()
    db.insert_many(3, "a")
    old = db.session()
    old.execute("BEGIN")
    db.claim(relay, {"a": 2}, session=old)
    # A heartbeat passes, the epoch waits.
    expect(db.sql.row("SELECT alive FROM outbox.beat(%s, '1h', 0, false, null)", relay), (True,))
    waiting = db.session().in_background("SELECT outbox.bump_epoch(%s)", relay)
    waiting.is_blocked(db.sql)
    expect(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other), [])
    old.execute("COMMIT")
    expect(waiting.finish(), [(1,)])
    expect(db.sql.error("SELECT * FROM outbox.claim(%s, 0, '{a}', '{5}', null, null, null, null, null, 0, 0, 100, 1000, 1000)", relay)[0], "OB001")
    expect(db.sql.value("SELECT outbox.release_unknown(%s, '{}')", relay), 2)
    expect(len(db.claim(relay, {"a": 5}, epoch=1)[1]), 3)


def case_a_dead_relay_whose_claim_is_still_running_is_skipped_by_rescue(db):
    relay = setup(db, "a")
    other = db.relay()
    db.insert_many(3, "a")
    old = db.session()
    old.execute("BEGIN")
    db.claim(relay, {"a": 3}, session=old)
    old.execute("UPDATE outbox.relay SET lease_until = clock_timestamp() - interval '1 s' WHERE id = %s", relay)
    expect(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other), [])
    old.execute("COMMIT")
    expect(len(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 100)", other)), 3)


def case_serializable_and_repeatable_read_sessions_work_or_fail_retryably(db):
    relay = setup(db, "a")
    second = db.relay()
    for level in ["serializable", "repeatable\\ read"]:
        db.insert_many(10, "a")
        session = db.session("relay", f"-c default_transaction_isolation={level}")
        _, rows = db.claim(relay, {"a": 5}, session=session)
        expect(len(rows), 5)
        expect(len(db.settle(relay, *[(i, "published") for i in ids(rows)], session=session)), 5)
        session.execute("BEGIN")
        session.value("SELECT count(*) FROM outbox.delivery")
        db.claim(second, {"a": 3})
        code = session.error("SELECT * FROM outbox.claim(%s, 0, '{a}', '{9}', null, null, null, null, null, 0, 0, 100, 1000, 1000)", relay)
        session.execute("ROLLBACK")
        expect(code[0], "40001")
        for sql in ["SELECT * FROM outbox.beat(%d, '1h', 0, true, '{}')" % relay, "SELECT outbox.sweep(10)", "SELECT * FROM outbox.route(10, '1h')",
                    "SELECT * FROM outbox.rescue(%d, 3, 10)" % relay, "SELECT * FROM outbox.purge('1d', '1d', '1d', 10)",
                    "SELECT outbox.release_unknown(%d, '{}')" % second]:
            expect(session.error(sql), None, sql)
        db.sql.execute("DELETE FROM outbox.delivery")


def case_hostile_role_settings_do_not_change_a_claim_or_a_settlement(db):
    relay = setup(db, "a")
    for settings in ["-c search_path=", "-c enable_indexscan=off -c enable_nestloop=off -c enable_tidscan=off",
                     "-c plan_cache_mode=force_custom_plan -c datestyle=sql,dmy -c timezone=Asia/Kolkata -c intervalstyle=sql_standard",
                     "-c standard_conforming_strings=off -c plpgsql.extra_errors=all -c plpgsql.variable_conflict=use_variable"]:
        session = db.session("relay", settings)
        db.insert_many(4, "a")
        db.insert("a", ordering_key="k")
        _, rows = db.claim(relay, {"a": 10}, session=session, discover_lanes=5)
        expect(len(rows), 5, settings)
        results = ["published", "published", "retried", "released", "failed"]
        expect(len(db.settle(relay, *zip(ids(rows), results), session=session)), 5, settings)
        db.sql.execute("DELETE FROM outbox.delivery")
