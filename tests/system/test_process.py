"""The daemon as a process: as number 1 of its namespace, with every signal, and under a service manager."""

import glob
import os
import signal
import socket
import subprocess
import time

import pytest

from outboxtest import Answer, NotifySocket, Outboxd, Receiver, wait_for
from outboxtest.cluster import connect
from outboxtest.fixtures import migrate

PID_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def can_unshare():
    return subprocess.run([*PID_1, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


as_pid_1 = pytest.mark.skipif(not can_unshare(), reason="no right to make a process namespace here")


def tell(relay, sig):
    """unshare waits for its child, which is number 1 of the namespace and ours to signal."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == relay.pid:
            os.kill(int(path.split("/")[2]), sig)
            return
    raise ProcessLookupError("it has ended")


@as_pid_1
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_B63_as_process_1_an_idle_relay_ends_at_once_with_0_and_outlives_a_reload(outbox, relays, endpoint, patience, sig):
    with Receiver(lambda r: Answer(action="reset") if r.attempt_of_id == 1 else 200) as receiver:
        relay = relays({"endpoints": [endpoint("all", receiver.url())]}, wrapper=PID_1)
        outbox.insert_many(5, "t", '"' + "x" * 300_000 + '"')  # a broken pipe while writing
        outbox.wait_outcomes(5, timeout=40)
        tell(relay, signal.SIGHUP)
        relay.wait_log('"event":"reloaded"', 20)
        tell(relay, signal.SIGPIPE)
        outbox.insert()
        outbox.wait_outcomes(6, timeout=40)
        wait_for(lambda: relay.metric("outboxd_in_flight") == 0, 20)
        begun = time.monotonic()
        tell(relay, sig)
        assert relay.wait(30) == 0
        assert time.monotonic() - begun < patience(1.0)


@as_pid_1
def test_B63_as_process_1_what_is_on_the_wire_is_cut_at_the_limit_and_free_for_another_relay(outbox, relays, endpoint, gate, patience):
    with Receiver(gate(holds=lambda r: r.attempt_of_id == 1)) as receiver:
        config = {"relay": {"drain_timeout": "2s", "lease": "120s"}, "endpoints": [endpoint("all", receiver.url(), timeout="50s", concurrency=60)]}
        relay = relays(config, wrapper=PID_1)
        outbox.insert_many(50)
        receiver.wait_for(50, 40)
        begun = time.monotonic()
        tell(relay, signal.SIGTERM)
        assert relay.wait(40) == 0
        assert time.monotonic() - begun < 2 + patience(2.0)
        assert outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL") == 0
        relays(config)
        outbox.wait_outcomes(50, timeout=40)


@as_pid_1
@pytest.mark.parametrize("kind", ["refused", "silent"])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_B63_as_process_1_a_relay_that_still_waits_for_its_database_ends_when_told(endpoint, patience, kind, twice):
    with socket.socket() as black_hole:
        black_hole.bind(("127.0.0.1", 0))
        if kind == "silent":
            black_hole.listen(16)  # connections are made and never answered
        with Outboxd(f"postgresql://nobody@127.0.0.1:{black_hole.getsockname()[1]}/none", {}, wrapper=PID_1) as relay:
            relay.wait_log('"event":"starting"', 20)
            wait_for(lambda: relay.http("/healthz")[0] == 200, 20)
            if kind == "refused":
                relay.wait_log("refused", 20)
            begun = time.monotonic()
            tell(relay, signal.SIGTERM)
            if twice:
                relay.wait_log('"event":"signal"', 10)
                try:
                    tell(relay, signal.SIGTERM)
                except ProcessLookupError:
                    pass  # it was quicker
            assert relay.wait(30) in ((0, 1) if twice else (0,)), "\n".join(relay.log())
            assert time.monotonic() - begun < patience(3.0)


@as_pid_1
def test_B63_as_process_1_a_name_look_up_that_hangs_does_not_hold_the_end_up(outbox, endpoint, database, patience, tmp_path):
    """A resolver that never answers, in a mount namespace of the relay's own."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.99\noptions timeout:20 attempts:3\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        try:
            silent.bind(("127.0.0.99", 53))
        except OSError as error:
            pytest.skip(f"port 53 cannot be had: {error}")
        wrapper = [*PID_1, "--mount", "sh", "-c", f'mount --bind {resolver} "$(readlink -f /etc/resolv.conf)" || exit 99; exec "$@"', "sh"]
        config = {"relay": {"drain_timeout": "1s"}, "endpoints": [endpoint("named", "http://no-such-name.example/", timeout="25s")]}
        with Outboxd(database, config, wrapper=wrapper) as relay:
            relay.wait_ready(40)
            outbox.insert()
            wait_for(lambda: relay.metric("outboxd_in_flight") == 1, 40, "the look-up")
            begun = time.monotonic()
            tell(relay, signal.SIGTERM)
            assert relay.wait(40) == 0
            assert time.monotonic() - begun < 1 + patience(3.0)
            assert outbox.rows("SELECT claimed_by FROM outbox.delivery") == [(None,)]


def pings(manager):
    return [moment for moment, text in manager.lines() if text == "WATCHDOG=1"]


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_B68_the_manager_hears_ready_once_and_pings_as_long_as_the_loop_turns(outbox, relays, endpoint, gate, abstract):
    holding = gate()
    with NotifySocket(watchdog_seconds=2, abstract=abstract) as manager, Receiver(holding) as receiver:
        relay = relays({"relay": {"max_in_flight": 8}, "endpoints": [endpoint("all", receiver.url(), timeout="25s", concurrency=8)]},
                       env=manager.environment)
        ready = manager.wait_for("READY=1", 30)[0]
        assert any(text.startswith("STATUS=") for text in manager.texts())
        # Every slot held: the loop turns all the same.
        outbox.insert_many(40)
        receiver.wait_for(7, 30)  # the eighth is kept for other lanes
        manager.wait_for("WATCHDOG=1", 30, count=len(pings(manager)) + 4)
        relay.freeze()
        time.sleep(1.5)  # a loop that stands still for so long
        stuck = len(pings(manager))
        time.sleep(2.5)
        assert len(pings(manager)) == stuck, "a ping although the process stands"
        relay.thaw()
        manager.wait_for("WATCHDOG=1", 30, count=stuck + 2)
        assert manager.texts().count("READY=1") == 1, "said more than once"
        assert all(moment >= ready - 60 for moment in pings(manager))
        relay.signal(signal.SIGHUP)
        manager.wait_for("RELOADING=1", 20)
        manager.wait_for("READY=1", 20, count=2)
        holding.open()
        assert relay.terminate() == 0
        assert "STOPPING=1" in manager.texts()


def test_B68_no_ready_before_the_database_and_pings_through_its_outage(own_cluster, endpoint):
    uri = own_cluster.create_migrated_database(migrate)
    own_cluster.stop()
    with NotifySocket(watchdog_seconds=2) as manager, Receiver() as receiver:
        with Outboxd(uri, {"endpoints": [endpoint("all", receiver.url())]}, env=manager.environment) as relay:
            manager.wait_for("WATCHDOG=1", 30, count=4)
            manager.wait_for("STATUS=", 20)
            assert "READY=1" not in manager.texts(), "ready without a database"
            own_cluster.start()
            manager.wait_for("READY=1", 40)
            own_cluster.stop("immediate")
            wait_for(lambda: relay.http("/readyz")[0] == 503, 30)
            manager.wait_for("WATCHDOG=1", 30, count=len(pings(manager)) + 4)
            manager.wait_for("STATUS=waiting", 30)
            own_cluster.start()
            relay.wait_ready(40)
            assert manager.texts().count("READY=1") == 1


def test_B68_a_socket_that_leads_nowhere_is_no_error(relays, endpoint, receiver):
    relay = relays({"endpoints": [endpoint("all", receiver.url())]}, env={"NOTIFY_SOCKET": "/nonexistent/notify", "WATCHDOG_USEC": "2000000"})
    assert relay.terminate() == 0


def test_B66_a_locked_table_ends_readiness_alone_and_bad_endpoints_end_nothing(outbox, relays, endpoint, gate):
    """Liveness is asked all the time; what is due and when the last claim worked can be read meanwhile."""
    holding = gate(holds=lambda r: r.event_type == "held")
    with Receiver(holding) as receiver:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            relay = relays({"relay": {"max_in_flight": 8, "poll_interval": "500ms"},
                            "endpoints": [endpoint("down", f"http://127.0.0.1:{closed.getsockname()[1]}/", events=["down"]),
                                          endpoint("held", receiver.url(), events=["held"], timeout="25s")]})
            outbox.insert_many(20, "down")
            outbox.wait_outcomes(20, "retried", timeout=40)
            outbox.insert_many(20, "held")
            receiver.wait_for(7, 30)
            # No endpoint works and every slot is taken: that is no fault of this process.
            assert (relay.http("/healthz")[0], relay.http("/readyz")[0]) == (200, 200)
            assert relay.metric("outboxd_last_claim_timestamp_seconds") > time.time() - 60
            wait_for(lambda: relay.metric("outboxd_oldest_due_seconds") > 0, 30, "the age of the oldest due row")
            holding.open()
            outbox.wait_outcomes(20, timeout=40)
            locker = connect(outbox.uri, autocommit=False)
            locker.cursor().execute("LOCK TABLE outbox.delivery IN ACCESS EXCLUSIVE MODE")
            alive = set()
            wait_for(lambda: alive.add(relay.http("/healthz", timeout=2)[0]) or relay.http("/readyz", timeout=2)[0] == 503, 40, "readiness to end")
            assert alive == {200} and relay.http("/metrics", timeout=2)[0] == 200
            locker.close()
            relay.wait_ready(40)
