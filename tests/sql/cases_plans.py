"""What the hot functions read, in buffers: independent of backlog, of statistics and of snapshots held elsewhere.

Buffers are stable where times are not. Each limit is some way above what was measured, and far below what the wrong plan
reads (a walk over the live table or over its dead index entries)."""

from support import expect, ids

CLAIM = ("SELECT * FROM outbox.claim(%s, 0, %s::text[], %s::int[], %s::timestamptz[], %s::bigint[], null, %s::text[], null, %s, 16, "
         "10000, 1000000000, 1000000)")


def buffers(session, sql, *parameters, rows=None):
    """Buffers a statement touches, functions' inner statements included. Run once before, so that plans are made."""
    plan = session.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, *parameters)[0]["Plan"]
    if rows is not None:
        expect(plan["Actual Rows"], rows)
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def claim_buffers(db, relay, lanes, bound=(None, None), exclude=None, discover=0, rows=None, session=None):
    return buffers(session or db.sql, CLAIM, relay, list(lanes), list(lanes.values()), [bound[0]], [bound[1]], exclude, discover, rows=rows)


def settle_buffers(db, relay, rows, outcome, session=None):
    return buffers(session or db.sql, "SELECT * FROM outbox.settle(%s, %s::bigint[], %s, null, null, null, null, null, null, null, null, null, null, null)",
                   relay, rows, [outcome] * len(rows), rows=len(rows))


def backlog(db, statistics, count=40_000):
    """One lane with `count` rows under statistics of several kinds."""
    if not db.sql.value("SELECT count(*) FROM outbox.endpoint"):
        db.endpoint("a")
    db.sql.execute("ALTER TABLE outbox.delivery SET (autovacuum_enabled = off)")
    if statistics == "of an empty table":
        db.sql.execute("VACUUM ANALYZE outbox.delivery, outbox.attempt, outbox.event")
    db.insert_many(count)
    if statistics == "of the full table":
        db.sql.execute("VACUUM ANALYZE outbox.delivery, outbox.event")


def case_claim_and_settle_read_the_same_under_all_statistics(db):
    db.endpoint("a")
    relay = db.relay()
    for statistics in ["none", "of an empty table", "of the full table"]:
        db.sql.execute("TRUNCATE outbox.event")
        backlog(db, statistics)
        session = db.session()
        db.claim(relay, {"a": 10}, session=session)
        claimed = claim_buffers(db, relay, {"a": 256}, rows=257, session=session)
        rows = [r for r, in db.sql.rows("SELECT id FROM outbox.delivery WHERE claimed_by IS NOT NULL ORDER BY id")]
        db.settle(relay, (rows[0], "published"), (rows[1], "retried"), session=session)
        published = settle_buffers(db, relay, rows[10:110], "published", session)
        retried = settle_buffers(db, relay, rows[110:210], "retried", session)
        print(f"        statistics {statistics}: claim of 256 {claimed}, settle of 100 published {published}, retried {retried} buffers")
        assert claimed < 2500, claimed
        assert published < 1600, published
        assert retried < 3000, retried


def case_a_small_table_that_grew_within_the_session_keeps_its_plans(db):
    backlog(db, "none", 20)
    relay, session = db.relay(), db.session()
    for _ in range(8):
        rows = ids(db.claim(relay, {"a": 2}, session=session)[1])
        db.settle(relay, *[(i, "published") for i in rows], session=session)
    db.insert_many(40_000)
    assert claim_buffers(db, relay, {"a": 100}, rows=101, session=session) < 1200
    rows = [r for r, in db.sql.rows("SELECT id FROM outbox.delivery WHERE claimed_by IS NOT NULL")]
    assert settle_buffers(db, relay, rows, "published", session) < 1600


def case_a_bound_makes_a_held_snapshot_harmless_B17(db):
    backlog(db, "none", 30_000)
    relay = db.relay()
    held = db.session()
    held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    held.value("SELECT count(*) FROM outbox.delivery")
    bound = (None, None)
    for _ in range(20):
        _, rows = db.claim(relay, {"a": 1000}, bound_due=[bound[0]], bound_id=[bound[1]])
        bound = (rows[-1]["due_at"], rows[-1]["id"])
        db.settle(relay, *[(r["id"], "published") for r in rows])
    with_bound = claim_buffers(db, relay, {"a": 100}, bound, rows=101)
    without = claim_buffers(db, relay, {"a": 100}, rows=101)
    print(f"        20,000 dead rows under a held snapshot: claim of 100 with a bound {with_bound}, without {without} buffers")
    # Four buffers a row for the delivery, three for its event.
    assert with_bound < 800 and without > with_bound + 400, (with_bound, without)


