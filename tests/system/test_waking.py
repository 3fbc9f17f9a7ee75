"""What wakes a relay, what happens when nothing does, and a database that is late or goes away."""

import re
import time

import psycopg2
import pytest

from outboxtest import Outboxd, Receiver, wait_for
from outboxtest.cluster import connect
from outboxtest.daemon import ROOT
from outboxtest.fixtures import migrate
from outboxtest.outbox import Outbox

SLOW_POLL = {"relay": {"poll_interval": "30s"}}
LISTENER = "(starts_with(query, 'LISTEN') OR strpos(query, 'idle_session' || '_timeout') > 0)"


def test_B04_a_wake_up_that_comes_before_the_commit_does_no_harm(outbox, relays, endpoint, patience):
    with Receiver() as receiver:
        relays({**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())]})
        session = connect(outbox.uri, autocommit=False)
        other = connect(outbox.uri)
        with session.cursor() as cursor:
            cursor.execute("INSERT INTO outbox.event (event_id, event_type, payload) VALUES ('slow-commit', 'a', '{}')")
            with other.cursor() as early:
                early.execute("NOTIFY outbox_wake; NOTIFY outbox_wake, 'lane:all'")
            # The relay has looked and found nothing when this one is delivered.
            receiver.wait_for(1, 30, lambda r, first=outbox.insert(): r.id == first)
            committed = time.monotonic()
        session.commit()
        request = receiver.wait_for(1, 35, lambda r: r.id == "slow-commit")
        request = next(r for r in request if r.id == "slow-commit")
        assert request.arrived_monotonic - committed < patience(3.0), "found by the poll, not by the wake-up"


def test_B04_no_row_is_forgotten_in_a_burst_of_commits_while_the_relay_claims(outbox, relays, endpoint):
    with Receiver() as receiver:
        relays({**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())], "log": {"attempts": "none"}})
        ids = [outbox.insert() for _ in range(1000)]
        last = time.monotonic()
        receiver.wait_for(1000, 60)
        assert time.monotonic() - last < 25, "some waited for the poll"
        assert sorted(receiver.ids()) == sorted(ids)


@pytest.mark.parametrize("change", [
    "ALTER TABLE outbox.event DISABLE TRIGGER event_fan_out",
    "DROP TRIGGER event_fan_out ON outbox.event",
], ids=["trigger_disabled", "trigger_dropped"])
def test_B04_events_that_no_trigger_saw_are_found_by_the_sweep(outbox, relays, endpoint, change):
    with Receiver() as receiver:
        relays({**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())]})
        outbox.insert()
        receiver.wait_for(1, 30)
        outbox.rows(change)
        ids = [outbox.insert() for _ in range(20)]
        receiver.wait_for(21, 120)
        outbox.wait_outcomes(21, timeout=30)
        assert set(ids) < set(receiver.ids()) and len(receiver.ids()) == 21


def test_B04_with_notify_false_the_poll_alone_delivers(outbox, relays, endpoint, patience):
    with Receiver() as receiver:
        relay = relays({"relay": {"poll_interval": "1s", "notify": False}, "endpoints": [endpoint("all", receiver.url())]})
        begun = time.monotonic()
        for number in range(5):
            outbox.insert(event_id=f"n{number}")
            receiver.wait_for(1, 30, lambda r, n=number: r.id == f"n{n}")
        assert time.monotonic() - begun < patience(8)
        assert outbox.value(f"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {LISTENER}") == 0
        assert relay.metric("outboxd_listening") == 0


def test_B05_a_lost_listen_session_is_replaced_and_what_came_meanwhile_is_delivered(cluster, outbox, relays, endpoint, patience):
    with Receiver() as receiver:
        relay = relays({**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())]})
        for number in range(3):
            wait_for(lambda: relay.metric("outboxd_listening") == 1, 30, "the relay to listen")
            assert wait_for(lambda: cluster.terminate_backends(outbox.uri, LISTENER), 20) == 1
            gap = outbox.insert()
            receiver.wait_for(1, 25, lambda r, i=gap: r.id == i)
        wait_for(lambda: relay.metric("outboxd_listening") == 1, 30, "the relay to listen again")
        begun = time.monotonic()
        prompt = outbox.insert()
        receiver.wait_for(1, 25, lambda r: r.id == prompt)
        assert time.monotonic() - begun < patience(1.0)
        assert len(relay.records("listening")) >= 2, "a line per change"


