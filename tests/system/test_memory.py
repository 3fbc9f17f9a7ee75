"""Memory is bounded by bytes, whatever waits. OUTBOXD_TEST_FULL=1 tries the whole numbers; they take minutes."""

import os

from outboxtest import Receiver, run_command

MIB = 1 << 20
FULL = bool(os.environ.get("OUTBOXD_TEST_FULL"))


def prepare(outbox, config):
    done = run_command("migrate", config={"database": {"url": outbox.uri}, "egress": {"allow_http": True}, **config})
    assert done.returncode == 0, done.stderr


def quiet_receiver():
    """Keeps no list and no bodies: the receiver is not what is measured."""
    counts = {}

    def behaviour(request):
        counts[request.id] = len(request.body)
        return 200
    receiver = Receiver(behaviour, keep_bodies=False, remember=False)
    receiver.sizes = counts
    return receiver


def test_B75_bodies_of_8_MiB_are_drained_within_the_byte_budget_and_64_MiB(outbox, relays, endpoint):
    count, size, budget = (1000 if FULL else 120), 8 * MIB, 64 * MIB
    with quiet_receiver() as receiver:
        config = {"relay": {"max_in_flight_bytes": "64MiB", "claim_batch": 500}, "log": {"attempts": "failures"},
                  "endpoints": [endpoint("large", receiver.url(), max_payload="16MiB", timeout="25s")]}
        prepare(outbox, config)
        # Alternately text and bytes; compressible, so that the disk is not what is tried.
        for number in range(count):
            outbox.rows("INSERT INTO outbox.event (event_type, payload) VALUES ('a', ('\"' || repeat('x', %s) || '\"')::json)"
                        if number % 2 else
                        "INSERT INTO outbox.event (event_type, payload_bytes) VALUES ('a', decode(repeat('00ff', %s / 2 + 1), 'hex'))",
                        (size - 2,))
        relay = relays(config)
        outbox.wait_outcomes(count, timeout=600 if FULL else 180)
        assert outbox.outcomes() == {"published": count}
        assert len(receiver.sizes) == count and set(receiver.sizes.values()) == {size}
        assert relay.peak_rss_bytes() <= budget + 64 * MIB, f"{relay.peak_rss_bytes() / MIB:.0f} MiB"


def test_B75_a_backlog_of_200_000_small_events_is_drained_within_64_MiB(outbox, relays, endpoint):
    backlog, drained = 200_000, (200_000 if FULL else 30_000)
    with quiet_receiver() as receiver:
        config = {"endpoints": [endpoint("small", receiver.url(), adaptive=True)], "log": {"attempts": "failures"}}
        prepare(outbox, config)
        outbox.rows("INSERT INTO outbox.event (event_type, payload) SELECT 'a', json_build_object('n', n) "
                    f"FROM generate_series(1, {backlog}) n")
        relay = relays(config)
        outbox.wait_outcomes(drained, timeout=600 if FULL else 240)
        assert relay.peak_rss_bytes() <= 64 * MIB, f"{relay.peak_rss_bytes() / MIB:.0f} MiB"
        assert relay.terminate() == 0
        assert outbox.outcomes().keys() == {"published"}
        assert outbox.twice_published() == 0 and len(receiver.sizes) == outbox.outcomes()["published"]


def test_B75_a_row_far_larger_than_the_limit_is_never_fetched_and_ends_with_the_limit_named(outbox, relays, endpoint):
    with quiet_receiver() as receiver:
        config = {"endpoints": [endpoint("all", receiver.url())]}
        prepare(outbox, config)
        for _ in range(3):
            outbox.rows("INSERT INTO outbox.event (event_id, event_type, payload_bytes) VALUES "
                        "('huge-' || floor(random() * 1e9), 'a', decode(repeat('00', 100000000), 'hex'))")
        small = outbox.insert_many(50)
        relay = relays(config)
        outbox.wait_outcomes(50, timeout=60)
        outbox.wait_outcomes(3, "failed", timeout=60)
        assert set(receiver.sizes) == set(small)
        errors = [row[0] for row in outbox.rows("SELECT error FROM outbox.attempt WHERE outcome = 'failed'")]
        assert all("100000000" in error and "1048576" in error for error in errors), errors
        assert relay.peak_rss_bytes() <= 64 * MIB, f"{relay.peak_rss_bytes() / MIB:.0f} MiB"
