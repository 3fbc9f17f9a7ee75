"""The application's own INSERT: our trigger never makes it fail, and never lets it wait."""

import io
import time

import pytest

from outboxtest import Receiver, run_command, wait_for
from outboxtest.cluster import connect


def one(sql, *parameters):
    def insert(session):
        with session.cursor() as cursor:
            cursor.execute(sql, parameters)
    return insert


def copy_in(session):
    session.cursor().copy_expert("COPY outbox.event (event_type, payload) FROM STDIN",
                                 io.StringIO('a.b\t{"n":1}\na.b\t{"n":2}\n'))


def two_phases(session):
    with session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('a.b', '{}')")
        cursor.execute("PREPARE TRANSACTION 'two-phases'")
        cursor.execute("COMMIT PREPARED 'two-phases'")


EVENT = "INSERT INTO outbox.event (event_type, payload) "
INSERTS = {
    "one_megabyte": (one(EVENT + "VALUES ('a.b', to_json(repeat('x', 1000000)))"), 1),
    "names_of_255_emoji": (one("INSERT INTO outbox.event (event_type, payload, ordering_key, tenant_id, subject) VALUES "
                               "(repeat(%s, 255), '{}', repeat(%s, 255), repeat(%s, 255), repeat(%s, 9000))", *["\U0001f600"] * 4), 1),
    "an_endpoint_of_255_emoji": (one("INSERT INTO outbox.event (event_type, payload, endpoint) VALUES "
                                     "('a', '{}', repeat(%s, 255))", "\U0001f600"), 0),
    "a_url_of_8000_bytes": (one("INSERT INTO outbox.event (event_type, payload, url) VALUES "
                                "('a', '{}', 'ftp://h/' || repeat('u', 8000))"), 0),
    "a_breaker_key_of_emoji": (one("INSERT INTO outbox.event (event_type, payload, url, breaker_key) VALUES "
                                   "('a', '{}', 'ftp://h/', repeat(%s, 255))", "\U0001f600"), 0),
    "20000_rows_at_once": (one(EVENT + "SELECT 'a.b', '{}' FROM generate_series(1, 20000)"), 20000),
    "no_row_at_all": (one(EVENT + "SELECT 'a.b', '{}' WHERE false"), 0),
    "an_empty_search_path": (one("SET search_path = ''; " + EVENT + "VALUES ('a.b', '{}')"), 1),
    "a_search_path_with_our_names": (one(
        "SET search_path = pg_temp, pg_catalog; CREATE TEMP TABLE delivery (x int); CREATE TEMP TABLE relay (wake boolean); "
        "CREATE TEMP TABLE setting (name text, value text); CREATE TEMP TABLE subscription (x int); " + EVENT + "VALUES ('a.b', '{}')"), 1),
    "copy": (copy_in, 2),
    "on_conflict": (one("INSERT INTO outbox.event (event_id, event_type, payload) VALUES ('c1', 'a', '{}'), ('c2', 'a', '{}') "
                        "ON CONFLICT (event_id) DO NOTHING"), 2),
    "in_a_writing_cte": (one("WITH new AS (" + EVENT + "VALUES ('a.b', '{}') RETURNING id, event_id) SELECT count(*) FROM new"), 1),
    "in_a_savepoint": (one("BEGIN; SAVEPOINT a; " + EVENT + "VALUES ('a.b', '1'); ROLLBACK TO a; " + EVENT +
                           "VALUES ('a.b', '2'); COMMIT"), 1),
    "serializable": (one("BEGIN ISOLATION LEVEL SERIALIZABLE; " + EVENT + "VALUES ('a.b', '{}'); COMMIT"), 1),
    "odd_settings": (one("SET enable_indexscan = off; SET plan_cache_mode = force_custom_plan; SET DateStyle = 'German'; "
                         "SET bytea_output = escape; SET TimeZone = 'Asia/Kathmandu'; SET standard_conforming_strings = off; "
                         + EVENT + "VALUES ('a.b', '{}')"), 1),
}


@pytest.fixture
def writer(cluster, outbox):
    """A role with what `migrate --grant-writer` gives, and nothing more."""
    name = "writer_" + outbox.uri.rsplit("_", 1)[1]
    outbox.rows(f"CREATE ROLE {name} LOGIN")
    granted = run_command("migrate", "--grant-writer", name, config={"database": {"url": outbox.uri}})
    assert granted.returncode == 0, granted.stderr
    yield outbox.uri.replace("postgres@", name + "@")
    outbox.close()
    cluster.execute(outbox.uri, f"DROP OWNED BY {name}")
    cluster.execute("postgres", f"DROP ROLE {name}")


