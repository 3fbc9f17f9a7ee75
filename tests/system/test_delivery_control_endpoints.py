"""The state of endpoints: pause, disable by hand, by 410 and by rule, removal, changes while rows wait, answer headers, operator events."""

import json
import time

import pytest

from outboxtest import Answer, Receiver, run_command, verify_signature, wait_for

SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_dGhpcyBpcyBhbm90aGVyIHNlY3JldCBrZXk="]
PLAIN = {"signing": "none", "timeout": "2s", "adaptive": False, "circuit": {"failures": 0},
         "retry": {"schedule": ["300ms"] * 7, "jitter": 0}}
QUICK = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s"}}
EVENTS = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s", "operator_events": True}}


def run(outbox, *arguments):
    return run_command(*arguments, config={"database": {"url": outbox.uri}})


def endpoint_row(outbox, name="a"):
    return outbox.rows("SELECT to_jsonb(e) FROM outbox.endpoint e WHERE name = %s", (name,))[0][0]


@pytest.mark.parametrize("notify", [True, False])
def test_a_pause_holds_rows_and_takes_effect_within_a_second(outbox, relays, notify):
    with Receiver() as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN)
        config = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s", "notify": notify}}
        relays(config), relays(config)
        outbox.insert()
        outbox.wait_outcomes(1, timeout=10)
        assert run(outbox, "endpoint", "pause", "a").returncode == 0
        time.sleep(1)
        held = outbox.insert_many(5)
        time.sleep(1.5)
        assert len(receiver.snapshot()) == 1
        assert "paused" in run(outbox, "why", held[0]).stdout
        assert outbox.value("SELECT max(attempts) FROM outbox.delivery") == 0
        began = time.monotonic()
        assert run(outbox, "endpoint", "resume", "a").returncode == 0
        receiver.wait_for(6, 10)
        assert time.monotonic() - began < 3   # the command's own start included
        outbox.wait_outcomes(6, timeout=10)


def test_disabling_by_hand_is_a_snooze(outbox, relays):
    with Receiver(lambda request: 500) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN | {"retry": {"schedule": ["200ms"] * 50, "jitter": 0}})
        relays(QUICK), relays(QUICK)
        event = outbox.insert()
        outbox.wait_outcomes(2, "retried", timeout=10)
        assert run(outbox, "endpoint", "disable", "a", "--reason", "moving house").returncode == 0
        time.sleep(1)
        attempts = outbox.value("SELECT attempts FROM outbox.delivery")
        time.sleep(1)
        assert outbox.value("SELECT attempts FROM outbox.delivery") == attempts == len(receiver.snapshot())
        assert "moving house" in run(outbox, "why", event).stdout
        receiver.behaviour = lambda request: 200
        assert run(outbox, "endpoint", "enable", "a").returncode == 0
        outbox.wait_outcomes(1, timeout=10)


def test_410_disables_the_endpoint_and_is_reported_as_an_event(outbox, relays):
    with Receiver(lambda request: 410 if request.target == "/gone" else 200) as receiver:
        outbox.add_endpoint("gone", receiver.url("/gone"), ["order.*"], PLAIN | {"concurrency": 1})
        outbox.add_endpoint("operator", receiver.url("/operator"), ["outboxd.*"], PLAIN)
        both = [relays(EVENTS), relays(EVENTS)]
        first = outbox.insert("order.created")
        outbox.wait_outcomes(1, "failed", timeout=10)
        wait_for(lambda: not endpoint_row(outbox, "gone")["enabled"], 5, "a disabled endpoint")
        wait_for(lambda: all(len(r.records("endpoints_loaded")) >= 2 for r in both), 5, "both relays to have read it")
        later = outbox.insert_many(3, "order.created")
        reports = {r.event_type: r.json() for r in receiver.wait_for(2, 10, lambda r: r.target == "/operator")}
        assert reports["outboxd.endpoint.disabled"]["endpoint"] == "gone"
        assert "410" in reports["outboxd.endpoint.disabled"]["reason"]
        assert reports["outboxd.delivery.failed"]["event_id"] == first
        assert reports["outboxd.delivery.failed"]["http_status"] == 410
        time.sleep(1)
        assert outbox.value("SELECT count(*) FROM outbox.event WHERE event_type LIKE 'outboxd.%%'", ()) == 2
        assert "410" in run(outbox, "why", later[0]).stdout
        assert {s["status"] for event in later for s in outbox.status_of(event)} == {"pending"}


