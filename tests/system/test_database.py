"""The database's bad days, each with 20 requests on the wire: results that came meanwhile are kept, written first and not sent again; readiness
tells why, liveness stays, the log and the processor stay calm, and nothing but time is needed afterwards."""

import re
import time

import psycopg2
import pytest

from outboxtest import Cluster, Outboxd, Proxy, Receiver, wait_for
from outboxtest.cluster import connect
from outboxtest.fixtures import migrate
from outboxtest.outbox import Outbox

HELD = "held.event"
COUNT = 20


@pytest.fixture(scope="module")
def server():
    """One for this module, healthy again after each case. `keeper` is what an installation would use: no superuser, owner of the schema."""
    with Cluster() as one:
        one.execute("postgres", "CREATE ROLE keeper LOGIN")
        yield one


class World:
    """A database of its own with `keeper` as owner; `uri` is the relay's way to it, `outbox` a superuser's."""

    def __init__(self, server):
        self.server = server
        superuser = server.create_database()
        self.name = superuser.rsplit("/", 1)[1]
        server.execute("postgres", f"ALTER DATABASE {self.name} OWNER TO keeper")
        self.uri = server.uri(self.name, "keeper")
        migrate(self.uri)
        self.outbox = Outbox(superuser)
        self.locker = None

    def sql(self, *statements):
        for statement in statements:
            self.outbox.rows(statement)

    def admin(self, *statements):
        for statement in statements:
            self.server.execute("postgres", statement)

    def end_sessions(self):
        self.outbox.close()
        self.server.terminate_backends(self.name)

    def lock(self, table):
        self.locker = connect(self.outbox.uri, autocommit=False)
        self.locker.cursor().execute(f"LOCK TABLE outbox.{table} IN ACCESS EXCLUSIVE MODE")

    def unlock(self):
        self.locker.close()


@pytest.fixture
def world(server):
    one = World(server)
    yield one
    one.end_sessions()


def settings(receiver, endpoint, **sections):
    return {"relay": {"lease": "60s", "poll_interval": "500ms"}, "log": {"attempts": "none"},
            "endpoints": [endpoint("all", receiver.url(), timeout="25s", concurrency=100)], **sections}


def held(request):
    return request.event_type == HELD and request.attempt_of_id == 1


