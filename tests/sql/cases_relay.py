"""Relays: leases, the wake flag, and what becomes of a dead relay's claims."""

from support import expect, ids


def case_ids_are_never_used_again(db):
    first = db.relay()
    db.sql.execute("SELECT outbox.retire_relay(%s)", first)
    assert db.relay() > first


def case_a_beat_extends_the_lease_and_says_who_lives(db):
    relay = db.relay("1 second")
    other = db.relay()
    db.age(other)
    alive, live, now = db.sql.row("SELECT * FROM outbox.beat(%s, '1 hour', 7, true, '{\"x\": 1}')", relay)
    expect((alive, live), (True, 1))
    expect(db.sql.row("SELECT in_flight, listening, info, lease_until > %s + interval '59 minutes' FROM outbox.relay WHERE id = %s", now, relay),
           (7, True, {"x": 1}, True))
    expect(db.sql.row("SELECT * FROM outbox.beat(999, '1 hour', 7, true, null)")[0], False)


def case_set_wake_writes_on_change_only(db):
    relay = db.relay()
    version = "SELECT xmin::text, wake FROM outbox.relay"
    db.sql.execute("SELECT outbox.set_wake(%s, true)", relay)
    before = db.sql.row(version)
    db.sql.execute("SELECT outbox.set_wake(%s, true)", relay)
    expect(db.sql.row(version), before)
    expect(before[1], True)
    expect(db.sql.value("SHOW synchronous_commit"), "on", "only for that transaction")


def case_bump_epoch_counts_and_is_null_for_a_relay_that_is_gone(db):
    relay = db.relay()
    expect([db.sql.value("SELECT outbox.bump_epoch(%s)", relay) for _ in range(2)], [1, 2])
    expect(db.sql.value("SELECT outbox.bump_epoch(999)"), None)


def case_release_unknown_hands_back_what_is_not_held(db):
    db.endpoint("a")
    relay, other = db.relay(), db.relay()
    db.insert_many(4)
    rows = ids(db.claim(relay, {"a": 3})[1])
    theirs = ids(db.claim(other, {"a": 3})[1])
    expect(db.sql.value("SELECT outbox.release_unknown(%s, %s::bigint[])", relay, rows[:1]), 2)
    expect(db.sql.rows("SELECT id, claimed_by FROM outbox.delivery WHERE claimed_by IS NOT NULL ORDER BY id"),
           [(rows[0], relay), (theirs[0], other)])


def case_retire_hands_everything_back(db):
    db.endpoint("a")
    relay = db.relay()
    db.insert_many(3)
    db.claim(relay)
    expect(db.sql.value("SELECT outbox.retire_relay(%s)", relay), 3)
    expect(db.sql.value("SELECT count(*) FROM outbox.relay"), 0)
    expect(db.sql.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NULL"), 3)


def case_rescue_takes_only_from_relays_whose_lease_ran_out_and_not_from_itself(db):
    db.endpoint("a")
    dead, living = db.relay(), db.relay()
    db.insert_many(2)
    first = ids(db.claim(dead, {"a": 1})[1])
    db.claim(living, {"a": 1})
    expect(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", living), [])
    db.age(dead)
    expect(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", dead), [], "its own")
    expect(db.sql.rows("SELECT delivery, endpoint, lane, dead_relay, outcome FROM outbox.rescue(%s, 10, 10)", living),
           [(first[0], "a", "a", dead, "lost")])
    expect(db.sql.rows("SELECT id FROM outbox.relay"), [(living,)])
    expect(db.sql.row("SELECT rescued, attempts, claimed_by, status FROM outbox.delivery WHERE id = %s", first[0]), (1, 0, None, "pending"))
    expect(db.sql.row("SELECT outcome, error, relay FROM outbox.attempt"), ("lost", f"relay {dead} lost its lease", dead))


def case_rescue_is_bounded_and_the_dead_relay_s_row_goes_last(db):
    db.endpoint("a")
    dead, living = db.relay(), db.relay()
    db.insert_many(5)
    db.claim(dead)
    db.age(dead)
    sizes = []
    for _ in range(4):
        sizes.append(len(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 2)", living)))
        sizes.append(db.sql.value("SELECT count(*) FROM outbox.relay"))
    expect(sizes, [2, 2, 2, 2, 1, 1, 0, 1])


def case_too_many_rescues_end_failed_with_the_reason_B19(db):
    db.endpoint("a")
    db.insert()
    living = db.relay()
    outcomes = []
    for _ in range(3):
        dead = db.relay()
        db.claim(dead)
        db.age(dead)
        outcomes += [o for o, in db.sql.rows("SELECT outcome FROM outbox.rescue(%s, 2, 10)", living)]
    expect(outcomes, ["lost", "lost", "failed"])
    expect(db.sql.row("SELECT status, attempts FROM outbox.delivery"), ("failed", 0))
    expect(db.sql.value("SELECT error FROM outbox.attempt ORDER BY id DESC LIMIT 1"), "interrupted 3 times")


def case_a_relay_that_beats_again_before_anybody_rescued_goes_on(db):
    db.endpoint("a")
    relay, other = db.relay(), db.relay()
    db.insert()
    rows = ids(db.claim(relay)[1])
    db.age(relay)
    expect(db.sql.row("SELECT alive FROM outbox.beat(%s, '1h', 0, false, null)", relay), (True,))
    expect(db.sql.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", other), [])
    expect(db.settle(relay, (rows[0], "retried")), rows)


def case_two_rescuers_share_the_work_without_waiting(db):
    db.endpoint("a")
    dead, one, two = db.relay(), db.relay(), db.relay()
    db.insert_many(4)
    db.claim(dead)
    db.age(dead)
    first = db.session()
    first.execute("BEGIN")
    expect(len(first.rows("SELECT * FROM outbox.rescue(%s, 10, 2)", one)), 2)
    second = db.session("relay", "-c lock_timeout=1000")
    expect(second.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", two), [])
    first.execute("ROLLBACK")
    expect(len(second.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", two)), 4)


def case_a_beat_that_waits_for_a_rescue_learns_that_the_relay_is_gone(db):
    dead, other = db.relay(), db.relay()
    db.age(dead)
    rescuer = db.session()
    rescuer.execute("BEGIN")
    rescuer.rows("SELECT * FROM outbox.rescue(%s, 10, 10)", other)
    waiting = db.session().in_background("SELECT alive FROM outbox.beat(%s, '1h', 0, false, null)", dead)
    waiting.is_blocked(db.sql)
    rescuer.execute("COMMIT")
    expect(waiting.finish(), [(False,)])
