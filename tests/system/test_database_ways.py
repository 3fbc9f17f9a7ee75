"""Ways to the database: several hosts and a fail-over, a transaction pooler, a password that is changed, TLS, a disk that is full."""

import os
import socketserver
import struct
import subprocess
import threading

import pytest

from outboxtest import Cluster, Outboxd, Proxy, Receiver, wait_for
from outboxtest.fixtures import migrate
from outboxtest.outbox import Outbox
from outboxtest.pooler import Pooler, pooler_program
from outboxtest.process import server_account
from test_database import HELD, World, held, settings, stays_calm


def test_B07_a_fail_over_to_a_promoted_standby_is_followed(own_cluster, endpoint, gate):
    """The first host of the string is the standby, which is read-only for now: the relay passes it over. Then the primary dies."""
    uri = own_cluster.create_migrated_database(migrate)
    before = Outbox(uri)
    holding = gate(holds=held)
    with own_cluster.standby() as standby, Receiver(holding) as receiver:
        name = uri.rsplit("/", 1)[1]
        both = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{own_cluster.port}/{name}?target_session_attrs=read-write"
        with Outboxd(both, settings(receiver, endpoint)) as relay:
            relay.wait_ready(40)
            ids = before.insert_many(20, HELD)
            receiver.wait_for(20, 30)
            # Asynchronous replication: what the standby has not heard is lost by definition.
            behind = "SELECT pg_wal_lsn_diff('{}', pg_last_wal_replay_lsn()) <= 0"
            at = before.value("SELECT pg_current_wal_lsn()::text")
            wait_for(lambda: standby.value(name, behind.format(at)), 30, "the standby to be up to date")
            own_cluster.stop("immediate")
            holding.open()
            stays_calm(relay, "target_session_attrs|refused|read-only")
            standby.promote()
            after = Outbox(standby.uri(name))
            after.wait_outcomes(20, timeout=60)
            ids += after.insert_many(5)
            after.wait_outcomes(25, timeout=60)
            assert sorted(receiver.ids()) == sorted(ids), "sent again although the answer was there"
            assert after.rows("SELECT DISTINCT attempt, outcome FROM outbox.attempt") == [(1, "published")]
            relay.wait_ready(30)


def test_B07_a_single_standby_is_waited_for_until_it_is_promoted(own_cluster, endpoint):
    uri = own_cluster.create_migrated_database(migrate)
    name = uri.rsplit("/", 1)[1]
    with own_cluster.standby() as standby, Receiver() as receiver:
        wait_for(lambda: standby.value("postgres", f"SELECT count(*) FROM pg_database WHERE datname = '{name}'"), 30, "the database to be there")
        with Outboxd(standby.uri(name), settings(receiver, endpoint)) as relay:
            stays_calm(relay, "read-only")
            own_cluster.stop("immediate")
            standby.promote()
            relay.wait_ready(40)
            Outbox(standby.uri(name)).insert()
            receiver.wait_for(1, 30)


class StartingUp(socketserver.StreamRequestHandler):
    """A server that is there and takes nobody yet: 57P03 to every start packet."""

    def handle(self):
        while True:
            length = struct.unpack("!i", self.rfile.read(4))[0]
            packet = self.rfile.read(length - 4)
            if struct.unpack("!i", packet[:4])[0] >> 16 == 3:
                break
            self.wfile.write(b"N")  # neither TLS nor GSS
        fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
        self.wfile.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)


