"""Circuits that two real relays share: how many probes, how long open, what they write, what comes back."""

import asyncio
import threading
import time

import pytest

from outboxtest import Answer, Receiver, wait_for

QUICK = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s"}, "log": {"attempts": "none"}}


def settings(**circuit):
    return {"signing": "none", "timeout": "2s", "adaptive": False, "retry": {"schedule": ["100ms"] * 60, "jitter": 0},
            "circuit": {"failures": 3, "open_for": "500ms", "max_open": "2s", "successes": 2, **circuit}}


class Wire:
    """A receiver whose answer can be changed, and that knows how many requests it has open."""

    def __init__(self, status, delay=0.2):
        self.status, self.delay = status, delay
        self.now = self.most = 0
        self._lock = threading.Lock()

    async def __call__(self, request):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        await asyncio.sleep(self.delay)
        with self._lock:
            self.now -= 1
        return self.status


def circuit(outbox):
    rows = outbox.rows("SELECT state, opens, probes, extract(epoch FROM open_until - opened_at)::float8 FROM outbox.circuit")
    return rows[0] if rows else None


@pytest.mark.parametrize("probes", [1, 3])
def test_exactly_half_open_probes_are_sent_over_all_relays(outbox, relays, probes):
    wire = Wire(500)
    with Receiver(wire) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(half_open_probes=probes, successes=100))
        relays(QUICK), relays(QUICK)
        outbox.insert_many(300)
        wait_for(lambda: circuit(outbox) and circuit(outbox)[0] == "open", 20, "an open circuit")
        wait_for(lambda: wire.now == 0, 5, "the wire to be quiet")
        wire.most, wire.status = 0, 200   # so many successes that it stays half-open
        time.sleep(4)
        assert wire.most == probes
        assert circuit(outbox)[0] == "half_open"


def test_each_failed_probe_opens_for_longer_up_to_the_limit(outbox, relays):
    wire = Wire(500, delay=0)
    with Receiver(wire) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(open_for="200ms", max_open="800ms"))
        relays(QUICK), relays(QUICK)
        outbox.insert_many(50)
        seen = {}
        end = time.monotonic() + 6
        while time.monotonic() < end:
            row = circuit(outbox)
            if row and row[0] == "open":
                seen.setdefault(row[1], round(row[3], 1))
            time.sleep(0.02)
        assert [seen[n] for n in (1, 2, 3, 4)] == [0.2, 0.4, 0.8, 0.8]
        wire.status = 200
        outbox.wait_outcomes(50, timeout=30)
        assert circuit(outbox) is None


def test_healthy_endpoints_write_no_circuit(outbox, relays):
    lot = iter(range(10_000))
    with Receiver(lambda request: 500 if next(lot) % 4 == 3 else 200) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(failures=5) | {"concurrency": 1})
        relays(QUICK)
        outbox.insert_many(200)
        outbox.wait_outcomes(200, timeout=30)
        assert outbox.outcomes()["retried"] > 20
        assert outbox.value("SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables WHERE relname = 'circuit'") == 0


def test_what_was_claimed_is_handed_back_and_a_restarted_relay_keeps_still(outbox, relays):
    wire = Wire(500, delay=0.05)
    with Receiver(wire) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(open_for="6s", max_open="6s") | {"concurrency": 2})
        first, _ = relays(QUICK), relays(QUICK)
        outbox.insert_many(100)
        wait_for(lambda: circuit(outbox), 20, "an open circuit")
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL") == 0, 3, "rows handed back")
        wait_for(lambda: wire.now == 0, 5, "the wire to be quiet")
        sent = len(receiver.snapshot())
        first.kill()
        first.start().wait_ready()
        outbox.insert_many(10)
        time.sleep(1.5)
        assert len(receiver.snapshot()) == sent
        assert outbox.value("SELECT sum(attempts) FROM outbox.delivery") == sent
        # Another address is tried at once, whatever the circuit of the old one said.
        wire.status = 200
        outbox.rows("UPDATE outbox.endpoint SET url = url || '?new'")
        outbox.wait_outcomes(110, timeout=5)


def test_a_probe_that_proves_nothing_gives_its_slot_back(outbox, relays):
    """429 with Retry-After is neither a success nor a fault; the circuit stays half-open and the next row probes."""
    answers = {"now": Answer(500)}
    with Receiver(lambda request: answers["now"]) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(open_for="300ms", max_open="300ms"))
        relays(QUICK), relays(QUICK)
        outbox.insert_many(20)
        wait_for(lambda: circuit(outbox), 20, "an open circuit")
        answers["now"] = Answer(429, headers={"Retry-After": "1"})
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.attempt WHERE http_status = 429") >= 3, 15, "three neutral probes")
        assert circuit(outbox)[0] == "half_open"
        # Paced: at most one probe a second and relay.
        before = len(receiver.snapshot())
        time.sleep(3)
        assert len(receiver.snapshot()) - before <= 8
        answers["now"] = Answer(200)
        outbox.wait_outcomes(20, timeout=30)


def test_a_probe_row_that_is_final_without_a_request_leaves_the_probe_to_the_next(outbox, relays):
    answers = {"now": 500}
    with Receiver(lambda request: answers["now"]) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(open_for="1s", max_open="1s") | {"concurrency": 1})
        relays(QUICK)
        outbox.insert_many(3, expires_at="2100-01-01")
        wait_for(lambda: circuit(outbox), 20, "an open circuit")
        outbox.rows("UPDATE outbox.delivery SET expires_at = clock_timestamp()")
        outbox.insert_many(2)
        answers["now"] = 200
        outbox.wait_outcomes(2, timeout=15)
        outbox.wait_outcomes(3, "expired", timeout=10)
        assert circuit(outbox) is None


def test_a_circuit_without_due_rows_is_probed_as_soon_as_one_comes(outbox, relays):
    answers = {"now": 500}
    with Receiver(lambda request: answers["now"]) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=settings(open_for="300ms", max_open="300ms", successes=1) | {"retry": {"schedule": ["1h"] * 3, "jitter": 0}})
        relays(QUICK), relays(QUICK)
        outbox.insert_many(3)
        wait_for(lambda: circuit(outbox) and circuit(outbox)[0] == "half_open", 20, "half-open")
        answers["now"] = 200
        began = time.monotonic()
        outbox.insert()
        outbox.wait_outcomes(1, timeout=10)
        assert time.monotonic() - began < 2.5