def test_after_a_410_not_one_of_those_that_wait_is_sent(outbox, relays):
    with Receiver(lambda request: 410) as receiver:
        outbox.add_endpoint("gone", receiver.url(), settings=PLAIN | {"concurrency": 1})
        events = outbox.insert_many(50)
        relay = relays(QUICK)
        wait_for(lambda: not endpoint_row(outbox, "gone")["enabled"], 10, "a disabled endpoint")
        wait_for(lambda: len(relay.records("endpoints_loaded")) >= 2, 5, "the relay to have read it")
        outbox.wait_outcomes(1, "failed", timeout=10)
        assert len(receiver.snapshot()) == 1
        assert sorted(outbox.status_of(event)[0]["status"] for event in events) == ["failed"] + ["pending"] * 49


def test_the_failure_of_an_operator_event_makes_no_other_one(outbox, relays):
    with Receiver(lambda request: 404) as receiver:
        outbox.add_endpoint("a", receiver.url(), ["*"], PLAIN | {"responses": {"permanent": ["404"]}})
        relays(EVENTS)
        outbox.insert_many(3, "order.created")
        outbox.wait_outcomes(6, "failed", timeout=15)
        time.sleep(1.5)
        assert outbox.value("SELECT count(*) FROM outbox.event") == 6
        assert outbox.outcomes() == {"failed": 6}


def test_without_operator_events_nothing_is_written(outbox, relays):
    with Receiver(lambda request: 410) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN)
        relays(QUICK)
        outbox.insert()
        outbox.wait_outcomes(1, "failed", timeout=10)
        wait_for(lambda: not endpoint_row(outbox)["enabled"], 5, "a disabled endpoint")
        assert outbox.value("SELECT count(*) FROM outbox.event") == 1


@pytest.mark.parametrize("answer, honoured, disabled, outcome", [
    (Answer(503, headers={"webhook-delivery": "disable"}), True, True, "failed"),
    (Answer(500, headers={"Webhook-Delivery": " Abort "}), True, False, "failed"),
    (Answer(200, headers={"webhook-delivery": "disable"}), True, True, "published"),
    (Answer(503, headers={"webhook-delivery": "disable"}), False, False, "retried"),
    (Answer(503, headers={"webhook-delivery": "something"}), True, False, "retried"),
])
def test_the_webhook_delivery_header_is_obeyed_where_enabled(outbox, relays, answer, honoured, disabled, outcome):
    with Receiver(lambda request: answer) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN | {"responses": {"delivery_header": honoured}})
        relays(QUICK)
        outbox.insert()
        outbox.wait_outcomes(1, outcome, timeout=10)
        if disabled:
            wait_for(lambda: not endpoint_row(outbox)["enabled"], 5, "a disabled endpoint")
            assert "webhook-delivery" in endpoint_row(outbox)["disabled_reason"]
        else:
            time.sleep(0.5)
            assert endpoint_row(outbox)["enabled"]


def test_an_endpoint_that_only_fails_is_disabled_by_the_rule_and_one_success_saves_it(outbox, relays):
    with Receiver(lambda request: 200 if request.target == "/saved" and request.attempt_of_id > 3 else 500) as receiver:
        patient = PLAIN | {"auto_disable": {"after": "1d"}, "retry": {"schedule": ["500ms"] * 100, "jitter": 0}}
        for name in ("lost", "never", "saved"):
            outbox.add_endpoint(name, receiver.url("/" + name), [name + ".*"], patient if name != "never" else patient | {"auto_disable": {"after": None}})
        relays(EVENTS), relays(EVENTS)
        for name in ("lost", "never"):
            outbox.insert(name + ".event")
        wait_for(lambda: endpoint_row(outbox, "lost")["failing_since"] and endpoint_row(outbox, "never")["failing_since"], 30, "failing_since")
        # Six days pass for the rule; the third endpoint recovers meanwhile.
        outbox.rows("UPDATE outbox.endpoint SET failing_since = clock_timestamp() - interval '6 d', last_success_at = NULL")
        outbox.insert("saved.event")
        wait_for(lambda: not endpoint_row(outbox, "lost")["enabled"], 30, "a disabled endpoint")
        assert "without one success" in endpoint_row(outbox, "lost")["disabled_reason"]
        assert endpoint_row(outbox, "never")["enabled"]
        wait_for(lambda: endpoint_row(outbox, "saved")["failing_since"] is None, 30, "the recovery")
        assert endpoint_row(outbox, "saved")["enabled"] and endpoint_row(outbox, "saved")["last_success_at"]
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.event WHERE event_type = 'outboxd.endpoint.disabled'") == 1, 5, "the operator event")
        # Enabled again, however that is done, it has its time anew.
        outbox.rows("UPDATE outbox.endpoint SET enabled = true WHERE name = 'lost'")
        row = endpoint_row(outbox, "lost")
        assert (row["failing_since"], row["disabled_reason"], row["disabled_at"]) == (None, None, None)
        time.sleep(6)
        assert endpoint_row(outbox, "lost")["enabled"]