def test_B05_a_relay_that_had_to_register_anew_asks_for_wake_ups_anew(outbox, relays, endpoint):
    with Receiver() as receiver:
        relays({**SLOW_POLL, "relay": {**SLOW_POLL["relay"], "lease": "30s"}, "endpoints": [endpoint("all", receiver.url())]})
        asks = "SELECT bool_or(wake) FROM outbox.relay"
        wait_for(lambda: outbox.value(asks), 30, "the relay to ask for wake-ups")
        first = outbox.value("SELECT max(id) FROM outbox.relay")
        outbox.rows("DELETE FROM outbox.relay")
        wait_for(lambda: outbox.value("SELECT max(id) > %s FROM outbox.relay", (first,)), 40, "the relay to register anew")
        wait_for(lambda: outbox.value(asks), 20, "the relay to ask again")
        event = outbox.insert()
        receiver.wait_for(1, 20, lambda r: r.id == event)


def test_B05_a_crash_of_the_server_costs_no_processor_time_and_no_event(own_cluster, endpoint, patience):
    uri = own_cluster.create_migrated_database(migrate)
    outbox = Outbox(uri)
    with Receiver() as receiver, Outboxd(uri, {**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())]}) as relay:
        relay.wait_ready(30)
        outbox.insert()
        receiver.wait_for(1, 30)
        wait_for(lambda: relay.metric("outboxd_listening") == 1, 30)
        own_cluster.stop("immediate")
        wait_for(lambda: relay.http("/readyz")[0] == 503, 20, "readiness to say so")
        wait_for(lambda: relay.metric("outboxd_listening") == 0, 20, "the metric to say so")
        assert relay.http("/healthz")[0] == 200
        used, lines, begun = relay.cpu_seconds(), len(relay.log()), time.monotonic()
        time.sleep(6)  # the outage itself
        assert relay.cpu_seconds() - used < 0.6, "a loop that spins on a dead socket"
        assert len(relay.log()) - lines <= 2 * (time.monotonic() - begun) + 2, "a storm of lines"
        assert relay.metric("outboxd_database_up") == 0
        own_cluster.start()
        ids = [outbox.insert() for _ in range(5)]
        receiver.wait_for(6, 29)
        wait_for(lambda: relay.metric("outboxd_listening") == 1, 30)
        relay.wait_ready(30)
        begun = time.monotonic()
        last = outbox.insert()
        receiver.wait_for(1, 25, lambda r: r.id == last)
        assert time.monotonic() - begun < patience(1.0)
        assert set(ids) < set(receiver.ids()) and len(receiver.ids()) == 7


def test_B05_a_session_that_ends_in_the_middle_of_a_claim_loses_nothing(cluster, outbox, relays, endpoint):
    with Receiver() as receiver:
        relay = relays({**SLOW_POLL, "endpoints": [endpoint("all", receiver.url())]})
        wait_for(lambda: relay.metric("outboxd_listening") == 1, 30)
        locker = connect(outbox.uri, autocommit=False)
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLE outbox.relay IN ACCESS EXCLUSIVE MODE")
            other = connect(outbox.uri)
            other.cursor().execute("NOTIFY outbox_wake")
            claiming = "query LIKE '%.claim(%' AND wait_event_type = 'Lock'"
            wait_for(lambda: outbox.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                                          "AND " + claiming), 30, "a claim that waits")
            assert cluster.terminate_backends(outbox.uri, claiming.replace("%", "%%")) == 1
        locker.rollback()
        ids = outbox.insert_many(50)
        outbox.wait_outcomes(50, timeout=29)
        assert sorted(receiver.ids()) == sorted(ids)


# A database that is not there yet -----------------------------------------------------------------------------------

def test_B65_a_server_that_comes_later_is_waited_for_without_noise(own_cluster, endpoint):
    uri = own_cluster.create_migrated_database(migrate)
    own_cluster.stop()
    with Receiver() as receiver, Outboxd(uri, {"endpoints": [endpoint("all", receiver.url())]}) as relay:
        begun = time.monotonic()
        relay.wait_log('"event":"not_ready"|"event":"database_down"', 20)
        time.sleep(5)  # the server is down for so long
        assert relay.process.poll() is None
        assert relay.http("/healthz")[0] == 200 and relay.http("/readyz")[0] == 503
        assert len(relay.log()) <= 4 * (time.monotonic() - begun) + 6
        own_cluster.start()
        relay.wait_ready(30)
        Outbox(uri).insert()
        receiver.wait_for(1, 30)


