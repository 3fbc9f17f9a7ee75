"""Order, retry hints, circuits and replay under two real relays: cases B17, B20, B21, B23, B49, B50, B52."""

import email.utils
import json
import random
import threading
import time

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for
from outboxtest.cluster import connect

# Short leases, so that what a dead relay held comes back soon.
QUICK = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s", "poll_interval": "200ms"}}
FAST = {"signing": "none", "timeout": "2s", "adaptive": False, "circuit": {"failures": 0},
        "retry": {"schedule": ["300ms"] * 7, "jitter": 0}}


def settings(**more):
    return {**FAST, **more}


def insert_keys(outbox, keys, rows):
    """`rows` events for each key, in turn, as one transaction each; the body carries key and number."""
    outbox.rows("INSERT INTO outbox.event (event_type, payload, ordering_key) "
                "SELECT 'state', json_build_object('key', k, 'n', n), k FROM generate_series(1, %s) n, unnest(%s) k ORDER BY n",
                (rows, list(keys)))


def by_key(requests):
    found = {}
    for request in requests:
        body = request.json()
        found.setdefault(body["key"], []).append((body["n"], request))
    return found


def first_deliveries(requests):
    """The numbers of one key in order of their first arrival."""
    seen = []
    for number, _ in requests:
        if number not in seen:
            seen.append(number)
    return seen


def run(outbox, *arguments, **options):
    return run_command(*arguments, config={"database": {"url": outbox.uri}}, **options)


def test_B17_an_old_snapshot_does_not_slow_claims(outbox, relays):
    with Receiver(keep_bodies=False) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings())
        relay = relays({"log": {"attempts": "failures"}})
        old = connect(outbox.uri, autocommit=False)

        def claim_time():
            return relay.metric("outboxd_claim_seconds_sum"), relay.metric("outboxd_claim_seconds_count")

        def feed(seconds):
            end = time.monotonic() + seconds
            rows = 0
            before = claim_time()
            while time.monotonic() < end:
                outbox.insert_many(25)
                rows += 25
                time.sleep(0.05)
            after = claim_time()
            return rows, (after[0] - before[0]) / max(1, after[1] - before[1])

        rows, calm = feed(3)
        with old.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT 1")
        more, held = feed(10)
        outbox.wait_outcomes(rows + more, timeout=30)
        # The claim's lower bound passes over what vacuum may not remove; ten times a calm claim is far from crawling.
        assert held < max(0.05, 10 * calm)
        old.rollback()
        old.close()
        updates, hot = outbox.rows("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'delivery'")[0]
        assert updates <= 1.2 * (rows + more)   # one per delivered row: its claim
        assert hot >= 0.5 * updates
        assert relay.metric("outboxd_oldest_due_seconds") < 5
        last, _ = feed(2)
        outbox.wait_outcomes(rows + more + last, timeout=20)


def test_B20_two_relays_and_a_kill_keep_the_order_of_every_key(outbox, relays):
    lot = random.Random(20)
    with Receiver(lambda request: Answer(200, delay=lot.uniform(0, 0.1))) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(concurrency=16))
        config = {**QUICK, "log": {"attempts": "failures"}}
        first, _ = relays(config), relays(config)
        keys = [f"k{n}" for n in range(20)]
        insert_keys(outbox, keys, 40)
        receiver.wait_for(200, 60)
        first.kill()
        first.start()
        outbox.wait_outcomes(800, timeout=90)
        for key, requests in by_key(receiver.snapshot()).items():
            assert first_deliveries(requests) == list(range(1, 41)), key
            numbers = [number for number, _ in requests]
            # A repeat comes before its successor, and only of the one row that was on its way at the kill.
            assert numbers == sorted(numbers) and len(numbers) <= 41, (key, numbers)
            for (_, one), (_, following) in zip(requests, requests[1:]):
                assert one.answered_monotonic is None or one.answered_monotonic <= following.arrived_monotonic, key


RETRY_HINT = Answer(503, headers={"Retry-After": "1"})


def insert_key(outbox, key, rows, start=1):
    outbox.rows("INSERT INTO outbox.event (event_type, payload, ordering_key) "
                "SELECT 'state', json_build_object('key', %s::text, 'n', n), %s FROM generate_series(%s, %s) n",
                (key, key, start, start + rows - 1))


