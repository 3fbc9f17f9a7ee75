"""`drain` to its tally and exit code; SIGTERM under load."""

import json
import signal
import time

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for


def drain(outbox, config, *arguments):
    full = {"database": {"url": outbox.uri}, "egress": {"allow_http": True, "allow": ["127.0.0.0/8"]}, "admin": {"listen": None},
            "log": {"level": "error"}, **config}
    return run_command("drain", *arguments, config=full, timeout=120)


def prepare(outbox, config):
    """Endpoints stand in the table before the events come."""
    done = run_command("migrate", config={"database": {"url": outbox.uri}, "egress": {"allow_http": True}, **config})
    assert done.returncode == 0, done.stderr


def config_of(endpoint, receiver):
    slow_retry = {"schedule": ["1h"], "jitter": 0}
    return {"endpoints": [endpoint("good", receiver.url("/ok"), events=["good"]),
                          endpoint("busy", receiver.url("/status/503"), events=["busy"], retry=slow_retry),
                          endpoint("final", receiver.url("/status/404"), events=["final"], responses={"permanent": [404, 410]})]}


@pytest.mark.parametrize("events, tally, code", [
    ({}, "published 0, retried 0, failed 0, remaining 0, scheduled 0", 0),
    ({"good": 300}, "published 300, retried 0, failed 0, remaining 0, scheduled 0", 0),
    ({"good": 20, "busy": 7}, "published 20, retried 7, failed 0, remaining 7, scheduled 0", 3),
    ({"good": 20, "final": 3}, "published 20, retried 0, failed 3, remaining 0, scheduled 0", 3),
    ({"good": 5, "tomorrow": 4}, "published 5, retried 0, failed 0, remaining 0, scheduled 4", 0),
    ({"nobody": 2, "good": 1}, "published 1, retried 0, failed 0, remaining 2, scheduled 0", 3),
], ids=["nothing", "all", "some_retried", "some_failed", "some_scheduled", "some_unrouted"])
def test_drain_ends_with_the_right_tally_and_exit_code(outbox, endpoint, receiver, events, tally, code):
    config = config_of(endpoint, receiver)
    prepare(outbox, config)
    for name, count in events.items():
        if name == "tomorrow":
            outbox.insert_many(count, "good", deliver_at="2099-01-01")
        else:
            outbox.insert_many(count, name)
    done = drain(outbox, config)
    assert (done.stdout.strip(), done.returncode) == (tally, code), done.stderr
    assert len(receiver.ids()) == sum(n for kind, n in events.items() if kind in ("good", "busy", "final"))
    again = drain(outbox, config, "--json")
    counts = json.loads(again.stdout)
    assert (counts["published"], counts["retried"]) == (0, 0), "done already, or not due"
    assert again.returncode == (0 if counts["remaining"] == 0 else 3)


def test_drain_with_a_time_out_stops_in_time_and_hands_the_rest_back(outbox, endpoint):
    with Receiver() as receiver:
        config = {"endpoints": [endpoint("slow", receiver.url("/slow/0.5"), concurrency=4)], "relay": {"drain_timeout": "5s"}}
        prepare(outbox, config)
        outbox.insert_many(400)
        begun = time.monotonic()
        done = drain(outbox, config, "--timeout", "3s")
        assert time.monotonic() - begun < 30
        published = int(done.stdout.split()[1].rstrip(","))
        assert done.returncode == 3 and 4 <= published < 400, done.stdout + done.stderr
        assert f"remaining {400 - published}" in done.stdout
        assert outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL") == 0
        assert outbox.value("SELECT count(*) FROM outbox.relay") == 0
        assert len(receiver.ids()) == published


@pytest.mark.parametrize("url, code", [("postgresql://postgres@127.0.0.1:1/none", 69), (None, 1)],
                         ids=["no_server", "no_schema"])
def test_drain_without_a_usable_database_says_so_with_its_code(cluster, url, code):
    done = run_command("drain", config={"database": {"url": url or cluster.create_database()}}, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == "" and "error" in done.stderr


@pytest.mark.parametrize("slow", [0.5, 60.0], ids=["answers_come", "answers_never_come"])
def test_SIGTERM_under_load_ends_with_0_in_time_and_what_was_not_started_is_free_at_once(outbox, relays, endpoint, patience, slow):
    with Receiver(lambda _: Answer(200, delay=slow)) as receiver:
        config = {"relay": {"drain_timeout": "3s", "lease": "120s"}, "log": {"attempts": "none"},
                  "endpoints": [endpoint("all", receiver.url(), timeout="50s", concurrency=40)]}
        first = relays(config)
        ids = outbox.insert_many(2000)
        receiver.wait_for(60 if slow < 1 else 40, 30)
        begun = time.monotonic()
        first.signal(signal.SIGTERM)
        assert first.wait(60) == 0, "\n".join(first.log()[-5:])
        assert time.monotonic() - begun < 3 + patience(3)
        arrived = len(receiver.ids())
        published = outbox.outcomes().get("published", 0)
        assert outbox.value("SELECT count(*) FROM outbox.delivery") + published == 2000, "a row was lost"
        assert outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL") == 0
        assert outbox.value("SELECT count(*) FROM outbox.relay") == 0
        # Nothing waits for the lease of two minutes: another relay has it all at once.
        receiver.behaviour = lambda _: 200
        relays(config)
        outbox.wait_outcomes(2000, timeout=60)
        assert set(receiver.ids()) == set(ids)
        twice = len(receiver.ids()) - 2000
        assert twice == arrived - published, "only what had no answer in time is sent again"
        assert (twice == 0) if slow < 1 else (0 < twice <= 40)
        assert outbox.twice_published() == 0


def test_a_second_signal_aborts_hands_back_and_exits_1(outbox, relays, endpoint, gate):
    with Receiver(gate()) as receiver:
        relay = relays({"relay": {"drain_timeout": "30s"}, "endpoints": [endpoint("all", receiver.url(), timeout="20s")]})
        event_id = outbox.insert()
        receiver.wait_for(1, 30)
        relay.signal(signal.SIGTERM)
        relay.wait_log('"event":"stopping"', 20)
        relay.signal(signal.SIGTERM)
        assert relay.wait(30) == 1
        assert outbox.rows("SELECT claimed_by, attempts FROM outbox.delivery") == [(None, 0)], "handed back, no attempt used"
        assert outbox.status_of(event_id)[0]["status"] == "pending"


def test_SIGTERM_while_idle_ends_at_once(outbox, relays, endpoint, receiver, patience):
    relay = relays({"endpoints": [endpoint("all", receiver.url())]})
    wait_for(lambda: relay.metric("outboxd_listening") == 1, 30)
    begun = time.monotonic()
    assert relay.terminate() == 0
    assert time.monotonic() - begun < patience(1.0)
