"""Time and causes: deliver_at, expires_at, max_attempts, a daemon whose clock and zone are wrong, and every sentence of `why`."""

import glob
import time

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for

PLAIN = {"signing": "none", "timeout": "2s", "adaptive": False, "circuit": {"failures": 0},
         "retry": {"schedule": ["200ms"] * 7, "jitter": 0}}
QUICK = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s"}}


def why(outbox, event, **options):
    done = run_command("why", event, config={"database": {"url": outbox.uri}}, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def moments(outbox):
    return {event: (due, sent) for event, due, sent in outbox.rows(
        "SELECT e.event_id, extract(epoch FROM e.deliver_at)::float8, extract(epoch FROM min(a.started_at))::float8 "
        "FROM outbox.event e JOIN outbox.attempt a ON a.event = e.id GROUP BY e.id")}


@pytest.mark.parametrize("offset, zone", [("", "Asia/Kathmandu"), ("+3h", "UTC"), ("-3h", "America/St_Johns")])
def test_only_the_servers_clock_counts(outbox, relays, patience, offset, zone):
    library = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if offset and not library:
        pytest.skip("no libfaketime here")
    environment = {"TZ": zone}
    if offset:
        # Preloaded here and not by the program faketime, which would stand between us and the daemon's signals.
        environment |= {"LD_PRELOAD": library[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    with Receiver(lambda request: 500 if request.event_type == "fails" and request.attempt_of_id == 1 else 200) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN | {"retry": {"schedule": ["1500ms"], "jitter": 0}})
        relays(QUICK, env=environment)
        now = outbox.insert()
        fails = outbox.insert("fails")
        later = outbox.rows("INSERT INTO outbox.event (event_type, payload, deliver_at) VALUES ('later', '{}', clock_timestamp() + interval '2 s') RETURNING event_id")[0][0]
        ends = outbox.rows("INSERT INTO outbox.event (event_type, payload, expires_at) VALUES ('ends', '{}', clock_timestamp() - interval '1 s') RETURNING event_id")[0][0]
        lasts = outbox.rows("INSERT INTO outbox.event (event_type, payload, expires_at) VALUES ('lasts', '{}', clock_timestamp() + interval '1 min') RETURNING event_id")[0][0]
        outbox.wait_outcomes(4, timeout=15)
        at = moments(outbox)
        assert 0 <= at[later][1] - at[later][0] < patience(1.0)
        assert outbox.status_of(ends)[0]["status"] == "expired"
        assert {outbox.status_of(event)[0]["status"] for event in (now, fails, later, lasts)} == {"published"}
        first, second = outbox.history(fails)
        gap = outbox.value("SELECT extract(epoch FROM %s::timestamptz - %s::timestamptz)::float8", (second["started_at"], first["finished_at"]))
        assert 1.45 <= gap < 2.6
        assert receiver.of(ends) == []


def test_max_attempts_of_an_event_beats_the_endpoints(outbox, relays):
    with Receiver(lambda request: 500) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN)
        relays(QUICK), relays(QUICK)
        limits = {n: outbox.insert(max_attempts=n) for n in (1, 3, 11)}
        outbox.wait_outcomes(3, "failed", timeout=30)
        assert {n: len(receiver.of(event)) for n, event in limits.items()} == {1: 1, 3: 3, 11: 11}
        assert "attempts used up (3)" in why(outbox, limits[3])


def test_an_event_that_expires_between_attempts_is_not_tried_again(outbox, relays):
    with Receiver(lambda request: 500) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN | {"retry": {"schedule": ["700ms"] * 7, "jitter": 0}})
        relays(QUICK)
        event = outbox.rows("INSERT INTO outbox.event (event_type, payload, expires_at) VALUES ('t', '{}', clock_timestamp() + interval '1 s') RETURNING event_id")[0][0]
        outbox.wait_outcomes(1, "expired", timeout=15)
        assert len(receiver.of(event)) <= 2
        assert "expired" in why(outbox, event)


def test_why_names_every_cause(outbox, relays, gate):
    hanging = gate(holds=lambda request: request.target == "/hang")

    def answer(request):
        return 500 if request.target == "/down" else hanging(request)

    with Receiver(answer) as receiver:
        def endpoint(name, path="/ok", **settings):
            outbox.add_endpoint(name, receiver.url(path), [name + ".*"], PLAIN | settings)

        endpoint("later"), endpoint("paused"), endpoint("disabled")
        endpoint("open", "/down", circuit={"failures": 2, "open_for": "1h", "max_open": "1h"})
        endpoint("slow", "/ok", rate_limit="1/s")
        endpoint("held", "/hang", timeout="30s")
        endpoint("keyed", "/hang", timeout="30s")
        endpoint("broken")
        relays({"relay": {"lease": "60s"}}), relays({"relay": {"lease": "60s"}})
        outbox.rows("UPDATE outbox.endpoint SET paused = true WHERE name = 'paused'")
        outbox.rows("UPDATE outbox.endpoint SET enabled = false, disabled_reason = 'asked for' WHERE name = 'disabled'")
        time.sleep(1)
        later = outbox.insert("later.event", deliver_at="2100-01-01T00:00:00Z")
        held = outbox.insert("held.event")
        paused, disabled = outbox.insert("paused.event"), outbox.insert("disabled.event")
        outbox.insert_many(2, "open.event")
        front, behind = outbox.insert_many(2, "keyed.event", ordering_key="k")
        slow = outbox.insert_many(40, "slow.event")
        nobody = outbox.insert("nobody.event")
        broken = outbox.insert("broken.event", headers={"Host": "elsewhere"})
        wait_for(lambda: outbox.rows("SELECT 1 FROM outbox.circuit"), 20, "an open circuit")
        open_ = outbox.insert("open.event")
        outbox.wait_outcomes(1, "failed", timeout=10)
        receiver.wait_for(1, 10, lambda r: r.id == held)
        assert "not due until 2100-01-01" in why(outbox, later)
        assert "claimed by relay" in why(outbox, held) and "since" in why(outbox, held)
        assert "paused" in why(outbox, paused)
        assert "disabled (asked for)" in why(outbox, disabled)
        assert "circuit open until" in why(outbox, open_) and "HTTP 500" in why(outbox, open_)
        assert f"behind event {front}" in why(outbox, behind)
        assert "rate-limited to 1/s" in why(outbox, slow[-1])
        assert "unrouted" in why(outbox, nobody)
        assert "failed" in why(outbox, broken) and "host" in why(outbox, broken).lower()
        published = slow[0]
        wait_for(lambda: outbox.status_of(published)[0]["status"] == "published", 10, "the first of the slow ones")
        assert "published at" in why(outbox, published)
        hanging.open()