@pytest.mark.parametrize("later", [False, True])
def test_B21_a_row_that_waits_for_its_retry_is_not_overtaken(outbox, relays, later):
    def answer(request):
        body = request.json()
        return RETRY_HINT if body["key"] == "K" and body["n"] == 1 and request.attempt_of_id <= 2 else 200

    with Receiver(answer) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings())
        relays(QUICK), relays(QUICK)
        insert_key(outbox, "K", 1 if later else 5)
        insert_key(outbox, "Q", 5)
        wait_for(lambda: len(by_key(receiver.snapshot()).get("Q", [])) == 5, 5, "Q beside a waiting K")
        assert [n for n, _ in by_key(receiver.snapshot())["K"]] == [1]
        if later:
            insert_key(outbox, "K", 4, start=2)
        waiting = outbox.value("SELECT event_id FROM outbox.event WHERE ordering_key = 'K' ORDER BY id DESC LIMIT 1")
        why = run(outbox, "why", waiting)
        assert later or "behind event" in why.stdout, why.stdout
        outbox.wait_outcomes(10, timeout=20)
        assert [n for n, _ in by_key(receiver.snapshot())["K"]] == [1, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("by_hand", ["continue", "unblock", "cancel", "retry"])
def test_B21_after_a_final_failure_the_key_goes_on_or_waits_for_an_operator(outbox, relays, by_hand):
    broken = threading.Event()
    broken.set()

    def answer(request):
        body = request.json()
        return 404 if body["key"] == "K" and body["n"] == 1 and broken.is_set() else 200

    with Receiver(answer) as receiver:
        on_failed = "continue" if by_hand == "continue" else "block"
        outbox.add_endpoint("a", receiver.url(), settings=settings(on_failed=on_failed, responses={"permanent": ["404"]}))
        relay, _ = relays(QUICK), relays(QUICK)
        insert_key(outbox, "K", 3)
        insert_key(outbox, "Q", 3)
        if by_hand == "continue":
            outbox.wait_outcomes(5, timeout=20)
            assert outbox.outcomes() == {"failed": 1, "published": 5}
            return
        outbox.wait_outcomes(3, timeout=20)
        outbox.wait_outcomes(1, "failed", timeout=20)
        wait_for(lambda: relay.metric("outboxd_blocked_keys") == 1, 15, "the metric of blocked keys")
        blocked = json.loads(run(outbox, "status", "--json").stdout)["blocked_keys"]
        assert [(b["ordering_key"], b["lane"]) for b in blocked] == [("K", "a")]
        last = outbox.value("SELECT event_id FROM outbox.event WHERE ordering_key = 'K' ORDER BY id DESC LIMIT 1")
        assert "on_failed: block" in run(outbox, "why", last).stdout
        assert len(by_key(receiver.snapshot())["K"]) == 1
        broken.clear()
        done = run(outbox, "delivery", by_hand, str(blocked[0]["delivery"]))
        assert done.returncode == 0, done.stderr
        outbox.wait_outcomes(6 if by_hand == "retry" else 5, timeout=20)
        expected = {"unblock": [1, 2, 3], "cancel": [1, 2, 3], "retry": [1, 1, 2, 3]}[by_hand]
        assert [n for n, _ in by_key(receiver.snapshot())["K"]] == expected
        assert outbox.outcomes().get("cancelled", 0) == (1 if by_hand == "cancel" else 0)
        wait_for(lambda: relay.metric("outboxd_blocked_keys") == 0, 15, "no key is blocked")


@pytest.mark.parametrize("fate", ["kill", "freeze"])
def test_B21_B23_a_row_of_a_relay_that_died_or_froze_keeps_its_place(outbox, relays, gate, fate):
    slow = gate(holds=lambda request: request.json()["n"] == 2 and request.attempt_of_id == 1)
    with Receiver(slow) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings())
        holder = relays(QUICK)
        insert_key(outbox, "K", 3)
        receiver.wait_for(2, 20)
        getattr(holder, fate)()
        other = relays(QUICK)
        while outbox.value("SELECT count(*) FROM outbox.relay WHERE lease_until > clock_timestamp()") == 2:
            assert [n for n, _ in by_key(receiver.snapshot())["K"]] == [1, 2]
            time.sleep(0.02)
        if fate == "freeze":
            slow.open()
        outbox.wait_outcomes(3, timeout=30)
        assert [n for n, _ in by_key(receiver.snapshot())["K"]] == [1, 2, 2, 3]
        assert outbox.outcomes()["lost"] == 1
        assert outbox.value("SELECT max(attempt) FROM outbox.attempt WHERE outcome = 'published'") == 1
        if fate == "freeze":
            holder.thaw()
        insert_key(outbox, "K", 1, start=4)
        outbox.wait_outcomes(4, timeout=20)
        assert other.process.poll() is None
        assert outbox.twice_published() == 0


