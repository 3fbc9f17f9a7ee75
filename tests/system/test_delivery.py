"""From INSERT to a settled row: who is delivered, with which bytes, under which id and signature."""

import random
import threading
import time

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for
from outboxtest.cluster import connect

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECOND_SECRET = "whsec_dGhpcyBpcyBhbm90aGVyIHNlY3JldCBrZXk="

# Bodies that a sender which parses and prints JSON would change.
JSON_BODIES = [
    '{"b":1, "a":1.0, "a":12345678901234567890}',
    '{ "spaces" :  [ 1 ,2,   3 ] }  ',
    "1e400", "-0", "0.10", "9007199254740993", "9223372036854775807", "null", '""', "[]",
    '{"separator":"\u2028 \u2029","emoji":"\U0001f600\U0001f469\u200d\U0001f680"}',
    '{"escaped":"\\/ \\u0000 \\ud83d\\ude00 \\ud800"}',
    '{"line":\r\n\t"ends"}\n',
    "[" * 400 + "]" * 400,
    '{"long":"' + "x" * 200_000 + '"}',
]
BINARY_BODIES = [b"", b"\x00", b"\xff\xfe\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", bytes(range(256)) * 300, "no JSON \u00e9".encode()]


def write_events(uri, writer, transactions, committed, most_open):
    """Transactions of one to nine events that stay open for a random time; a fifth of them is rolled back."""
    lot = random.Random(writer)
    session = connect(uri, autocommit=False)
    for number in range(transactions):
        written = []
        with session.cursor() as cursor:
            for part in range(lot.randint(1, 9)):
                body = lot.choice(JSON_BODIES[:13]).rstrip() + " " * lot.randint(0, 3)
                event_id = f"w{writer}-t{number}-{part}"
                cursor.execute("INSERT INTO outbox.event (event_id, event_type, payload) VALUES (%s, 'order.created', %s)",
                               (event_id, body))
                written.append((event_id, body))
        if lot.random() < 0.1:
            time.sleep(lot.uniform(0, most_open))
        if lot.random() < 0.2:
            session.rollback()
        else:
            session.commit()
            committed.update(written)
    session.close()


def test_B01_B69_ten_thousand_events_of_eight_writers_reach_the_receiver_once_each(outbox, relays, endpoint):
    with Receiver() as receiver:
        config = {"endpoints": [endpoint("all", receiver.url())], "log": {"attempts": "failures"}}
        first, second = relays(config), relays(config)
        committed = {}
        writers = [threading.Thread(target=write_events, args=(outbox.uri, n, 310, committed, 0.4)) for n in range(8)]
        for one in writers:
            one.start()
        for one in writers:
            one.join()
        assert len(committed) > 9000
        outbox.wait_outcomes(len(committed), timeout=180)
        requests = receiver.snapshot()
        assert {r.id for r in requests} == set(committed), "not the committed ones, or a rolled-back one"
        assert len(requests) == len(committed), "sent twice in a calm run"
        assert all(r.body == committed[r.id].encode() for r in requests)
        assert outbox.outcomes() == {"published": len(committed)}
        assert outbox.value("SELECT count(*) FROM outbox.delivery") == 0
        assert outbox.value("SELECT count(DISTINCT relay) FROM outbox.attempt") == 2, "one relay did all the work"
        assert first.terminate() == 0 and second.terminate() == 0


