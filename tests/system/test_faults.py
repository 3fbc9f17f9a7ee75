"""Relays that die, freeze or lose their database with requests on the wire: nothing lost, nothing sent twice without need."""

import time

import pytest

from outboxtest import Outboxd, Proxy, Receiver, run_command, wait_for
from outboxtest.fixtures import migrate
from outboxtest.outbox import Outbox

HELD = "held.event"


def held(request):
    """The first time that a held event comes; all else is answered at once."""
    return request.event_type == HELD and request.attempt_of_id == 1


def lease_ends(outbox):
    return outbox.value("SELECT extract(epoch FROM max(lease_until))::float8 FROM outbox.relay")


def test_B13d_kill_9_with_200_on_the_wire_sends_those_again_after_the_lease_and_no_others(outbox, relays, endpoint, gate):
    """Half of them were answered 200 already, which the killed relay never wrote down."""
    with Receiver(gate(holds=held)) as receiver:
        config = {"relay": {"lease": "10s"}, "defaults": {"timeout": "5s"},
                  "endpoints": [endpoint("all", receiver.url(), timeout="5s", concurrency=200)]}
        first = relays(config)
        calm = outbox.insert_many(50, "calm.event", '{"n": 1.0}')
        outbox.wait_outcomes(50, timeout=30)
        # Held only while the dispatcher has not sent all 200: the kill must come before the first time-out.
        wire = outbox.insert_many(200, HELD, '{"n":  2.50}')
        receiver.wait_for(200, 30, lambda r: r.event_type == HELD)
        ends = lease_ends(outbox)
        first.kill()
        second = relays(config)
        outbox.wait_outcomes(250, timeout=60)
        for event_id in wire:
            one, two = receiver.of(event_id)
            assert (one.key, one.body, one.sequence) == (two.key, two.body, two.sequence) == (event_id, b'{"n":  2.50}', one.sequence)
            assert two.arrived >= ends - 0.05, "sent again while the dead relay's lease still held"
            assert two.attempt == one.attempt == 1, "an interrupted attempt uses none up"
        assert sorted(receiver.ids()) == sorted(calm + 2 * wire)
        assert outbox.outcomes() == {"published": 250, "lost": 200}
        assert outbox.twice_published() == 0
        assert second.metric("outboxd_rescued_total") == 200


def test_B02_a_relay_frozen_past_its_lease_sends_nothing_more_and_overwrites_nothing(outbox, relays, endpoint, gate):
    with Receiver(gate(holds=held)) as receiver:
        config = {"relay": {"lease": "4s"}, "defaults": {"timeout": "2s"}, "endpoints": [endpoint("all", receiver.url(), timeout="2s", concurrency=20)]}
        first = relays(config)
        # 20 on the wire, 20 more wait in the relay: both kinds wake up in a world that has gone on.
        ids = outbox.insert_many(40, HELD)
        receiver.wait_for(20, 30)
        first.freeze()
        receiver.behaviour.open()   # answers reach the frozen relay's sockets
        second = relays(config)
        outbox.wait_outcomes(40, timeout=60)
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.delivery") == 0, 10)
        before = len(receiver.snapshot())
        first.thaw()
        first.wait_log('"event":"(lease_lost|settlement_refused)"', 30)
        first.wait_ready(30)
        last = outbox.insert()
        receiver.wait_for(1, 30, lambda r: r.id == last)
        outbox.wait_outcomes(41, timeout=30)
        assert len(receiver.snapshot()) == before + 1, "a request after the lease had ended"
        assert outbox.twice_published() == 0
        assert outbox.statuses() == {"published": 41}
        counts = [receiver.ids().count(event_id) for event_id in ids]
        assert all(1 <= n <= 2 for n in counts) and sum(n == 2 for n in counts) <= 20
        assert second.terminate() == 0 and first.terminate() == 0


def test_B02_a_success_that_comes_after_the_lease_does_not_undo_what_another_relay_did(cluster, database, outbox, relays,
                                                                                     endpoint, gate):
    """The first relay's way to the database is cut while its requests are on the wire; the second publishes; then it returns."""
    with Receiver(gate(holds=held)) as receiver, Proxy(cluster.port) as proxy:
        endpoints = [endpoint("all", receiver.url(), timeout="2s", concurrency=50)]
        first = relays({"relay": {"lease": "4s"}, "defaults": {"timeout": "2s"}, "endpoints": endpoints},
                       database=database.replace(f":{cluster.port}/", f":{proxy.port}/"))
        ids = outbox.insert_many(50, HELD)
        receiver.wait_for(50, 30)
        proxy.freeze()
        receiver.behaviour.open()
        second = relays({"relay": {"lease": "4s"}, "defaults": {"timeout": "2s"}, "endpoints": endpoints})
        outbox.wait_outcomes(50, timeout=60)
        proxy.thaw()
        first.wait_ready(40)
        last = outbox.insert()
        outbox.wait_outcomes(51, timeout=30)
        assert outbox.twice_published() == 0
        assert outbox.statuses() == {"published": 51}
        assert sorted(receiver.ids()) == sorted([*ids, *ids, last])
        assert second.metric("outboxd_rescued_total") == 50
        wait_for(lambda: first.metric("outboxd_lease_lost_total") >= 1, 10, "the refused settlements to be counted")


