"""What receivers do with a connection and what they answer: what each means, and what is written down of it."""

import json
import resource

import pytest

from outboxtest import Answer, Receiver, run_command, wait_for
from outboxtest.process import free_port
from outboxtest.raw import RawReceiver

# B24: kept-alive connections that turn out to be closed ---------------------------------------------------------------


def closes_a_moment_later(connection):
    while connection.read_request():
        connection.answer()
        connection.sock.settimeout(0.1)
        try:
            if not connection.first_byte():
                return
        except TimeoutError:
            return
        connection.sock.settimeout(None)


def resets_after_three(connection):
    for _ in range(3):
        if not connection.read_request():
            return
        connection.answer()
    connection.reset()


def closes_at_the_next_first_byte(connection):
    if connection.read_request():
        connection.answer()
        connection.first_byte()


def closes_after_the_whole_second_request(connection):
    if connection.read_request():
        connection.answer()
        connection.read_request()


def speaks_http_1_0(connection):
    while connection.read_request():
        connection.write(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("script, twice", [
    (closes_a_moment_later, False), (resets_after_three, False), (closes_at_the_next_first_byte, False),
    (closes_after_the_whole_second_request, True), (speaks_http_1_0, False)], ids=["a", "b", "c", "d", "e"])
def test_B24_a_kept_connection_that_was_closed_costs_no_attempt(outbox, relays, endpoint, script, twice):
    """One event after the other, each when the one before was answered and, for (a) and (b), its connection has ended."""
    count = 12
    with RawReceiver(script) as receiver:
        relay = relays({"endpoints": [endpoint("raw", receiver.url(), concurrency=1)]})
        ids = []
        for number in range(count):
            ids.append(outbox.insert())
            outbox.wait_outcomes(number + 1, timeout=30)
            if script is closes_a_moment_later:
                receiver.wait_for(lambda: receiver.closed == receiver.connections)
        assert outbox.outcomes() == {"published": count}, "a failed attempt was recorded"
        for event_id in ids:
            seen = [(head.split(b"webhook-id: ")[1].split(b"\r\n")[0], body) for _, head, body in receiver.requests
                    if event_id.encode() in head]
            assert 1 <= len(seen) <= (2 if twice else 1), "sent again without need"
            assert len(set(seen)) == 1
        if script is speaks_http_1_0:
            assert receiver.connections == count, "a connection without keep-alive was used again"
        if script is resets_after_three:
            assert receiver.connections <= count // 3 + 2
        assert relay.metric("outboxd_attempts_total", outcome="retried") == 0


# B47: which outcomes count, retry or end ----------------------------------------------------------------------------

PUBLISHED = [200, 201, 202, 204, 206, 226]
RETRIED = [300, 301, 304, 307, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 451, 499, 500, 501, 502, 503, 504, 599]


def direct(outbox, url, name):
    """An event for one address of its own lane."""
    return outbox.insert(event_type="direct", url=url, breaker_key=name)


def test_B47_every_status_and_every_fault_of_the_network_has_its_one_meaning(outbox, relays, endpoint, certificate):
    def behaviour(request):
        part = request.target.split("/")
        if part[1] == "status":
            return Answer(int(part[2]), body=b"" if int(part[2]) in (204, 304) else b"\xff no JSON",
                          headers={"Location": "/elsewhere"} if part[2][0] == "3" else {})
        return Answer(action=part[1])

    with Receiver(behaviour) as receiver, Receiver(certificate=certificate) as untrusted:
        relays({"defaults": {"timeout": "3s", "connect_timeout": "2s", "circuit": {"failures": 0},
                             "retry": {"schedule": ["10m"], "jitter": 0}},
                "endpoints": [endpoint("gone", receiver.url("/status/410"), events=["gone"]),
                              endpoint("fine", receiver.url("/status/200"), events=["gone"])]})
        table = {direct(outbox, receiver.url(f"/status/{s}"), f"s{s}"): ("published", s, None) for s in PUBLISHED}
        table.update({direct(outbox, receiver.url(f"/status/{s}"), f"s{s}"):
                      ("retried", s, "redirect" if s < 400 else "http") for s in RETRIED})
        table[direct(outbox, receiver.url("/status/410"), "s410")] = ("failed", 410, "http")
        table[direct(outbox, f"http://127.0.0.1:{free_port()}/", "refused")] = ("retried", None, "connect")
        table[direct(outbox, receiver.url("/reset"), "reset")] = ("retried", None, None)
        table[direct(outbox, receiver.url("/close"), "close")] = ("retried", None, None)
        table[direct(outbox, receiver.url("/hang"), "hang")] = ("retried", None, "timeout")
        table[direct(outbox, untrusted.url(), "tls")] = ("retried", None, "tls")
        table[direct(outbox, "https://no-such-host.invalid/", "dns")] = ("retried", None, "dns")
        gone = outbox.insert("gone")
        expected = sum(outcome == "retried" for outcome, _, _ in table.values())
        outbox.wait_outcomes(expected, "retried", 60)
        outbox.wait_outcomes(len(PUBLISHED) + 1, timeout=30)
        for event_id, (outcome, status, why) in table.items():
            rows = outbox.history(event_id)
            assert len(rows) == 1, rows
            row = rows[0]
            assert (row["outcome"], row["http_status"] or None) == (outcome, status), row
            assert why is None or row["error_class"] == why, row
            if outcome == "retried":
                assert row["error_class"] and row["error"] and row["next_attempt_at"], row
            counted = outbox.value("SELECT coalesce(max(d.attempts), 1) FROM outbox.delivery d JOIN outbox.event e "
                                   "ON e.id = d.event WHERE e.event_id = %s", (event_id,))
            assert counted == 1, row
        # 410 ends the delivery and flags its endpoint; the other endpoint's delivery of the same event is untouched.
        assert {s["endpoint"]: s["status"] for s in outbox.status_of(gone)} == {"gone": "failed", "fine": "published"}
        wait_for(lambda: not outbox.value("SELECT enabled FROM outbox.endpoint WHERE name = 'gone'"), 20)
        assert "410" in outbox.value("SELECT disabled_reason FROM outbox.endpoint WHERE name = 'gone'")
        assert not any(r.target == "/elsewhere" for r in receiver.snapshot()), "a redirect was followed"
        assert untrusted.snapshot() == [], "a request to a receiver that nobody vouches for"


def test_B47_a_status_that_http_does_not_know_is_retried(outbox, relays, endpoint):
    def script(connection):
        while connection.read_request():
            connection.answer(999)

    with RawReceiver(script) as receiver:
        relays({"endpoints": [endpoint("odd", receiver.url(), retry={"schedule": ["10m"], "jitter": 0})]})
        event_id = outbox.insert()
        outbox.wait_outcomes(1, "retried", 30)
        assert outbox.history(event_id)[0]["outcome"] == "retried"


def test_B47_too_few_file_descriptors_burn_no_attempt_and_open_no_circuit(outbox, relays, endpoint, gate):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with Receiver(lambda _: Answer(200, delay=0.3)) as receiver:
        relay = relays({"endpoints": [endpoint("all", receiver.url(), concurrency=150, circuit={"failures": 3})]},
                       preexec_fn=few)
        ids = outbox.insert_many(150)
        outbox.wait_outcomes(150, timeout=60)
        assert outbox.value("SELECT max(attempt) FROM outbox.attempt WHERE outcome = 'published'") == 1
        assert outbox.value("SELECT count(*) FROM outbox.circuit") == 0
        assert relay.metric("outboxd_circuit_transitions_total", to="open") == 0
        assert sorted(receiver.ids()) == sorted(ids)


# B72: answers that could break the history ----------------------------------------------------------------------------

BODIES = {
    "nul": b"\x00a\x00", "invalid_utf_8": b"\xff\xfe\xc3\x28", "character_across_the_cut": b"x" * 1022 + "\u20ac\u20ac".encode(),
    "escaped_nul": b"\\u0000 \\ud800", "latin_1": "caf\u00e9".encode("latin-1"), "gzip": b"\x1f\x8b\x08\x00\x00\x01\x02",
    "percents": b"%" * 1_000_000, "ansi": b"\x1b[31mred\x1b[0m\x07", "line_ends": b"one\r\ntwo\nthree\r", "quotes": b"\"'`$1 \\",
    "lone_surrogate": b"\xed\xa0\x80", "emoji_across_the_cut": b"y" * 1021 + "\U0001f600\U0001f600".encode(),
}


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("place", ["body", "header", "reason"])
def test_B72_whatever_bytes_an_answer_holds_its_result_is_saved(outbox, relays, endpoint, status, place):
    unfit = {"nul", "line_ends"}  # in a header these end the line, or HTTP itself

    def script(connection):
        while True:
            request = connection.read_request()
            if not request:
                return
            kind = request[0].split(b"\r\nOutbox-Event-Type: ")[1].split(b"\r\n")[0].decode()
            noise = BODIES[kind]
            if place == "body":
                extra = b"Content-Encoding: gzip\r\n" if kind == "gzip" else b""
                connection.answer(status, extra, noise)
            elif place == "header":
                connection.answer(status, b"X-Noise: " + noise[:2000] + b"\r\nRetry-After: " + noise[:2000] + b"\r\n")
            else:
                connection.write(b"HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n" % (status, noise[:2000]))

    with RawReceiver(script) as receiver:
        relay = relays({"endpoints": [endpoint("raw", receiver.url(), retry={"schedule": ["10m"], "jitter": 0})]})
        kinds = [k for k in BODIES if place == "body" or k not in unfit]
        ids = {kind: outbox.insert(kind) for kind in kinds}
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.attempt") == len(kinds), 30, "one row per attempt")
        for kind, event_id in ids.items():
            rows = outbox.history(event_id)
            assert len(rows) == 1, (kind, rows)
            # Control characters in a header may be refused as no HTTP; what arrived whole and valid counts as it is.
            if place == "body" or kind not in ("ansi", "gzip"):
                assert rows[0]["outcome"] == ("published" if status == 200 else "retried"), (kind, rows)
                assert rows[0]["http_status"] == status
            excerpt = rows[0]["response_excerpt"] or ""
            assert len(excerpt.encode()) <= 1100 and "\x00" not in excerpt
            assert sum(event_id.encode() in head for _, head, _ in receiver.requests) == 1, "sent again"
            shown = run_command("event", "show", event_id, "--json", config=relay.config)
            assert shown.returncode == 0, shown.stderr
            json.loads(shown.stdout)
        attempts = relay.records("attempt")
        assert len(attempts) == len(kinds), "each line of the log is one JSON object"
        assert all(line.isprintable() for line in relay.log() if line.startswith("{"))


def test_B72_of_two_characters_across_the_cut_the_whole_one_stays(outbox, relays, endpoint):
    with Receiver(lambda _: Answer(200, body=BODIES["character_across_the_cut"])) as receiver:
        relays({"endpoints": [endpoint("all", receiver.url())]})
        event_id = outbox.insert()
        outbox.wait_outcomes(1, timeout=30)
        excerpt = outbox.history(event_id)[0]["response_excerpt"]
        assert excerpt.startswith("x" * 1000) and "\ufffd" not in excerpt
