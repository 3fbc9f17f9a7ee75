"""Circuits shared by relays: opening, probing by one at a time, closing, longer pauses."""

from support import expect


def trip(db, failures=5):
    return db.sql.row("SELECT state, opens, failures, round(extract(epoch FROM open_until - opened_at)) FROM outbox.circuit_trip('a', %s, '60s', '5m', 'boom')", failures)


def probe(db, relay=1, slots=1, hold="1 hour", session=None):
    return (session or db.sql).value("SELECT outbox.circuit_probe('a', %s, %s, %s)", relay, slots, hold)


def result(db, ok, needed=2):
    return db.sql.value("SELECT outbox.circuit_result('a', 1, %s, %s, '60s', '5m', 'again')", ok, needed)


def pass_time(db):
    db.sql.execute("UPDATE outbox.circuit SET open_until = clock_timestamp() - interval '1 s'")


def case_trip_opens_and_a_second_trip_stretches_nothing(db):
    expect(trip(db), ("open", 1, 5, 60))
    expect(trip(db, 99), ("open", 1, 5, 60))


def case_no_probe_before_its_time_and_no_more_than_there_are_slots(db):
    expect(probe(db), False, "closed: nothing to probe")
    trip(db)
    expect(probe(db), False)
    pass_time(db)
    expect([probe(db, slots=2) for _ in range(3)], [True, True, False])
    expect(db.sql.value("SELECT state FROM outbox.circuit"), "half_open")


def case_enough_successes_close_it(db):
    trip(db)
    pass_time(db)
    probe(db)
    expect(result(db, True), "half_open")
    probe(db)
    expect(result(db, True), "closed")
    expect(db.sql.value("SELECT count(*) FROM outbox.circuit"), 0)
    expect(result(db, True), "closed", "a late result finds it closed")


def case_failed_probes_open_it_for_longer_up_to_a_limit(db):
    trip(db)
    pauses = []
    for _ in range(4):
        pass_time(db)
        probe(db)
        expect(result(db, False), "open")
        pauses.append(db.sql.value("SELECT round(extract(epoch FROM open_until - opened_at)) FROM outbox.circuit"))
    expect(pauses, [120, 240, 300, 300])
    expect(result(db, True), "open", "a probe that comes home late")


def case_a_probe_given_back_frees_its_slot_without_a_verdict(db):
    trip(db)
    pass_time(db)
    probe(db)
    expect(probe(db), False)
    expect(result(db, None), "half_open")
    expect(db.sql.row("SELECT successes, probes FROM outbox.circuit"), (0, 0))
    expect(probe(db), True)


def case_the_slot_of_a_dead_prober_comes_free(db):
    trip(db)
    pass_time(db)
    expect(probe(db, hold="0 s"), True)
    expect(probe(db), True)
    expect(probe(db), False)


def case_two_relays_ask_at_once_and_one_may(db):
    trip(db)
    pass_time(db)
    one = db.session()
    one.execute("BEGIN")
    expect(probe(db, 1, session=one), True)
    waiting = db.session().in_background("SELECT outbox.circuit_probe('a', 2, 1, '1h')")
    waiting.is_blocked(db.sql)
    one.execute("COMMIT")
    expect(waiting.finish(), [(False,)])


def case_two_relays_trip_at_once_and_it_opens_once(db):
    one = db.session()
    one.execute("BEGIN")
    one.rows("SELECT * FROM outbox.circuit_trip('a', 5, '60s', '5m', 'x')")
    waiting = db.session().in_background("SELECT opens FROM outbox.circuit_trip('a', 5, '60s', '5m', 'x')")
    waiting.is_blocked(db.sql)
    one.execute("COMMIT")
    expect(waiting.finish(), [(1,)])