def stays_calm(relay, says, seconds=2.0):
    """During an outage: the reason at /readyz and in the log, liveness, few lines, an idle processor."""
    lines = len(relay.log())
    if says:
        try:
            wait_for(lambda: relay.http("/readyz")[0] == 503 and re.search(says, relay.http("/readyz")[1]), 40, f"readiness to say {says!r}", 0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it says {relay.http('/readyz')}\n" + "\n".join(relay.log())) from None
    assert relay.http("/healthz")[0] == 200
    told, used, begun = len(relay.log()), relay.cpu_seconds(), time.monotonic()
    time.sleep(seconds)  # the outage's own length, over which lines and processor time are counted
    took = time.monotonic() - begun
    assert len(relay.log()) - told <= took + 3, "\n".join(relay.log()[told:])
    assert told - lines <= 20, "\n".join(relay.log()[lines:told])
    assert relay.cpu_seconds() - used < 0.25 * took, "a loop that spins"
    assert not says or any(re.search(says, line) for line in relay.log()), "\n".join(relay.log())


def outlives(relay, receiver, outbox, gate, harm, mend, says):
    """The story that every case of this page tells."""
    ids = outbox.insert_many(COUNT, HELD)
    receiver.wait_for(COUNT, 30)
    harm()
    gate.open()
    wait_for(lambda: len(receiver.accepted_ids()) == COUNT, 20, "the answers")
    stays_calm(relay, says)
    mend()
    try:
        outbox.wait_outcomes(COUNT, timeout=60)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n" + "\n".join(relay.log()[-20:])) from None
    ids += outbox.insert_many(5)
    outbox.wait_outcomes(COUNT + 5, timeout=60)
    assert sorted(receiver.ids()) == sorted(ids), "sent again although the answer was there"
    assert outbox.rows("SELECT DISTINCT attempt, outcome FROM outbox.attempt") == [(1, "published")], "an attempt was used up"
    assert relay.process.poll() is None
    relay.wait_ready(30)


def no_read_only(world):
    """A superuser's session may write although the default says no."""
    session = connect(world.server.uri("postgres"))
    with session.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        cursor.execute("ALTER SYSTEM RESET default_transaction_read_only")
        cursor.execute("SELECT pg_reload_conf()")
    session.close()


def missing_database(world):
    """Its sessions come back within milliseconds, and a database with sessions cannot be renamed."""
    world.admin("ALTER ROLE keeper NOLOGIN")
    world.end_sessions()
    wait_for(lambda: renamed(world), 20, "the database to be renamed")
    world.admin("ALTER ROLE keeper LOGIN")


def renamed(world):
    try:
        world.admin(f"ALTER DATABASE {world.name} RENAME TO {world.name}_away")
        return True
    except psycopg2.errors.ObjectInUse:
        return False


CASES = {
    "B07_read_only": (lambda w: w.server.set("default_transaction_read_only", "on"), no_read_only, "read-only"),
    "B07_database_renamed": (missing_database, lambda w: w.admin(f"ALTER DATABASE {w.name}_away RENAME TO {w.name}"), "does not exist"),
    "B07_table_renamed": (lambda w: w.sql("ALTER TABLE outbox.delivery RENAME TO away"), lambda w: w.sql("ALTER TABLE outbox.away RENAME TO delivery"),
                          "table delivery is missing"),
    "schema_renamed": (lambda w: w.sql("ALTER SCHEMA outbox RENAME TO away"), lambda w: w.sql("ALTER SCHEMA away RENAME TO outbox"), "schema outbox has no"),
    "rights_revoked": (lambda w: w.sql("REVOKE ALL ON outbox.delivery, outbox.relay, outbox.attempt FROM keeper"),
                       lambda w: w.sql("GRANT ALL ON outbox.delivery, outbox.relay, outbox.attempt TO keeper"), "permission denied|the role"),
    "login_forbidden": (lambda w: (w.admin("ALTER ROLE keeper NOLOGIN"), w.end_sessions()), lambda w: w.admin("ALTER ROLE keeper LOGIN"),
                        "not let this user in|not permitted"),
    "too_many_connections": (lambda w: (w.admin("ALTER ROLE keeper CONNECTION LIMIT 0"), w.end_sessions()),
                             lambda w: w.admin("ALTER ROLE keeper CONNECTION LIMIT -1"), "too many connections"),
    "restart_fast": (lambda w: w.server.stop("fast"), lambda w: w.server.start(), "refused"),
    "restart_immediate": (lambda w: w.server.stop("immediate"), lambda w: w.server.start(), "refused"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_outage_is_outlived(world, endpoint, gate, name):
    harm, mend, says = CASES[name]
    holding = gate(holds=held)
    with Receiver(holding) as receiver, Outboxd(world.uri, settings(receiver, endpoint)) as relay:
        relay.wait_ready(30)
        mended = []
        try:
            outlives(relay, receiver, world.outbox, holding, lambda: harm(world), lambda: (mend(world), mended.append(1)), says)
        finally:
            if not mended:
                mend(world)


def test_a_statement_that_waits_when_the_way_falls_silent_is_given_up_and_repeated(world, endpoint, gate):
    """Half-open: the settlement waits for a lock when the proxy freezes; its answer never comes over that connection."""
    holding = gate(holds=held)
    with Proxy(world.server.port) as proxy, Receiver(holding) as receiver:
        with Outboxd(world.uri.replace(str(world.server.port), str(proxy.port)), settings(receiver, endpoint)) as relay:
            relay.wait_ready(30)

            def harm():
                world.lock("attempt")
                holding.open()
                wait_for(lambda: world.outbox.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'outboxd settle' "
                                                    "AND datname = current_database()"), 30, "a settlement that waits")
                proxy.freeze()
                world.unlock()
            outlives(relay, receiver, world.outbox, holding, harm, proxy.thaw, "in time|database|lease")
            assert world.outbox.twice_published() == 0


def test_a_server_that_answers_slowly_is_used_all_the_same(world, endpoint):
    with Proxy(world.server.port) as proxy, Receiver() as receiver:
        proxy.delay = 0.25
        with Outboxd(world.uri.replace(str(world.server.port), str(proxy.port)), settings(receiver, endpoint)) as relay:
            relay.wait_ready(60)
            lines = len(relay.log())
            ids = world.outbox.insert_many(300)
            world.outbox.wait_outcomes(300, timeout=60)
            assert sorted(receiver.ids()) == sorted(ids)
            assert relay.http("/readyz")[0] == 200
            assert not [line for line in relay.log()[lines:] if '"level":"error"' in line]


def test_a_role_with_small_time_limits_and_strict_isolation_delivers_in_peace(world, endpoint, patience):
    world.admin("ALTER ROLE keeper SET statement_timeout = '1s'", "ALTER ROLE keeper SET lock_timeout = '200ms'",
                "ALTER ROLE keeper SET idle_in_transaction_session_timeout = '300ms'", "ALTER ROLE keeper SET idle_session_timeout = '400ms'",
                "ALTER ROLE keeper SET default_transaction_isolation = 'serializable'")
    try:
        with Receiver() as receiver, Outboxd(world.uri, settings(receiver, endpoint)) as one, Outboxd(world.uri, settings(receiver, endpoint)) as two:
            one.wait_ready(30), two.wait_ready(30)
            ids = []
            for _ in range(4):
                ids += world.outbox.insert_many(100)
                world.outbox.wait_outcomes(len(ids), timeout=60)
                stays_calm(one, None, seconds=0.8)
            world.lock("delivery")
            stays_calm(two, "lock timeout|55P03|results cannot|lease")
            world.unlock()
            ids += world.outbox.insert_many(100)
            world.outbox.wait_outcomes(len(ids), timeout=60)
            assert sorted(receiver.ids()) == sorted(ids)
            assert world.outbox.rows("SELECT DISTINCT attempt, outcome FROM outbox.attempt") == [(1, "published")]
    finally:
        world.admin("ALTER ROLE keeper RESET ALL")