def case_discovery_does_not_step_through_a_known_lane_s_dead_rows_B17(db):
    backlog(db, "none", 20_000)
    db.endpoint("zz", "{other}")
    relay = db.relay()
    held = db.session()
    held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    held.value("SELECT count(*) FROM outbox.delivery")
    for _ in range(20):
        db.settle(relay, *[(i, "published") for i in ids(db.claim(relay, {"a": 1000})[1])])
    db.insert_many(5, "other")
    db.sql.execute("DELETE FROM outbox.delivery WHERE lane = 'a'")
    bound = db.sql.row("SELECT clock_timestamp(), 0::bigint")
    known = claim_buffers(db, relay, {"a": 10}, bound, discover=10, rows=6)
    db.sql.execute("UPDATE outbox.delivery SET claimed_by = NULL")
    excluded = claim_buffers(db, relay, {"b": 1}, exclude=["a"], discover=10, rows=6)
    print(f"        discovery past 20,000 dead rows: known lane {known}, excluded lane {excluded} buffers")
    assert max(known, excluded) < 300, (known, excluded)


def case_discovery_among_five_thousand_lanes_is_bounded(db):
    db.sql.execute("INSERT INTO outbox.event (event_type, payload, url, breaker_key) SELECT 't', '{}', 'https://x', 'k' || i FROM generate_series(1, 5000) i")
    relay = db.relay()
    db.claim(relay, discover_lanes=2)
    cost = claim_buffers(db, relay, {}, discover=64, rows=63)  # two of the 64 lanes are claimed already
    print(f"        64 of 5,000 lanes found and claimed: {cost} buffers")
    assert cost < 1800, cost
    db.sql.execute("UPDATE outbox.delivery SET due_at = now() + interval '1 hour'")
    idle = claim_buffers(db, relay, {}, discover=64, rows=1)
    print(f"        5,000 lanes with nothing due: {idle} buffers")
    assert idle < 4000, idle


def case_sixty_four_known_lanes_cost_little(db):
    db.sql.execute("INSERT INTO outbox.event (event_type, payload, url, breaker_key) SELECT 't', '{}', 'https://x', 'k' || i %% 64 FROM generate_series(1, 6400) i"
                   .replace("%%", "%"))
    relay = db.relay()
    lanes = {f"url:k{i}": 4 for i in range(64)}
    cost = buffers(db.sql, CLAIM, relay, list(lanes), list(lanes.values()), None, None, None, 0, rows=257)
    print(f"        64 lanes x 4 rows: {cost} buffers")
    assert cost < 3500, cost


def case_maintenance_reads_by_index_only(db):
    backlog(db, "none", 20_000)
    relay = db.relay()
    for _ in range(10):
        db.settle(relay, *[(i, "published") for i in ids(db.claim(relay, {"a": 1000})[1])])
    db.sql.execute("VACUUM outbox.event")
    costs = {}
    for name, sql in [("sweep", "SELECT outbox.sweep(1000, '0')"), ("route", "SELECT * FROM outbox.route(1000, '1h')"),
                      ("purge", "SELECT * FROM outbox.purge('1h', '1h', '1h', 1000)"), ("cancel", "SELECT outbox.cancel(15000)"),
                      ("replay", "SELECT * FROM outbox.replay(15001, null)"), ("unblock", "SELECT outbox.unblock('a', 'k')"),
                      ("remove_endpoint", "SELECT * FROM outbox.remove_endpoint('a', 100)")]:
        db.sql.execute(sql)
        costs[name] = buffers(db.sql, sql)
    print("        " + ", ".join(f"{name} {cost}" for name, cost in costs.items()) + " buffers")
    for name, limit in [("sweep", 14_000), ("route", 60), ("purge", 10_000), ("cancel", 100), ("replay", 200), ("unblock", 60),
                        ("remove_endpoint", 3000)]:
        assert costs[name] < limit, (name, costs[name])


def case_status_of_one_event_is_read_by_index_whatever_the_history(db):
    backlog(db, "none", 20_000)
    relay = db.relay()
    for _ in range(10):
        db.settle(relay, *[(i, "published") for i in ids(db.claim(relay, {"a": 1000})[1])])
    for statistics in ["none", "fresh"]:
        if statistics == "fresh":
            db.sql.execute("VACUUM ANALYZE outbox.event, outbox.delivery, outbox.attempt")
        for event in (100, 15_000):
            public = db.sql.value("SELECT event_id FROM outbox.event WHERE id = %s", event)
            cost = buffers(db.sql, "SELECT * FROM outbox.status WHERE event_id = %s", public, rows=1)
            assert cost < 60, (statistics, event, cost)


def case_an_insert_s_trigger_reads_a_few_pages_among_ten_thousand_endpoints(db):
    db.sql.execute("INSERT INTO outbox.endpoint (name, url, tenant_id) SELECT 'e' || i, 'u', 't' || i FROM generate_series(1, 10000) i")
    insert = "INSERT INTO outbox.event (event_type, payload, tenant_id) VALUES ('a.b.c', '{}', 't77')"
    db.sql.execute(insert)
    plan = db.sql.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + insert)[0]
    expect(db.sql.rows("SELECT DISTINCT lane FROM outbox.delivery"), [("e77",)])
    # The trigger's own buffers are not in the plan; its time is.
    spent = [t["Time"] for t in plan["Triggers"] if t["Trigger Name"] == "event_fan_out"][0]
    print(f"        fan-out of one event among 10,000 endpoints: {spent} ms")
    assert spent < 20, spent
