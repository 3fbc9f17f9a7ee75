"""One endpoint, however slow or broken, delays no other; rows that can never be sent are not in the way."""

import time

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for
from outboxtest.process import free_port


def trickle(outbox, receiver, count, every, event_type="fast"):
    """`count` events, one each `every` seconds; the seconds from INSERT to arrival of each, sorted."""
    sent = {}
    begin = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number * every - time.monotonic()))  # the pace of the load is what is tried
        inserted = time.time()
        sent[outbox.insert(event_type)] = inserted
    receiver.wait_for(count, 60, lambda r: r.id in sent)
    arrived = {}
    for request in receiver.snapshot():
        arrived.setdefault(request.id, request.arrived)
    return sorted(arrived[event_id] - inserted for event_id, inserted in sent.items())


def at(values, part):
    return values[min(len(values) - 1, int(len(values) * part))]


def test_a_hanging_and_a_refusing_endpoint_do_not_change_the_latency_of_a_fast_one(outbox, relays, endpoint, patience):
    def behaviour(request):
        return Answer(200, delay=15.0) if request.target == "/hang" else 200

    with Receiver(behaviour) as receiver:
        relays({"defaults": {"timeout": "20s"}, "endpoints": [
            endpoint("hanging", receiver.url("/hang"), events=["bad"], timeout="20s"),
            endpoint("refusing", f"http://127.0.0.1:{free_port()}/", events=["bad"]),
            endpoint("fast", receiver.url("/fast"), events=["fast"])]})
        trickle(outbox, receiver, 10, 0.05)
        alone = trickle(outbox, receiver, 100, 0.04)
        outbox.insert_many(2000, "bad")
        receiver.wait_for(64, 30, lambda r: r.target == "/hang")
        outbox.wait_outcomes(500, "retried", 60)
        beside = trickle(outbox, receiver, 100, 0.04)
        assert at(beside, 0.5) < at(alone, 0.5) + patience(0.1), (at(alone, 0.5), at(beside, 0.5))
        assert at(beside, 0.99) < 2 * at(alone, 0.99) + patience(0.5), (at(alone, 0.99), at(beside, 0.99))
        assert len([r for r in receiver.snapshot() if r.target == "/hang" and r.status is None]) >= 64


@pytest.mark.parametrize("slow, backlog", [(1, 6000), (10, 600)], ids=["one_slow_endpoint", "ten_slow_endpoints"])
def test_B54_slow_endpoints_with_an_older_backlog_do_not_starve_a_fast_one(outbox, relays, endpoint, patience, slow, backlog):
    """50 requests at once are allowed; the slow ones never answer and time out after two seconds."""

    def behaviour(request):
        return Answer(action="hang") if request.target.startswith("/slow") else 200

    with Receiver(behaviour) as receiver:
        entries = [endpoint(f"slow{n}", receiver.url(f"/slow{n}"), events=["slow"], timeout="2s",
                            circuit={"failures": 60, "open_for": "30s"}) for n in range(slow)]
        entries.append(endpoint("fast", receiver.url("/fast"), events=["fast"]))
        config = {"relay": {"max_in_flight": 50, "lease": "30s"}, "endpoints": entries, "log": {"attempts": "none"}}
        # The backlog is older than everything else: it is there before the relay is.
        migrated = run_command("migrate", config={**config, "database": {"url": outbox.uri}, "egress": {"allow_http": True}})
        assert migrated.returncode == 0, migrated.stderr
        outbox.insert_many(backlog, "slow")
        relay = relays(config)
        receiver.wait_for(1, 30, lambda r: r.target.startswith("/slow"))
        delays = trickle(outbox, receiver, 40, 0.2)
        assert at(delays, 0.99) < patience(2.0), delays[-5:]
        assert at(delays, 0.5) < patience(0.5)
        assert relay.metric("outboxd_in_flight") <= 50
        wait_for(lambda: all(relay.metric("outboxd_circuit_state", endpoint=f"slow{n}") == 2 for n in range(slow)), 30,
                 "the slow endpoints' circuits to open")
        assert relay.metric("outboxd_circuit_state", endpoint="fast") == 0
        # Rows of the slow lanes wait in the table, not in the relay.
        claimed = outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL")
        assert claimed <= 150, claimed
        assert relay.peak_rss_bytes() < 96 << 20
        after = trickle(outbox, receiver, 10, 0.05)
        assert at(after, 0.99) < patience(2.0)


