"""States of the tables and of the file that nobody planned: endless secrets, endpoints deleted by hand, another database in the file, a silent one at the stop."""

import re
import signal
import time

from outboxtest import Outboxd, Receiver, run_command, wait_for
from outboxtest.daemon import write_config
from outboxtest.fixtures import migrate
from outboxtest.outbox import Outbox


def test_a_secret_that_never_expires_stops_no_reading_of_endpoints(outbox, relays, endpoint):
    with Receiver() as receiver:
        outbox.add_endpoint("good", receiver.url("/good"), events=("good.*",), settings={"adaptive": False})
        relays({})
        outbox.rows("INSERT INTO outbox.endpoint_secret (endpoint, secret, expires_at) VALUES ('good', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'infinity')")
        outbox.add_endpoint("new", receiver.url("/new"), events=("new.*",), settings={"signing": "none"})
        outbox.insert("new.event")
        outbox.insert("good.event")
        assert {r.target for r in receiver.wait_for(2, 30)} == {"/good", "/new"}


def test_deliveries_of_an_endpoint_that_was_deleted_by_hand_end_cancelled(outbox, relays, endpoint, gate):
    with Receiver() as receiver:
        outbox.add_endpoint("gone", receiver.url(), settings={"signing": "none"})
        outbox.rows("UPDATE outbox.endpoint SET paused = true")
        event = outbox.insert()
        outbox.rows("DELETE FROM outbox.endpoint")
        relays({})
        wait_for(lambda: outbox.outcomes() == {"cancelled": 1}, 60, "the delivery to end")
        assert "does not exist any more" in outbox.value("SELECT error FROM outbox.attempt")
        assert outbox.value("SELECT status FROM outbox.status WHERE event_id = %s", (event,)) == "cancelled"
        assert receiver.snapshot() == []


def test_another_database_in_a_file_that_is_read_again_is_left_alone(cluster, database, outbox, endpoint):
    other = cluster.create_migrated_database(migrate)
    elsewhere = Outbox(other)
    elsewhere.add_endpoint("theirs", "https://theirs.example/")
    with Receiver() as receiver, Outboxd(database, {"endpoints": [endpoint("ours", receiver.url())]}) as relay:
        relay.wait_ready(30)
        write_config({**relay.config, "database": {"url": other}}, relay.directory)
        relay.signal(signal.SIGHUP)
        relay.wait_log("reloaded", 20)
        assert [r["text"] for r in relay.records("reload_partial")] == ["changed, and holds from the next start on: database.url"]
        assert elsewhere.rows("SELECT name, enabled FROM outbox.endpoint") == [("theirs", True)]
        outbox.insert()
        receiver.wait_for(1, 30)
    elsewhere.close()


def test_a_database_that_falls_silent_does_not_hold_up_the_stop(own_cluster, endpoint):
    uri = own_cluster.create_migrated_database(migrate)
    with Receiver() as receiver, Outboxd(uri, {"relay": {"drain_timeout": "1s"}, "endpoints": [endpoint("all", receiver.url())]}) as relay:
        relay.wait_ready(30)
        own_cluster.freeze()
        try:
            begun = time.monotonic()
            relay.terminate(timeout=25)
            assert time.monotonic() - begun < 20, "it waited for a statement's deadline"
        finally:
            own_cluster.thaw()


def test_a_secret_in_the_wrong_place_and_a_string_that_cannot_connect_are_told_without_showing_them(tmp_path):
    for entry, url, says in (
        ("[{env: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]", "postgresql://u@h/d", "looks like a secret itself"),
        ("[{file: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]", "postgresql://u@h/d", "looks like a secret itself"),
        ("[whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]", "postgresql://u:hunter2@h:port/d", "database.url"),
    ):
        path = tmp_path / "outboxd.yaml"
        path.write_text(f'database: {{ url: "{url}" }}\nendpoints:\n  - {{ name: a, url: "https://a.example/", secrets: {entry} }}\n', encoding="utf-8")
        done = run_command("check", "--config", str(path))
        told = done.stdout + done.stderr
        assert done.returncode == 78 and re.search(says, told), told
        assert "MfKQ9r8" not in told and "hunter2" not in told