@pytest.mark.parametrize("columns", [{}, {"ordering_key": "k"}], ids=["no_key", "one_ordering_key"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_B01_a_lower_id_that_commits_late_is_delivered_and_a_rolled_back_one_leaves_no_hole(outbox, relays, endpoint, ends,
                                                                                           columns):
    with Receiver() as receiver:
        relays({"endpoints": [endpoint("all", receiver.url())]})
        names = ", ".join(["event_id", "event_type", "payload", *columns])
        values = ", ".join(["%s", "'a.b'", "'{}'", *["%s"] * len(columns)])
        sql = f"INSERT INTO outbox.event ({names}) VALUES ({values}) RETURNING id"
        late = connect(outbox.uri, autocommit=False)
        with late.cursor() as cursor:
            cursor.execute(sql, ("late", *columns.values()))
            lower = cursor.fetchone()[0]
        higher = outbox.value(sql, ("early", *columns.values()))
        assert higher == lower + 1
        receiver.wait_for(1, 30, lambda r: r.id == "early")
        # Enough further claims that a remembered highest id or time would have passed the open transaction.
        for number in range(5):
            outbox.value(sql, (f"more-{number}", *columns.values()))
            receiver.wait_for(1, 30, lambda r, n=number: r.id == f"more-{n}")
        getattr(late, ends)()
        late.close()
        outbox.value(sql, ("last", *columns.values()))
        outbox.wait_outcomes(8 if ends == "commit" else 7, timeout=30)
        assert receiver.ids().count("late") == (1 if ends == "commit" else 0)
        assert len(receiver.ids()) == len(set(receiver.ids()))


@pytest.mark.parametrize("transport", ["http", "https"])
def test_B69_bodies_arrive_byte_for_byte(outbox, relays, endpoint, ca, certificate, transport):
    failing_once = lambda request: 503 if request.attempt_of_id == 1 else 200  # noqa: E731
    with Receiver(failing_once, certificate=certificate if transport == "https" else None) as receiver:
        relays({"endpoints": [endpoint("all", receiver.url(), max_payload="40MiB")], "tls": {"ca_file": ca.path}})
        large = b"\x01\x02" * (8 << 20)
        expected = {outbox.insert(payload=body): (body.encode(), "application/json") for body in JSON_BODIES}
        expected.update({outbox.insert(payload=None, payload_bytes=body): (body, "application/octet-stream")
                         for body in BINARY_BODIES + ([large] if transport == "https" else [])})
        expected[outbox.insert(payload=None, payload_bytes=b"a,b\n", content_type="text/csv; header=absent")] = (
            b"a,b\n", "text/csv; header=absent")
        outbox.wait_outcomes(len(expected), timeout=90)
        for event_id, (body, content_type) in expected.items():
            requests = receiver.of(event_id)
            assert len(requests) == 2, "the first attempt is refused, the second accepted"
            for request in requests:
                assert request.body == body
                assert request.header("content-length") == str(len(body))
                assert request.header("content-type") == content_type
                assert request.header("transfer-encoding") is None


def test_B70_every_attempt_verifies_with_the_secret_of_its_time(outbox, relays, endpoint):
    """Retries farther apart than the receiver's window, a restart and a rotated secret between the attempts, a replay."""
    accepting = threading.Event()
    with Receiver(lambda _: 200 if accepting.is_set() else 503, secrets=[SECRET], window=2.0) as receiver:
        retry = {"schedule": ["3s"] * 30, "jitter": 0}

        def config(*secrets):
            return {"endpoints": [endpoint("signed", receiver.url(), signing="standard-webhooks", secrets=list(secrets),
                                           retry=retry)]}
        relay = relays(config(SECRET))
        ids = [outbox.insert(payload=body) for body in JSON_BODIES]
        ids += [outbox.insert(payload=None, payload_bytes=body) for body in BINARY_BODIES]
        receiver.wait_for(2 * len(ids), 60)
        assert relay.terminate() == 0
        receiver.secrets = [SECOND_SECRET]
        begun = len(receiver.snapshot())
        relay = relays(config(SECOND_SECRET, SECRET))
        receiver.wait_for(begun + len(ids), 60)
        accepting.set()
        outbox.wait_outcomes(len(ids), timeout=60)
        replayed = run_command("replay", ids[0], config=relay.config)
        assert replayed.returncode == 0, replayed.stderr
        outbox.wait_outcomes(len(ids) + 1, timeout=60)
        requests = receiver.snapshot()
        assert {r.id for r in requests} == set(ids)
        assert [r.signature_error for r in requests if r.signature_error] == []
        for event_id in ids:
            mine = receiver.of(event_id)
            # Two attempts may fall into one second, but none may carry the time of an earlier one.
            for r in mine:
                assert abs(r.arrived - int(r.header("webhook-timestamp"))) < 6, "an old timestamp was sent again"
            assert len({r.header("webhook-timestamp") for r in mine}) > 1
            assert len({r.body for r in mine}) == 1
            assert len(mine[-1].header("webhook-signature").split(" ")) == 2, "both live secrets sign"


def test_B71_id_key_and_body_are_the_same_at_every_attempt_whatever_ends_it(outbox, relays, endpoint):
    """500, a time-out after the whole request, a reset, kill -9, another relay, a changed configuration, a replay."""
    script = {1: 500, 2: Answer(action="hang"), 3: Answer(action="reset"), 4: Answer(action="hang")}
    with Receiver(lambda r: script.get(r.attempt_of_id, 200)) as receiver:
        def config(**more):
            return {"relay": {"lease": "4s"}, "defaults": {"timeout": "2s"}, "endpoints": [endpoint("all", receiver.url(), timeout="2s", **more)]}
        first = relays(config())
        body = '{"amount": 1.0,  "amount": 1.00}'
        ids = outbox.insert_many(2, "order.paid", body)
        assert len(set(ids)) == 2, "two rows, two ids"
        receiver.wait_for(2, 60, lambda r: r.attempt_of_id == 4)
        first.kill()
        second = relays(config(headers={"X-New": "1"}))
        outbox.wait_outcomes(2, timeout=60)
        assert run_command("replay", *ids, config=second.config).returncode == 0
        outbox.wait_outcomes(4, timeout=60)
        for event_id in ids:
            requests = receiver.of(event_id)
            assert len(requests) == 6
            assert {r.key for r in requests} == {event_id}
            assert {r.body for r in requests} == {body.encode()}
            assert len({r.sequence for r in requests}) == 1
            # The attempt that the kill cut off used none up, so its number comes again.
            assert [r.attempt for r in requests][:5] == [1, 2, 3, 4, 4]
            assert [r.header("x-new") for r in requests] == [None] * 4 + ["1"] * 2
            varying = {"webhook-timestamp", "outbox-attempt", "x-new"}
            assert len({tuple(h for h in r.headers if h[0].lower() not in varying) for r in requests}) == 1
            outcomes = [(h["outcome"], h["error_class"]) for h in outbox.history(event_id)]
            assert [o for o, _ in outcomes] == ["retried"] * 3 + ["lost", "published", "published"]


@pytest.mark.parametrize("key", ["", "x" * 129, "a\r\nX-Injected: 1", "a b", "\u00e9", "a.b", "a\tb", '"'],
                         ids=["empty", "129_characters", "cr_lf", "space", "not_ascii", "dot", "tab", "quote"])
def test_B71_an_id_that_cannot_stand_in_a_header_is_refused_at_the_insert(outbox, key):
    with pytest.raises(Exception, match="event_id_is_1_to_128"):
        outbox.insert(event_id=key)


def test_B71_an_id_of_the_application_is_the_key_and_a_second_one_like_it_is_no_event(outbox, relays, endpoint):
    longest = "a-_Z9" + "k" * 123
    with Receiver() as receiver:
        relays({"endpoints": [endpoint("all", receiver.url())]})
        sql = ("INSERT INTO outbox.event (event_id, event_type, payload) VALUES (%s, 'a', %s) "
               "ON CONFLICT (event_id) DO NOTHING RETURNING event_id")
        assert outbox.rows(sql, (longest, "1")) == [(longest,)]
        assert outbox.rows(sql, (longest, "2")) == []
        receiver.wait_for(1, 30)
        outbox.wait_outcomes(1, timeout=30)
        assert outbox.rows(sql, (longest, "3")) == [], "known after it was published, too"
        outbox.insert(event_id="next")
        receiver.wait_for(1, 30, lambda r: r.id == "next")
        assert [(r.id, r.key, r.body) for r in receiver.of(longest)] == [(longest, longest, b"1")]


def test_an_event_never_changes(outbox):
    outbox.insert(event_id="fixed")
    with pytest.raises(Exception, match="insert-only"):
        outbox.rows("UPDATE outbox.event SET payload = '1' WHERE event_id = 'fixed'")


def test_the_request_has_the_contracts_headers_in_the_contracts_order(outbox, relays, endpoint):
    with Receiver(secrets=[SECRET]) as receiver:
        relays({"endpoints": [endpoint("signed", receiver.url("/hook?x=1"), signing="standard-webhooks", secrets=[SECRET],
                                       headers={"X-Endpoint": "e"})]})
        event_id = outbox.insert("order.created", '{"a":1}', headers={"X-Event": "v"}, tracestate="a=1",
                                 traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        request = receiver.wait_for(1, 30)[0]
        wait_for(lambda: outbox.outcomes(), 30)
        assert [name for name, _ in request.headers] == [
            "Host", "User-Agent", "Content-Type", "Content-Length", "webhook-id", "webhook-timestamp", "webhook-signature",
            "Idempotency-Key", "Outbox-Event-Type", "Outbox-Attempt", "Outbox-Sequence", "traceparent", "tracestate",
            "X-Endpoint", "X-Event"]
        assert (request.method, request.target) == ("POST", "/hook?x=1")
        assert request.header("host") == f"127.0.0.1:{receiver.port}"
        assert request.header("user-agent").startswith("outboxd/")
        assert request.id == request.key == event_id
        assert (request.event_type, request.attempt) == ("order.created", 1)
        assert request.signature_error is None