def bad_rows(outbox, receiver, count):
    """Each kind of row that cannot be sent, and how it must end: {name: (event ids, status, error class)}."""
    url = receiver.url("/good")
    big = '"' + "x" * 70_000 + '"'
    kinds = {
        "larger than max_payload": (dict(payload=big, endpoint="good"), "failed", "payload"),
        "endpoint that does not exist": (dict(endpoint="nobody"), "unrouted", None),
        "url without a host": (dict(url="http://"), "failed", "url"),
        "url with a space": (dict(url=url + "/a b"), "failed", "url"),
        "url of another scheme": (dict(url="ftp://127.0.0.1/x"), "failed", "url"),
        "headers as an array": (dict(endpoint="good", headers=["a"]), "failed", "header"),
        "headers with a number": (dict(endpoint="good", headers={"X-A": 1}), "failed", "header"),
        "header with a line end": (dict(endpoint="good", headers={"X-A": "1\r\nX-B: 2"}), "failed", "header"),
        "header that replaces ours": (dict(endpoint="good", headers={"webhook-id": "x"}), "failed", "header"),
    }
    return {name: (outbox.insert_many(count, "bad", **columns), status, why) for name, (columns, status, why) in kinds.items()}


def test_B10_rows_that_cannot_be_sent_end_with_a_reason_and_do_not_delay_good_ones(outbox, relays, endpoint, patience):
    with Receiver() as receiver:
        config = {"relay": {"claim_batch": 100}, "defaults": {"circuit": {"failures": 0}},
                  "endpoints": [endpoint("good", receiver.url("/good"), events=["good"], max_payload="64KiB")]}
        migrated = run_command("migrate", config={**config, "database": {"url": outbox.uri}, "egress": {"allow_http": True}})
        assert migrated.returncode == 0, migrated.stderr
        rows = bad_rows(outbox, receiver, 200)
        empty = outbox.insert_many(20, "empty", payload=None, payload_bytes=b"", endpoint="good")
        nulls = outbox.insert_many(20, "nulls", endpoint="good", headers=None, tenant_id=None, subject=None, expires_at=None)
        relay = relays(config)
        begun = time.monotonic()
        good = outbox.insert_many(100, "good")
        receiver.wait_for(100, 30, lambda r: r.event_type == "good")
        assert time.monotonic() - begun < patience(10), "good rows waited for bad ones"
        failed = sum(len(ids) for ids, status, _ in rows.values() if status == "failed")
        outbox.wait_outcomes(failed, "failed", 60)
        outbox.wait_outcomes(140, "published", 30)
        assert set(receiver.ids()) == {*good, *empty, *nulls}, "a row that cannot be sent was sent"
        for name, (ids, status, why) in rows.items():
            for event_id in (ids[0], ids[-1]):
                row = outbox.status_of(event_id)[0]
                assert row["status"] == status, (name, row)
                if why:
                    history = outbox.history(event_id)
                    assert [h["error_class"] for h in history] == [why], (name, history)
                    assert history[0]["error"], name
        # Nothing turns in circles afterwards: no statement that writes, hardly any processor time.
        used = relay.cpu_seconds()
        settled = relay.metric("outboxd_settle_seconds_count")
        time.sleep(3)
        assert relay.cpu_seconds() - used < 0.6
        assert relay.metric("outboxd_settle_seconds_count") - settled <= 1
        wait_for(lambda: relay.metric("outboxd_deliveries", state="failed") == failed, 20, "the metric of failed deliveries")
        assert relay.metric("outboxd_deliveries", state="unrouted") == 200
        listed = run_command("delivery", "list", "--status", "failed", "--json", config=relay.config)
        assert listed.returncode == 0 and '"failed"' in listed.stdout, listed.stderr
        why = run_command("why", rows["headers as an array"][0][0], config=relay.config)
        assert "headers" in why.stdout