def missing_database(uri, outbox):
    name = uri.rsplit("/", 1)[1]
    outbox.close()
    return uri.replace(name, name + "_later"), lambda: Outbox(uri.replace(name, "postgres")).rows(
        f'CREATE DATABASE {name}_later TEMPLATE "{name}"')


def missing_schema(uri, outbox):
    outbox.rows("ALTER SCHEMA outbox RENAME TO elsewhere")
    return uri, lambda: outbox.rows("ALTER SCHEMA elsewhere RENAME TO outbox")


def missing_column(uri, outbox):
    outbox.rows("ALTER TABLE outbox.delivery RENAME COLUMN claimed_by TO claimed")
    return uri, lambda: outbox.rows("ALTER TABLE outbox.delivery RENAME COLUMN claimed TO claimed_by")


def newer_schema(uri, outbox):
    column = outbox.rows("SELECT column_name FROM information_schema.columns WHERE table_schema = 'outbox' AND "
                         "table_name = 'migration' AND column_name IN ('version', 'id', 'number') LIMIT 1")[0][0]
    outbox.rows("CREATE TABLE public.kept AS SELECT * FROM outbox.migration")
    outbox.rows(f"DELETE FROM outbox.migration WHERE {column} = (SELECT max({column}) FROM outbox.migration)")
    return uri, lambda: outbox.rows("INSERT INTO outbox.migration SELECT * FROM public.kept ON CONFLICT DO NOTHING")


@pytest.mark.parametrize("harm, says", [(missing_database, "does not exist"), (missing_schema, "schema|migrate"),
                                        (missing_column, "claimed_by"), (newer_schema, "version|migrat")],
                         ids=["database", "schema", "column", "other_version"])
def test_B65_what_is_missing_is_named_and_waited_for(outbox, relays, endpoint, harm, says):
    uri = outbox.uri
    with Receiver() as receiver:
        target, mend = harm(uri, outbox)
        relay = relays({"endpoints": [endpoint("all", receiver.url())]}, ready=False, database=target)
        line = relay.wait_log('"event":"not_ready"', 30)
        wait_for(lambda: any(re.search(says, entry) for entry in relay.log()), 10, f"a line that names it: {line}")
        assert relay.http("/readyz")[0] == 503
        assert relay.process.poll() is None
        mend()
        relay.wait_ready(30)
        Outbox(target).insert()
        receiver.wait_for(1, 30)


def test_B65_a_wrong_password_is_named_and_not_shown(own_cluster, endpoint):
    uri = own_cluster.create_migrated_database(migrate)
    own_cluster.execute("postgres", "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right-one'")
    own_cluster._write("pg_hba.conf", "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
                                      "local all all trust\n")
    own_cluster.execute("postgres", "SELECT pg_reload_conf()")
    wrong = uri.replace("postgres@", "guarded:wr0ng-Secret@")

    def refused():
        try:
            psycopg2.connect(wrong).close()
            return False
        except psycopg2.OperationalError:
            return True
    wait_for(refused, 20, "the rule to hold")
    with Receiver() as receiver, Outboxd(wrong, {"endpoints": [endpoint("all", receiver.url())]}) as relay:
        begun = time.monotonic()
        relay.wait_log('"event":"not_ready".*password', 30)
        own_cluster.execute("postgres", "ALTER ROLE guarded PASSWORD 'wr0ng-Secret'")
        assert relay.process.poll() is None
        assert len(relay.log()) <= 4 * (time.monotonic() - begun) + 6
        relay.wait_ready(30)
        assert "wr0ng-Secret" not in "\n".join(relay.log())


def test_B65_the_unit_does_not_give_up_on_a_slow_database():
    text = open(f"{ROOT}/systemd/outboxd.service", encoding="utf-8").read()
    assert re.search(r"^Restart=(on-failure|always)$", text, re.MULTILINE)
    assert re.search(r"^RestartSec=", text, re.MULTILINE)
    assert re.search(r"^StartLimitIntervalSec=0$", text, re.MULTILINE), "a start limit would stop it for good"
    assert re.search(r"^After=.*postgresql", text, re.MULTILINE) and re.search(r"^After=.*network", text, re.MULTILINE)
    assert not re.search(r"^(Requires|BindsTo)=.*postgresql", text, re.MULTILINE), "the database may be on another machine"
