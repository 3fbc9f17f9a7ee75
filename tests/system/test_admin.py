"""The admin address of a running relay: liveness apart from the database, readiness with it, the API as the commands show it."""

import json
import threading
import time

from outboxtest import Cluster, Outboxd, run_command, wait_for
from outboxtest.process import free_port


def migrated(cluster):
    uri = cluster.create_database()
    assert run_command("migrate", config={"database": {"url": uri}}).returncode == 0
    return uri


def test_B66_liveness_stays_and_readiness_follows_the_database():
    with Cluster() as cluster:
        with Outboxd(migrated(cluster)) as relay:
            relay.wait_ready()
            seen = []
            stop = threading.Event()

            def watch():
                while not stop.is_set():
                    before = time.monotonic()
                    seen.append((relay.http("/healthz")[0], time.monotonic() - before))
                    stop.wait(0.1)

            watcher = threading.Thread(target=watch)
            watcher.start()
            cluster.stop("immediate")
            wait_for(lambda: relay.http("/readyz")[0] == 503, what="not ready")
            assert json.loads(relay.http("/readyz")[1])["reason"]
            assert relay.metric("outboxd_database_up") == 0
            assert relay.http("/api/v1/status", timeout=20)[0] == 503
            cluster.start()
            relay.wait_ready(timeout=60)
            stop.set()
            watcher.join()
            assert {status for status, _ in seen} == {200}
            assert max(took for _, took in seen) < 2.0


def test_B66_a_port_in_use_is_one_clear_line_at_the_start(database):
    with Outboxd(database) as first:
        first.wait_ready()
        second = Outboxd(database, {"admin": {"listen": f"127.0.0.1:{first.admin_port}"}})
        try:
            assert second.wait(20) == 1
            assert any(f"127.0.0.1:{first.admin_port}" in line and "in use" in line for line in second.log())
        finally:
            second.close()


def test_the_api_shows_what_the_commands_show(cluster, database, relays):
    relay = relays({"admin": {"listen": f"127.0.0.1:{free_port()}", "token": "admin-token-1"}}, ready=False)
    port = int(relay.config["admin"]["listen"].rsplit(":", 1)[1])
    relay.admin_port = port
    relay.wait_ready()
    cluster.execute(database, "INSERT INTO outbox.event (event_id, event_type, payload) VALUES ('evt_1', 't', '{}')")
    assert relay.http("/api/v1/status")[0] == 401
    token = {"Authorization": "Bearer admin-token-1"}
    for path, command in (("why/evt_1", ["why", "evt_1"]), ("endpoints", ["endpoint", "list"]), ("events", ["event", "list"]), ("deliveries", ["delivery", "list"])):
        def both_say_the_same(path=path, command=command):
            status, text = relay.http("/api/v1/" + path, headers=token)
            printed = run_command(*command, "--json", config={"database": {"url": database}})
            return status == 200 and json.loads(text) == json.loads(printed.stdout)
        wait_for(both_say_the_same, 20, f"{path} to say what the command says; both tell ages in seconds")
    assert len(json.loads(relay.http("/api/v1/relays", headers=token)[1])) == 1
    assert relay.http("/")[0] == 200 and relay.http("/metrics")[0] == 200
    assert relay.terminate() == 0
    assert not any("admin-token-1" in line for line in relay.log())