def test_B49_every_accepted_replay_is_one_more_send_of_the_same_bytes(outbox, relays, gate):
    held = gate(holds=lambda request: request.target.startswith("/held"))

    def answer(request):
        if request.target.startswith("/dead"):
            return 404
        if request.target.startswith("/wait"):
            return Answer(503, headers={"Retry-After": "3600"})
        return held(request)

    with Receiver(answer) as receiver:
        for name in ("ok", "dead", "wait", "held"):
            outbox.add_endpoint(name, receiver.url("/" + name), settings=settings(timeout="20s", responses={"permanent": ["404"]}),
                                events=[f"{name}.event"])
        relays({"relay": {"lease": "60s"}})
        ids = {name: outbox.insert(f"{name}.event", '{"b":1, "a":1.0}') for name in ("ok", "dead", "wait", "held")}
        receiver.wait_for(4, 20)
        outbox.wait_outcomes(1), outbox.wait_outcomes(1, "failed"), outbox.wait_outcomes(1, "retried")
        for again in (2, 3):
            for name in ("ok", "dead", "wait"):
                done = run(outbox, "replay", ids[name])
                assert done.returncode == 0, done.stderr
                wait_for(lambda: len(receiver.of(ids[name])) == again, 15, f"send {again} of {name}")
        for _ in range(2):
            busy = run(outbox, "replay", ids["held"])
            assert busy.returncode != 0 and "relay" in busy.stdout + busy.stderr, busy.stdout + busy.stderr
        assert len(receiver.of(ids["held"])) == 1
        for _ in range(2):
            missing = run(outbox, "replay", "no-such-event")
            assert missing.returncode != 0 and "no-such-event" in missing.stderr
        held.open()
        for name in ("ok", "dead", "wait"):
            assert {r.body for r in receiver.of(ids[name])} == {b'{"b":1, "a":1.0}'}
            assert {r.key for r in receiver.of(ids[name])} == {ids[name]}
        copy = run(outbox, "replay", ids["ok"], "--new-id")
        assert copy.returncode == 0, copy.stderr
        receiver.wait_for(1, 15, lambda r: r.event_type == "ok.event" and r.id != ids["ok"])


def test_B49_many_failed_deliveries_are_replayed_at_the_pace_asked_for(outbox, relays):
    broken = threading.Event()
    broken.set()
    with Receiver(lambda request: 404 if broken.is_set() else 200) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(responses={"permanent": ["404"]}))
        relays({"log": {"attempts": "none"}})
        outbox.insert_many(300)
        outbox.wait_outcomes(300, "failed", timeout=60)
        broken.clear()
        receiver.clear()
        began = time.monotonic()
        done = run(outbox, "replay", "--endpoint", "a", "--status", "failed", "--rate", "100/s")
        assert done.returncode == 0, done.stderr
        outbox.wait_outcomes(300, timeout=30)
        assert time.monotonic() - began >= 2.0
        assert len(receiver.snapshot()) == 300


def test_B49_a_replay_waits_while_the_circuit_is_open(outbox, relays):
    broken = threading.Event()
    with Receiver(lambda request: 500 if broken.is_set() else 200) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(circuit={"failures": 2, "open_for": "10s", "successes": 1}))
        relays(QUICK)
        event = outbox.insert()
        outbox.wait_outcomes(1)
        broken.set()
        outbox.insert_many(2)
        wait_for(lambda: outbox.rows("SELECT 1 FROM outbox.circuit WHERE state = 'open'"), 10, "an open circuit")
        broken.clear()
        assert run(outbox, "replay", event).returncode == 0
        assert "circuit" in run(outbox, "why", event).stdout
        assert len(receiver.of(event)) == 1
        wait_for(lambda: len(receiver.of(event)) == 2, 30, "the replay after the circuit")


