"""kill -9 at every named step of a row's way (OUTBOXD_KILL_AT): what was committed is delivered by the next relay, with the same bytes.

A row that ends its relay each time is bounded by max_rescues: test_faults.py, B19.
"""

import signal
from collections import Counter

import pytest

from outboxtest import Outboxd, Receiver, run_command, wait_for

BODY = '{"n":  1.50, "text": "\\u00e4 b"}'
COUNT = 12


def dies_at(step, database, config):
    """A relay that ends itself at that step; returns when it has."""
    with Outboxd(database, config, env={"OUTBOXD_KILL_AT": step}) as relay:
        assert relay.wait(60) == -signal.SIGKILL, "\n".join(relay.log()[-10:])
        assert relay.records("kill_hook")[0]["step"] == (step if ":" in step else step + ":1")


CLAIMED = "SELECT count(*) FROM outbox.delivery WHERE claimed_by IS NOT NULL"


# How many requests the dead relay had sent, and how many of its results were surely not written.
@pytest.mark.parametrize("step, sent, written", [
    ("after_claim", 0, 0),
    ("while_sending", 1, 0),
    ("while_sending:5", 5, None),
    ("after_answer", None, 0),
    ("before_settle", None, 0),
    ("after_settle_sent", None, None),
], ids=["after_claim", "while_sending", "while_sending_the_fifth", "after_answer", "before_settle", "after_settle_sent"])
def test_B13d_a_kill_at_this_step_loses_nothing_and_changes_no_byte(database, outbox, relays, endpoint, step, sent, written):
    with Receiver() as receiver:
        config = {"relay": {"lease": "2s"}, "defaults": {"timeout": "1s"},
                  "endpoints": [endpoint("all", receiver.url(), timeout="1s", concurrency=8)]}
        assert run_command("migrate", config={**config, "database": {"url": database}, "egress": {"allow_http": True}}).returncode == 0
        ids = outbox.insert_many(COUNT, payload=BODY)
        dies_at(step, database, config)
        # A request that was written, and a statement that was sent, arrive although their sender is gone.
        wait_for(lambda: len(receiver.ids()) >= (1 if sent is None else sent), 20, "what was on the wire")
        if step == "after_settle_sent":
            outbox.wait_outcomes(1, timeout=20)
        claimed = outbox.value(CLAIMED)
        settled = {i for (i,) in outbox.rows("SELECT event_id FROM outbox.status WHERE status = 'published'")}
        assert len(receiver.ids()) == len(set(receiver.ids())) and sent in (None, len(receiver.ids()))
        assert written in (None, len(settled)) and settled <= set(receiver.ids())
        relays(config)
        outbox.wait_outcomes(COUNT, timeout=60)
        wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.delivery") == 0, 20, "nothing to be left")
        counts = Counter(receiver.ids())
        assert set(counts) == set(ids), "every event came"
        assert not settled & {i for i, n in counts.items() if n > 1} and max(counts.values()) <= 2, "sent again although it was written down"
        for event_id in ids:
            assert {(r.key, r.body.decode(), r.attempt) for r in receiver.of(event_id)} == {(event_id, BODY, 1)}, "an interrupted attempt uses none up"
            history = [h["outcome"] for h in outbox.history(event_id)]
            assert history in (["lost", "published"], ["published"]), history
            assert counts[event_id] == 1 or history == ["lost", "published"], "an interrupted attempt is seen in the history"
        assert outbox.outcomes().get("lost", 0) == claimed
        assert outbox.twice_published() == 0
        assert outbox.statuses() == {"published": COUNT}


def test_a_kill_between_a_rescue_and_its_reply_loses_nothing_and_rescues_nothing_twice(database, outbox, relays, endpoint):
    """The dead relay's rows are taken back by a statement whose reply nobody read."""
    with Receiver() as receiver:
        config = {"relay": {"lease": "2s"}, "defaults": {"timeout": "1s"}, "endpoints": [endpoint("all", receiver.url(), timeout="1s")]}
        assert run_command("migrate", config={**config, "database": {"url": database}, "egress": {"allow_http": True}}).returncode == 0
        ids = outbox.insert_many(COUNT, payload=BODY)
        dies_at("after_claim", database, config)
        wait_for(lambda: outbox.value("SELECT bool_and(lease_until < clock_timestamp()) FROM outbox.relay"), 20, "the lease to end")
        claimed = outbox.value(CLAIMED)
        assert claimed > 0
        dies_at("in_rescue", database, config)
        wait_for(lambda: outbox.outcomes().get("lost", 0) == claimed, 20, "the statement to be carried out all the same")
        relays(config)
        outbox.wait_outcomes(COUNT, timeout=60)
        assert {(r.id, r.body.decode(), r.attempt) for r in receiver.snapshot()} == {(i, BODY, 1) for i in ids}
        assert all(outcomes[-1] == "published" for outcomes in ([h["outcome"] for h in outbox.history(i)] for i in ids))
        assert outbox.statuses() == {"published": COUNT} and outbox.twice_published() == 0


@pytest.mark.parametrize("nth", [1, 4, 8])
def test_a_migrate_that_is_killed_in_the_middle_is_done_by_the_next(empty_database, cluster, endpoint, relays, nth):
    config = {"database": {"url": empty_database}}
    dead = run_command("migrate", config=config, env={"OUTBOXD_KILL_AT": f"in_migrate:{nth}"})
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    applied = "SELECT count(*) FROM outbox.migration"
    assert cluster.value(empty_database, applied) == nth - 1, "an unfinished migration counts as none"
    done = run_command("migrate", config=config)
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("applied ")]) == cluster.value(empty_database, applied) - (nth - 1)
    with Receiver() as receiver:
        relays({"endpoints": [endpoint("all", receiver.url())]}, database=empty_database)
        cluster.execute(empty_database, "INSERT INTO outbox.event (event_type, payload) VALUES ('t', '{}')")
        receiver.wait_for(1, 30)


@pytest.mark.parametrize("text", ["after_clam", "after_claim:0", "after_claim:x"])
def test_a_hook_that_is_not_known_is_refused_at_the_start(text):
    for command in ("run", "version"):
        done = run_command(command, env={"OUTBOXD_KILL_AT": text})
        assert done.returncode == 78 and "OUTBOXD_KILL_AT" in done.stderr, done.stderr
