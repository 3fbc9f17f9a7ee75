"""How much each endpoint gets: fairness, concurrency, rate over one, two and three relays, slow start."""

import asyncio
import threading
import time

import pytest

from outboxtest import Answer, Receiver, wait_for

PLAIN = {"signing": "none", "timeout": "5s", "adaptive": False, "circuit": {"failures": 0},
         "retry": {"schedule": ["30s"] * 3, "jitter": 0}}
QUIET = {"defaults": {"timeout": "5s"}, "relay": {"lease": "10s"}, "log": {"attempts": "none"}}


class Counter:
    """Answers after `delay` and remembers how many requests were there at once."""

    def __init__(self, delay, status=200):
        self.delay, self.status = delay, status
        self.now = self.most = 0
        self.history = []
        self._lock = threading.Lock()

    async def __call__(self, request):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.history.append(self.now)
        await asyncio.sleep(self.delay)
        with self._lock:
            self.now -= 1
        return self.status


def test_a_slow_endpoint_with_a_large_backlog_delays_no_other(outbox, relays, gate):
    """B54 scaled: 20,000 due rows and answers that never come."""
    hanging = gate(holds=lambda request: request.target == "/slow")
    with Receiver(hanging) as receiver:
        outbox.add_endpoint("slow", receiver.url("/slow"), ["slow.*"], {**PLAIN, "concurrency": 64})
        for number in range(30):
            outbox.add_endpoint(f"quick{number}", receiver.url("/quick"), [f"quick{number}.*"], PLAIN)
        relays(QUIET), relays(QUIET)
        outbox.insert_many(20_000, "slow.event")
        wait_for(lambda: sum(r.target == "/slow" for r in receiver.snapshot()) >= 64, 20, "slow requests")
        latencies = []
        for number in range(30):
            began = time.monotonic()
            event = outbox.insert(f"quick{number}.event")
            request = receiver.wait_for(1, 10, lambda r: r.id == event)[0]
            latencies.append(request.arrived_monotonic - began)
        assert sorted(latencies)[len(latencies) // 2] < 0.3, latencies
        assert max(latencies) < 2, latencies


@pytest.mark.parametrize("count", [1, 2])
def test_concurrency_is_the_ceiling_of_each_relay(outbox, relays, count):
    counter = Counter(0.1)
    with Receiver(counter) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings={**PLAIN, "concurrency": 3})
        for _ in range(count):
            relays(QUIET)
        outbox.insert_many(90)
        outbox.wait_outcomes(90, timeout=30)
        assert counter.most <= 3 * count
        assert counter.most >= 3


def test_a_rate_is_shared_by_one_two_and_three_relays_and_followed_within_five_per_cent(outbox, relays):
    rate = 50
    with Receiver(keep_bodies=False) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings={**PLAIN, "rate_limit": f"{rate}/s"})
        outbox.insert_many(rate * 130)
        running = []
        for count in (1, 2, 3):
            running.append(relays(QUIET))
            receiver.wait_for(len(receiver.snapshot()) + rate, 20)
            claims = sum(r.metric("outboxd_claim_seconds_count") for r in running)
            began = time.monotonic()
            time.sleep(30)
            ended = time.monotonic()
            sent = sum(began <= r.arrived_monotonic < ended for r in receiver.snapshot())
            claims = sum(r.metric("outboxd_claim_seconds_count") for r in running) - claims
            wanted = rate * (ended - began)
            assert 0.95 * wanted <= sent <= 1.05 * wanted, (count, sent, wanted)
            # A lane that waits for tokens is not asked for: a handful of claims a second, the polls of other lanes included.
            assert claims / (ended - began) <= 12 * count, claims
        assert outbox.twice_published() == 0


def test_a_burst_is_allowed_and_then_the_rate(outbox, relays):
    with Receiver(keep_bodies=False) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings={**PLAIN, "rate_limit": {"rate": "5/s", "burst": 20}})
        relays(QUIET)
        outbox.insert_many(40)
        requests = receiver.wait_for(40, 20)
        began = requests[0].arrived_monotonic
        at_once = sum(r.arrived_monotonic - began < 0.8 for r in requests)
        assert 18 <= at_once <= 26
        assert requests[39].arrived_monotonic - began > 3


@pytest.mark.parametrize("again", ["resume", "enable"])
def test_an_endpoint_that_comes_back_is_not_flooded(outbox, relays, again):
    counter = Counter(0.15)
    with Receiver(counter) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings={**PLAIN, "adaptive": True, "concurrency": 64})
        relay = relays({**QUIET, "log": {"level": "info", "attempts": "none"}})
        column = "paused" if again == "resume" else "enabled"
        known = len(relay.records("endpoints_loaded"))
        outbox.rows(f"UPDATE outbox.endpoint SET {column} = NOT {column}")
        # Promised is "within a second", so the relay must have heard of it first.
        wait_for(lambda: len(relay.records("endpoints_loaded")) > known, 20, "the relay to hear of it")
        outbox.insert_many(200)
        time.sleep(1.2)
        assert counter.history == []
        outbox.rows(f"UPDATE outbox.endpoint SET {column} = NOT {column}")
        outbox.wait_outcomes(200, timeout=30)
        # One, two, four ...: the second request leaves only after the first was answered.
        assert counter.history[0] == 1 and counter.history[1] <= 2
        assert max(counter.history[:6]) <= 4
        assert counter.most > 8


def test_a_lane_shrinks_on_503_and_grows_again(outbox, relays):
    counter = Counter(0.05)
    with Receiver(counter) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings={**PLAIN, "adaptive": True, "concurrency": 64, "retry": {"schedule": ["200ms"] * 60, "jitter": 0}})
        relays(QUIET)
        outbox.insert_many(400)
        outbox.wait_outcomes(400, timeout=30)
        grown = counter.most
        assert grown > 16
        counter.status = 503
        outbox.insert_many(100)
        outbox.wait_outcomes(150, "retried", timeout=30)
        counter.most = 0
        outbox.wait_outcomes(250, "retried", timeout=30)
        assert counter.most <= max(4, grown // 4)
        counter.status = 200
        outbox.wait_outcomes(500, timeout=60)