@pytest.mark.parametrize("name", INSERTS)
def test_B73_the_insert_succeeds_for_a_role_that_may_do_nothing_else(outbox, writer, relays, endpoint, name):
    """A relay sleeps and has asked for wake-ups, so the trigger does all that it ever does."""
    insert, arrive = INSERTS[name]
    with Receiver(keep_bodies=False) as receiver:
        relay = relays({"relay": {"poll_interval": "20s"}, "log": {"attempts": "none"},
                        "endpoints": [endpoint("all", receiver.url(), max_payload="2MiB")]})
        wait_for(lambda: outbox.value("SELECT bool_or(wake) FROM outbox.relay"), 30, "the relay to ask for wake-ups")
        session = connect(writer)
        insert(session)
        session.close()
        count = outbox.value("SELECT count(*) FROM outbox.event")
        assert count == outbox.value("SELECT count(DISTINCT event) FROM (SELECT event FROM outbox.delivery UNION ALL "
                                     "SELECT event FROM outbox.attempt) x"), "an event without a delivery"
        receiver.wait_for(arrive, 60)
        outbox.wait_outcomes(arrive, timeout=60)
        assert len(set(receiver.ids())) == len(receiver.ids()) == arrive
        assert relay.process.poll() is None


def test_B73_a_writer_may_insert_and_read_ids_and_no_more(outbox, writer):
    session = connect(writer)
    cursor = session.cursor()
    cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('a', '{}') RETURNING id, event_id")
    assert cursor.fetchone()
    for sql in ("SELECT payload FROM outbox.event", "DELETE FROM outbox.event", "UPDATE outbox.event SET payload = '1'",
                "TRUNCATE outbox.event", "SELECT * FROM outbox.delivery", "SELECT secret FROM outbox.endpoint_secret",
                "INSERT INTO outbox.endpoint (name, url) VALUES ('x', 'https://x.example')", "SELECT outbox.purge()",
                "DELETE FROM outbox.delivery", "CREATE TABLE outbox.mine (x int)"):
        with pytest.raises(Exception, match="permission denied|does not exist"):
            cursor.execute(sql)
    session.close()


def test_B73_two_phase_commit_works_while_no_wake_up_is_asked_for(outbox, writer, relays, endpoint):
    """PREPARE TRANSACTION refuses NOTIFY: relay.notify: false is what such applications set."""
    with Receiver() as receiver:
        relays({"relay": {"notify": False, "poll_interval": "500ms"}, "endpoints": [endpoint("all", receiver.url())]})
        session = connect(writer)
        two_phases(session)
        session.close()
        receiver.wait_for(1, 30)
        outbox.wait_outcomes(1, timeout=30)


def test_B73_events_restored_as_a_replica_are_found(outbox, relays, endpoint):
    with Receiver() as receiver:
        relays({"endpoints": [endpoint("all", receiver.url())]})
        session = connect(outbox.uri)
        session.cursor().execute("SET session_replication_role = replica; INSERT INTO outbox.event (event_id, event_type, payload) "
                                 "SELECT 'r' || n, 'a', '{}' FROM generate_series(1, 30) n")
        session.close()
        receiver.wait_for(30, 60)
        outbox.wait_outcomes(30, timeout=30)
        assert sorted(receiver.ids()) == sorted(f"r{n}" for n in range(1, 31))


@pytest.mark.parametrize("held", ["LOCK TABLE outbox.relay IN EXCLUSIVE MODE", "SELECT FROM outbox.relay FOR UPDATE",
                                  "SELECT FROM outbox.endpoint FOR UPDATE", "SELECT FROM outbox.delivery FOR UPDATE",
                                  "UPDATE outbox.endpoint SET events = '{a}'", "LOCK TABLE outbox.endpoint IN EXCLUSIVE MODE"],
                         ids=["relay_table", "relay_rows", "endpoint_rows", "delivery_rows", "endpoint_changed", "endpoint_table"])
def test_B73_the_insert_waits_for_nobody_elses_transaction(outbox, writer, relays, endpoint, receiver, held):
    relays({"endpoints": [endpoint("all", receiver.url("/fail/503"), retry={"schedule": ["1h"], "jitter": 0})]})
    outbox.insert_many(5)
    outbox.wait_outcomes(5, "retried", timeout=30)
    other = connect(outbox.uri, autocommit=False)
    other.cursor().execute(held)
    session = connect(writer)
    cursor = session.cursor()
    cursor.execute("SET lock_timeout = '5s'")
    begun = time.monotonic()
    cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('a.b', '{}')")
    assert time.monotonic() - begun < 5
    session.close()
    other.rollback()
    other.close()