def hint_table():
    """Value of Retry-After, and the pause it gives where the schedule says five seconds."""
    now = time.time()
    clock = time.gmtime(now + 60)
    day = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"][clock.tm_wday]
    month = email.utils.formatdate(now + 60).split()[2]
    time_of_day = time.strftime("%H:%M:%S", clock)
    return [("7", 7), ("0", 5), ("-3", 5), ("+3", 5), ("1.5", 5), ("007", 7), ("120junk", 5), ("9999999999", 86400),
            ("99999999999999999999", 86400), ("", 5), ("soon", 5), (("9", "soon"), 9), ("5 5", 5),
            (email.utils.formatdate(now + 60, usegmt=True), 60),
            (f"{day}, {clock.tm_mday:02}-{month}-{clock.tm_year % 100:02} {time_of_day} GMT", 60),
            (f"{day[:3]} {month} {clock.tm_mday:2} {time_of_day} {clock.tm_year}", 60),
            (email.utils.formatdate(now - 3600, usegmt=True), 5)]


@pytest.mark.parametrize("status", [429, 503])
def test_B50_retry_after_in_all_its_forms(outbox, relays, status):
    table = hint_table()

    def answer(request):
        value = table[request.json()["row"]][0]
        values = value if isinstance(value, tuple) else (value,)
        return Answer(status, headers=dict(zip(("Retry-After", "retry-after"), values)))

    with Receiver(answer) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(retry={"schedule": ["5s", "5s"], "jitter": 0}))
        relay = relays()
        ids = [outbox.insert(payload=json.dumps({"row": row})) for row in range(len(table))]
        outbox.wait_outcomes(len(table), "retried", timeout=30)
        pauses = dict(outbox.rows("SELECT e.event_id, extract(epoch FROM a.next_attempt_at - a.finished_at)::float8 "
                                  "FROM outbox.attempt a JOIN outbox.event e ON e.id = a.event WHERE a.attempt = 1"))
        for row, event in enumerate(ids):
            # A date has whole seconds, and time passes between this table and the answer.
            slack = 12 if table[row][1] == 60 else 0.6
            assert table[row][1] - slack <= pauses[event] <= table[row][1] + 0.6, (table[row], pauses[event])
        assert relay.cpu_seconds() < 5


def test_B50_retry_after_on_a_success_means_nothing(outbox, relays):
    with Receiver(lambda request: Answer(200, headers={"Retry-After": "120"})) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings())
        relays()
        outbox.insert_many(3)
        outbox.wait_outcomes(3, timeout=10)
        assert len(receiver.snapshot()) == 3


def test_B52_an_open_circuit_uses_up_no_attempts_and_sends_single_probes(outbox, relays):
    state = {"down": True, "now": 0, "most": 0}
    lock = threading.Lock()

    async def probe(request):
        import asyncio
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        await asyncio.sleep(0.15)
        with lock:
            state["now"] -= 1
        return 500 if state["down"] else 200

    with Receiver(probe, keep_bodies=False) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(
            retry={"schedule": ["100ms"] * 4, "jitter": 0}, concurrency=1,
            circuit={"failures": 3, "open_for": "500ms", "max_open": "1s", "half_open_probes": 1, "successes": 2}))
        first = relays(QUICK)
        outbox.insert_many(200)
        wait_for(lambda: outbox.rows("SELECT 1 FROM outbox.circuit WHERE opens >= 2"), 20, "a circuit that opened twice")
        second = relays(QUICK)
        first.terminate()
        first.start().wait_ready()
        for _ in range(10):
            outbox.insert_many(5)
            time.sleep(0.3)
        with lock:
            state["most"] = state["now"]
        sent = len(receiver.snapshot())
        time.sleep(3)
        assert state["most"] <= 1
        assert len(receiver.snapshot()) - sent <= 8   # one probe per opening, over both relays
        assert outbox.outcomes().get("failed", 0) == 0
        assert outbox.value("SELECT max(attempts) FROM outbox.delivery") <= 4
        circuits = json.loads(run(outbox, "status", "--json").stdout)["circuits"]
        assert circuits[0]["lane"] == "a" and circuits[0]["opened_at"] and circuits[0]["open_until"]
        wait_for(lambda: max(second.metric("outboxd_circuit_state", endpoint="a"), first.metric("outboxd_circuit_state", endpoint="a")) >= 1, 5, "the metric")
        assert second.http("/healthz")[0] == 200
        state["down"] = False
        outbox.wait_outcomes(250, timeout=90)
        assert outbox.statuses() == {"published": 250}
        assert outbox.rows("SELECT 1 FROM outbox.circuit") == []