def test_B02_B12_answers_just_before_the_time_out_are_no_reason_to_send_again(outbox, relays, endpoint):
    """Two relays, a lease that is twice the time-out, answers close to it; one lane is so slow that rows wait for longer
    than a lease in the relay that claimed them."""
    async def late(request):
        import asyncio
        await asyncio.sleep(0.4 if request.target == "/one" else 1.2 + 0.3 * (hash(request.id) % 100) / 100)
        return 200

    with Receiver(late) as receiver:
        config = {"relay": {"lease": "4s", "claim_batch": 100}, "defaults": {"timeout": "2s"},
                  "endpoints": [endpoint("wide", receiver.url("/wide"), events=["wide"], timeout="2s", concurrency=60),
                                endpoint("one", receiver.url("/one"), events=["one"], timeout="2s", concurrency=1)]}
        first, second = relays(config), relays(config)
        ids = outbox.insert_many(150, "wide") + outbox.insert_many(24, "one")
        outbox.wait_outcomes(len(ids), timeout=60)
        assert sorted(receiver.ids()) == sorted(ids), "sent twice while the lease was kept alive"
        assert outbox.outcomes() == {"published": len(ids)}
        assert first.metric("outboxd_rescued_total") + second.metric("outboxd_rescued_total") == 0


@pytest.mark.parametrize("lease, timeout, good", [("4s", "2s", True), ("3s", "2s", False), ("10s", "30s", False)])
def test_B12_a_lease_shorter_than_twice_the_longest_time_out_is_refused(endpoint, lease, timeout, good):
    done = run_command("check", config={"database": {"url": "postgresql://localhost/app"}, "relay": {"lease": lease}, "defaults": {"timeout": "2s"},
                                        "endpoints": [endpoint("slow", "https://example.com", timeout=timeout)]})
    assert done.returncode == (0 if good else 78), done.stdout + done.stderr
    assert good or "lease" in done.stdout + done.stderr


def end_sessions(world):
    world.server.terminate_backends(world.name)


def lock_the_table(world):
    from outboxtest.cluster import connect
    locker = connect(world.outbox.uri, autocommit=False)
    locker.cursor().execute("LOCK TABLE outbox.delivery IN ACCESS EXCLUSIVE MODE")
    world.undo = locker.rollback


def freeze_the_way(world):
    world.proxy.freeze()
    world.undo = world.proxy.thaw


def crash_the_server(world):
    world.server.stop("immediate")
    world.undo = world.server.start


class World:
    undo = staticmethod(lambda: None)


@pytest.mark.parametrize("harm, seconds", [(end_sessions, 0), (lock_the_table, 6), (freeze_the_way, 6), (crash_the_server, 20)],
                         ids=["a_sessions_ended", "b_table_locked", "c_silence", "restart_of_20_seconds"])
def test_B13_results_that_cannot_be_written_are_kept_and_written_not_sent_again(own_cluster, endpoint, gate, harm, seconds):
    world = World()
    world.server = own_cluster
    with Receiver(gate(holds=held)) as receiver, Proxy(own_cluster.port) as world.proxy:
        uri = own_cluster.create_migrated_database(migrate)
        world.name, world.outbox = uri.rsplit("/", 1)[1], Outbox(uri)
        config = {"relay": {"lease": "60s", "poll_interval": "500ms"}, "log": {"attempts": "failures"},
                  "endpoints": [endpoint("all", receiver.url(), timeout="25s", concurrency=200)]}
        with Outboxd(uri.replace(f":{own_cluster.port}/", f":{world.proxy.port}/"), config) as relay:
            relay.wait_ready(30)
            ids = world.outbox.insert_many(200, HELD)
            receiver.wait_for(200, 30)
            harm(world)
            begun = time.monotonic()
            receiver.behaviour.open()
            wait_for(lambda: len(receiver.accepted_ids()) == 200, 20, "200 answers")
            # The harm itself has a length; nothing else in this test is waited for by the clock.
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
            assert relay.http("/healthz")[0] == 200
            world.undo()
            world.outbox.wait_outcomes(200, timeout=60)
            last = world.outbox.insert()
            world.outbox.wait_outcomes(201, timeout=60)
            assert sorted(receiver.ids()) == sorted([*ids, last]), "sent again while the lease held"
            assert world.outbox.outcomes() == {"published": 201}
            assert world.outbox.twice_published() == 0
            repeating = [line for line in relay.log() if '"settle_failed"' in line or '"claim_failed"' in line]
            assert len(repeating) <= 6, "the same complaint again and again"