class Refusing(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def test_B65_a_server_that_is_starting_up_is_waited_for(cluster, database, endpoint):
    with Receiver() as receiver:
        with Refusing(("127.0.0.1", 0), StartingUp) as early:
            port = early.server_address[1]
            threading.Thread(target=early.serve_forever, daemon=True).start()
            relay = Outboxd(database.replace(f":{cluster.port}/", f":{port}/"), settings(receiver, endpoint))
            try:
                stays_calm(relay, "starting up")
            finally:
                early.shutdown()
        with relay, Proxy(cluster.port, port=port):
            relay.wait_ready(40)
            Outbox(database).insert()
            receiver.wait_for(1, 30)


@pytest.mark.skipif(pooler_program() is None, reason="pgbouncer is not installed")
@pytest.mark.parametrize("direct", [True, False], ids=["direct_listen_url", "polling_only"])
def test_B08_two_relays_work_through_a_transaction_pooler_that_is_restarted(database, outbox, endpoint, direct):
    with Pooler(database, pool_size=2) as pooler, Receiver() as receiver:
        config = settings(receiver, endpoint, database={"listen_url": database} if direct else {})
        with Outboxd(pooler.url, config) as one, Outboxd(pooler.url, config) as two:
            for relay in (one, two):
                relay.wait_ready(40)
                if direct:
                    wait_for(lambda r=relay: r.metric("outboxd_listening") == 1, 40, "wake-ups over the direct way")
                else:
                    relay.wait_log('"event":"not_listening".*pooler', 40)
            ids = outbox.insert_many(1000)
            receiver.wait_for(300, 60)
            pooler.stop()
            pooler.start()
            ids += outbox.insert_many(1000)
            outbox.wait_outcomes(2000, timeout=120)
            assert set(receiver.ids()) == set(ids)
            assert outbox.twice_published() == 0 and outbox.outcomes() == {"published": 2000}
            assert len(receiver.ids()) == 2000, "sent again although the lease held"
            if not direct:
                assert all(r.metric("outboxd_listening") == 0 for r in (one, two))
                assert all(len(r.records("not_listening")) == 1 for r in (one, two)), "said once"


def test_a_changed_password_is_read_anew_from_its_file(endpoint, gate, tmp_path):
    with Cluster(hba_first=["host all guarded 127.0.0.1/32 scram-sha-256"]) as server:
        uri = server.create_migrated_database(migrate)
        server.execute("postgres", "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'first-Secret-1'")
        secret = tmp_path / "database-url"

        def write(password):
            secret.write_text(uri.replace("postgres@", f"guarded:{password}@") + "\n")
            secret.chmod(0o600)
        write("first-Secret-1")
        outbox, holding = Outbox(uri), gate(holds=held)
        with Receiver(holding) as receiver:
            config = settings(receiver, endpoint, database={"url": {"file": str(secret)}})
            with Outboxd(None, config) as relay:
                relay.wait_ready(40)
                ids = outbox.insert_many(20, HELD)
                receiver.wait_for(20, 30)
                server.execute("postgres", "ALTER ROLE guarded PASSWORD 'second-Secret-2'")
                server.terminate_backends(uri, "usename = 'guarded'")
                holding.open()
                stays_calm(relay, "password")
                write("second-Secret-2")
                outbox.wait_outcomes(20, timeout=60)
                ids += outbox.insert_many(5)
                outbox.wait_outcomes(25, timeout=60)
                assert sorted(receiver.ids()) == sorted(ids)
                relay.wait_ready(30)
                assert not any("Secret-" in line for line in relay.log())
        outbox.close()


def test_tls_to_the_database_is_checked_and_used(ca, certificate, endpoint):
    with Cluster(certificate=certificate) as server, Receiver() as receiver:
        uri = server.create_migrated_database(migrate)
        outbox = Outbox(uri)
        good = f"{uri.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert={ca.path}"
        with Outboxd(good.replace(ca.path, certificate.chain_path), settings(receiver, endpoint)) as wrong:
            stays_calm(wrong, "certificate")
        with Outboxd(good, settings(receiver, endpoint)) as relay:
            relay.wait_ready(40)
            ids = outbox.insert_many(50)
            outbox.wait_outcomes(50, timeout=40)
            assert sorted(receiver.ids()) == sorted(ids)
            plain = ("SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database() "
                     "AND a.application_name LIKE 'outboxd%' AND NOT s.ssl")
            assert outbox.value(plain) == 0
        outbox.close()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 MB that the server's account may write to."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0777", "outboxd-test", str(place)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    for parent in [tmp_path, *tmp_path.parents][:4]:
        if str(parent).startswith("/tmp/"):
            os.chmod(parent, 0o755)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_is_outlived(small_disk, endpoint, gate):
    """The history is on a disk of its own, which something else fills."""
    account = server_account()
    space = small_disk / "space"
    space.mkdir()
    if account:
        os.chown(space, account["user"], account["group"])
    with Cluster() as server:
        server.execute("postgres", "CREATE ROLE keeper LOGIN")
        world, holding = World(server), gate(holds=held)
        world.admin(f"CREATE TABLESPACE small LOCATION '{space}'")
        world.sql("ALTER TABLE outbox.attempt SET TABLESPACE small")
        filler = small_disk / "filler"
        with Receiver(holding) as receiver, Outboxd(world.uri, settings(receiver, endpoint)) as relay:
            relay.wait_ready(40)
            ids = world.outbox.insert_many(200, HELD, "{}")
            receiver.wait_for(100, 30)
            with open(filler, "wb") as out:
                try:
                    while True:
                        out.write(b"\0" * 65536)
                        out.flush()
                except OSError:
                    pass
            holding.open()
            stays_calm(relay, "No space left|out of a resource|53100")
            os.remove(filler)
            world.outbox.wait_outcomes(200, timeout=60)
            ids += world.outbox.insert_many(5)
            world.outbox.wait_outcomes(205, timeout=60)
            assert sorted(receiver.ids()) == sorted(ids)
            relay.wait_ready(30)
        world.end_sessions()


def test_a_crash_of_the_server_may_forget_claims_but_none_of_an_ordering_key(own_cluster):
    """Only what may be sent twice without harm is claimed without a wait for the disk."""
    uri = own_cluster.create_migrated_database(migrate)
    own_cluster.set("wal_writer_delay", "'10s'")
    outbox = Outbox(uri)
    outbox.rows("INSERT INTO outbox.endpoint (name, url, events) VALUES ('keyed', 'https://x', '{keyed}'), ('free', 'https://x', '{free}')")
    outbox.insert(event_type="free")
    outbox.insert(event_type="keyed", ordering_key="k")
    relay = outbox.value("SELECT id FROM outbox.register_relay('r', 'h', 1, 'test', '1 hour')")
    claim = f"SELECT count(*) FROM outbox.claim({relay}, 0, %s::text[], '{{8}}', NULL, NULL, NULL, NULL, NULL, 0, 4, 8, 1000000, 1000000) WHERE id IS NOT NULL"
    claimed = "SELECT lane FROM outbox.delivery WHERE claimed_by IS NOT NULL ORDER BY lane"
    # The keyed one first: a write to disk takes along what was committed before it.
    assert outbox.value(claim, (["keyed"],)) == outbox.value(claim, (["free"],)) == 1
    assert outbox.rows(claimed) == [("free",), ("keyed",)]
    own_cluster.stop("immediate")
    own_cluster.start()
    assert outbox.rows(claimed) == [("keyed",)]


def test_claims_that_a_crash_forgot_are_made_again_and_every_event_is_delivered(own_cluster, endpoint, gate):
    uri = own_cluster.create_migrated_database(migrate)
    own_cluster.set("wal_writer_delay", "'10s'")
    outbox = Outbox(uri)
    holding = gate(holds=held)
    with Receiver(holding) as receiver:
        config = {**settings(receiver, endpoint), "endpoints": [endpoint("all", receiver.url(), timeout="25s", concurrency=8)]}
        with Outboxd(uri, config) as relay:
            relay.wait_ready(40)
            # A lane that has finished some lately is given rows ahead.
            quick = outbox.insert_many(100)
            ids = outbox.insert_many(60, HELD)
            receiver.wait_for(108, 30)
            wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL") > 8, 20, "rows to wait in the relay")
            own_cluster.stop("immediate")
            wait_for(lambda: relay.http("/readyz")[0] == 503, 20, "readiness to say so")
            own_cluster.start()
            wait_for(lambda: relay.http("/readyz")[0] == 200, 40, "the database again")
            holding.open()
            outbox.wait_outcomes(160, timeout=60)
            assert set(receiver.ids()) == set(quick + ids)
            assert len(receiver.ids()) <= 160 + 8, "only what was on the wire may come twice"
            assert outbox.rows("SELECT DISTINCT outcome FROM outbox.attempt") == [("published",)]
            assert outbox.value("SELECT count(*) FROM outbox.delivery") == 0