def test_a_healthy_endpoint_is_not_written_at_every_success(outbox, relays):
    with Receiver(keep_bodies=False) as receiver:
        outbox.add_endpoint("a", receiver.url(), settings=PLAIN)
        relays(QUICK)
        end = time.monotonic() + 12
        while time.monotonic() < end:
            outbox.insert_many(20)
            time.sleep(0.2)
        assert outbox.value("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'endpoint'") <= 1
        assert endpoint_row(outbox)["last_success_at"]


def test_an_endpoint_removed_while_relays_hold_its_rows_ends_them_cancelled(outbox, relays, gate):
    hanging = gate()
    with Receiver(hanging) as receiver:
        outbox.add_endpoint("a", receiver.url(), ["a.*"], PLAIN | {"concurrency": 4, "timeout": "2s"})
        outbox.add_endpoint("b", receiver.url("/b"), ["b.*"], PLAIN)
        relays(QUICK), relays(QUICK)
        events = outbox.insert_many(50, "a.event")
        outbox.insert_many(5, "a.event", ordering_key="k")
        receiver.wait_for(4, 10)
        done = run(outbox, "endpoint", "remove", "a")
        assert done.returncode == 0, done.stderr
        assert outbox.rows("SELECT 1 FROM outbox.endpoint WHERE name = 'a'") == []
        assert outbox.rows("SELECT 1 FROM outbox.delivery WHERE lane = 'a'") == []
        assert outbox.outcomes()["cancelled"] == 55
        assert outbox.rows("SELECT DISTINCT error FROM outbox.attempt WHERE outcome = 'cancelled'") == [("endpoint removed",)]
        assert "endpoint removed" in run(outbox, "why", events[0]).stdout
        hanging.open()
        outbox.insert("b.event")
        outbox.wait_outcomes(1, timeout=10)


@pytest.mark.parametrize("notify", [True, False])
def test_a_new_url_and_secret_are_used_at_the_next_attempt(outbox, relays, notify):
    with Receiver(lambda request: 500 if request.target == "/old" else 200) as receiver:
        outbox.add_endpoint("a", receiver.url("/old"), settings=PLAIN | {"signing": "standard-webhooks", "retry": {"schedule": ["1200ms"] * 5, "jitter": 0}}, secrets=SECRETS[:1])
        config = {"defaults": {"timeout": "2s"}, "relay": {"lease": "4s", "notify": notify}}
        relays(config), relays(config)
        outbox.insert()
        outbox.wait_outcomes(1, "retried", timeout=10)
        outbox.rows("UPDATE outbox.endpoint SET url = %s", (receiver.url("/new"),))
        outbox.rows("UPDATE outbox.endpoint_secret SET secret = %s", (SECRETS[1],))
        outbox.wait_outcomes(1, timeout=10)
        old, new = receiver.snapshot()
        assert (old.target, new.target) == ("/old", "/new")
        assert old.body == new.body and old.id == new.id

        def accepted(request, secret):
            return verify_signature([secret], request.id, request.header("webhook-timestamp"), request.body, request.header("webhook-signature"), 300) is None

        assert accepted(old, SECRETS[0]) and not accepted(old, SECRETS[1])
        assert accepted(new, SECRETS[1]) and not accepted(new, SECRETS[0])