def test_B13_no_new_claims_while_results_cannot_be_written(outbox, relays, endpoint, gate):
    from outboxtest.cluster import connect
    with Receiver(gate(holds=held)) as receiver:
        relay = relays({"relay": {"lease": "60s"}, "endpoints": [endpoint("all", receiver.url(), timeout="20s")]})
        outbox.insert_many(20, HELD)
        receiver.wait_for(20, 30)
        locker = connect(outbox.uri, autocommit=False)
        # Only the history is locked: claims would go through, settlements do not.
        locker.cursor().execute("LOCK TABLE outbox.attempt IN ACCESS EXCLUSIVE MODE")
        receiver.behaviour.open()
        relay.wait_log('"event":"settle_failed"', 60)
        late = outbox.insert_many(10, "later.event")
        wait_for(lambda: relay.http("/readyz")[0] == 503, 20, "readiness to say that nothing is claimed")
        assert not set(late) & set(receiver.ids()), "claimed although results cannot be written"
        locker.rollback()
        locker.close()
        outbox.wait_outcomes(30, timeout=60)
        assert len(receiver.ids()) == 30


@pytest.mark.parametrize("columns, before", [({"max_attempts": 3}, 2), ({"max_attempts": 1}, 0)], ids=["third", "only"])
def test_B19_a_kill_during_the_last_attempt_is_seen_and_the_attempt_made_again(outbox, relays, endpoint, gate, columns, before):
    holding = gate()
    with Receiver(lambda r: 500 if r.attempt_of_id <= before else holding(r)) as receiver:
        config = {"relay": {"lease": "4s"}, "defaults": {"timeout": "2s"}, "endpoints": [endpoint("all", receiver.url(), timeout="2s")]}
        relay = relays(config)
        event_id = outbox.insert(**columns)
        receiver.wait_for(before + 1, 30)
        relay.kill()
        holding.open()
        relays(config)
        outbox.wait_outcomes(1, timeout=40)
        assert [h["outcome"] for h in outbox.history(event_id)] == ["retried"] * before + ["lost", "published"]
        assert [r.attempt for r in receiver.of(event_id)] == [*range(1, before + 2), before + 1]


def test_B19_a_delivery_that_ends_its_relay_every_time_ends_failed_with_the_number(outbox, relays, endpoint, gate):
    with Receiver(gate()) as receiver:
        config = {"relay": {"lease": "4s", "max_rescues": 1}, "defaults": {"timeout": "2s"}, "endpoints": [endpoint("all", receiver.url(), timeout="2s")]}
        event_id = outbox.insert()
        for kill in range(2):
            relay = relays(config)
            receiver.wait_for(kill + 1, 40)
            relay.kill()
        relay = relays(config)
        outbox.wait_outcomes(1, "failed", timeout=40)
        assert [(h["outcome"], h["error_class"]) for h in outbox.history(event_id)] == [("lost", "lease"), ("failed", "interrupted")]
        assert outbox.history(event_id)[-1]["error"] == "interrupted 2 times"
        assert outbox.status_of(event_id)[0]["status"] == "failed"
        assert len(receiver.ids()) == 2
        why = run_command("why", event_id, config=relay.config)
        assert why.returncode == 0 and "interrupted 2 times" in why.stdout


def test_B11_no_transaction_and_no_row_lock_lasts_as_long_as_a_request(cluster, outbox, relays, endpoint, gate):
    holding = gate()
    name = outbox.uri.rsplit("/", 1)[1]
    cluster.execute("postgres", f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '1s'")
    log_begins = len(cluster.log())
    with Receiver(lambda r: holding(r) if r.target == "/slow" else 200) as receiver:
        config = {"endpoints": [endpoint("slow", receiver.url("/slow"), events=["slow"], timeout="15s"),
                                endpoint("fast", receiver.url("/fast"), events=["fast"])]}
        relays(config), relays(config)
        outbox.insert_many(30, "slow")
        receiver.wait_for(30, 30)
        fast = outbox.insert_many(100, "fast")
        outbox.wait_outcomes(100, timeout=30)
        assert {r.id for r in receiver.snapshot() if r.target == "/fast"} == set(fast)
        busy = ("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
                "(wait_event_type = 'Lock' OR state LIKE 'idle in transaction%' AND now() - state_change > interval '1 second')")
        for _ in range(20):
            assert outbox.value(busy) == 0
            time.sleep(0.05)
        # All 30 are still on the wire. Changes of the tables and of every claimed row go through at once.
        outbox.rows("SET lock_timeout = '3s'")
        outbox.rows("ALTER TABLE outbox.delivery ADD COLUMN x int")
        outbox.rows("ALTER TABLE outbox.event ADD COLUMN x int")
        outbox.rows("ALTER TABLE outbox.endpoint ADD COLUMN x int")
        assert len(outbox.rows("SELECT id FROM outbox.delivery FOR UPDATE NOWAIT")) == 30
        holding.open()
        outbox.wait_outcomes(130, timeout=30)
        assert len(receiver.ids()) == 130
    assert "idle-in-transaction timeout" not in cluster.log()[log_begins:]
