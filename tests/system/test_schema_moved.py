"""The schema changes under a running relay (B77): what is harmless goes on, what is not stops the claims with the reason, and nothing is settled that
no receiver saw."""

import re

import pytest

from outboxtest import Receiver, wait_for

COLUMN_BACK = "ALTER TABLE outbox.delivery RENAME COLUMN moved TO {}"


def flows(outbox, receiver, count=30):
    """New events arrive, each once."""
    ids = outbox.insert_many(count)
    receiver.wait_for(count, 40, lambda r, wanted=frozenset(ids): r.id in wanted)
    wait_for(lambda: outbox.value("SELECT count(*) FROM outbox.delivery") == 0, 30, "everything to be settled")
    return ids


def nothing_was_made_up(outbox, receiver):
    """Every publication in the history was seen by the receiver, each delivery was settled once."""
    published = [i for (i,) in outbox.rows("SELECT e.event_id FROM outbox.attempt a JOIN outbox.event e ON e.id = a.event WHERE a.outcome = 'published'")]
    assert sorted(published) == sorted(set(published)) and set(published) <= set(receiver.accepted_ids())


@pytest.mark.parametrize("change", [
    "ALTER TABLE outbox.event ADD COLUMN extra text DEFAULT 'x'; ALTER TABLE outbox.delivery ADD COLUMN extra int DEFAULT 1; "
    "ALTER TABLE outbox.attempt ADD COLUMN extra int; ALTER TABLE outbox.endpoint ADD COLUMN extra int; ALTER TABLE outbox.relay ADD COLUMN extra int",
    "ALTER TABLE outbox.event DROP COLUMN extra; ALTER TABLE outbox.delivery DROP COLUMN extra; ALTER TABLE outbox.attempt DROP COLUMN extra",
    "VACUUM FULL outbox.delivery", "VACUUM FULL outbox.event", "REINDEX TABLE outbox.delivery",
    # A rename swap, with deliveries that are claimed.
    "BEGIN; LOCK TABLE outbox.delivery; CREATE TABLE outbox.delivery_2 (LIKE outbox.delivery INCLUDING ALL); "
    "INSERT INTO outbox.delivery_2 OVERRIDING SYSTEM VALUE SELECT * FROM outbox.delivery; "
    "SELECT setval(pg_get_serial_sequence('outbox.delivery_2', 'id'), 100000); "
    "ALTER TABLE outbox.delivery RENAME TO delivery_1; ALTER TABLE outbox.delivery_2 RENAME TO delivery; COMMIT",
], ids=["columns_added", "columns_dropped", "vacuum_full_delivery", "vacuum_full_event", "reindex", "rename_swap"])
def test_B77_harmless_changes_do_not_disturb(outbox, relays, endpoint, change):
    with Receiver() as receiver:
        outbox.rows("ALTER TABLE outbox.event ADD COLUMN IF NOT EXISTS extra int; ALTER TABLE outbox.delivery ADD COLUMN IF NOT EXISTS extra int; "
                    "ALTER TABLE outbox.attempt ADD COLUMN IF NOT EXISTS extra int") if "DROP COLUMN" in change else None
        relay = relays({"endpoints": [endpoint("all", receiver.url())]})
        flows(outbox, receiver)
        before = outbox.insert_many(100)
        outbox.rows(change)
        receiver.wait_for(100, 40, lambda r: r.id in set(before))
        flows(outbox, receiver)
        assert relay.http("/readyz")[0] == 200
        # REINDEX takes its locks one by one and may end one claim as a deadlock; the next one works.
        failed = [r["error"] for r in relay.records("claim_failed") + relay.records("settle_failed")]
        assert not failed or "REINDEX" in change and all("40P01" in error for error in failed), failed
        assert len(receiver.ids()) == len(set(receiver.ids())) == 160
        nothing_was_made_up(outbox, receiver)


@pytest.mark.parametrize("harm, mend, says", [
    ("ALTER TABLE outbox.delivery RENAME COLUMN due_at TO moved", COLUMN_BACK.format("due_at"), "column delivery.due_at is missing"),
    ("ALTER TABLE outbox.delivery RENAME COLUMN claimed_by TO moved", COLUMN_BACK.format("claimed_by"), "column delivery.claimed_by is missing"),
    ("ALTER TABLE outbox.delivery ALTER COLUMN rescued TYPE bigint", "ALTER TABLE outbox.delivery ALTER COLUMN rescued TYPE int",
     "column delivery.rescued is bigint and not integer"),
    ("ALTER TABLE outbox.event ALTER COLUMN payload TYPE jsonb", "ALTER TABLE outbox.event ALTER COLUMN payload TYPE json",
     "column event.payload is jsonb and not json"),
    ("ALTER TABLE outbox.event RENAME COLUMN event_id TO moved", "ALTER TABLE outbox.event RENAME COLUMN moved TO event_id", "column event.event_id is missing"),
    ("ALTER TABLE outbox.delivery RENAME TO away; CREATE VIEW outbox.delivery AS SELECT * FROM outbox.away",
     "DROP VIEW outbox.delivery; ALTER TABLE outbox.away RENAME TO delivery", "delivery is no table"),
    ("ALTER FUNCTION outbox.claim RENAME TO moved", "ALTER FUNCTION outbox.moved RENAME TO claim", r"function claim\(.*\) is missing"),
], ids=["due_at", "claimed_by", "rescued_retyped", "payload_retyped", "event_id", "view", "claim"])
def test_B77_what_is_missing_or_of_another_type_stops_the_claims_and_is_named_until_it_is_put_back(outbox, relays, endpoint, harm, mend, says):
    with Receiver() as receiver:
        relay = relays({"relay": {"poll_interval": "200ms"}, "endpoints": [endpoint("all", receiver.url())]})
        flows(outbox, receiver)
        outbox.rows(harm)
        # An event for the claims to find; the trigger may not be able to fan it out, then the sweep finds it later.
        waiting = outbox.insert_many(3) if not re.search("event_id|due_at", harm) else []
        try:
            wait_for(lambda: relay.http("/readyz")[0] == 503 and re.search(says, relay.http("/readyz")[1]), 40, says, 0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {relay.http('/readyz')}\n" + "\n".join(relay.log())) from None
        assert any(re.search(says, r["text"]) for r in relay.records("not_ready")), "the log names it too"
        assert relay.http("/healthz")[0] == 200
        assert not [r for r in receiver.snapshot() if r.id in waiting], "sent although the table is not what it was"
        outbox.rows(mend)
        relay.wait_ready(40)
        flows(outbox, receiver)
        receiver.wait_for(len(waiting), 60, lambda r: r.id in waiting)
        assert {r.body for r in receiver.snapshot()} == {b"{}"}, "other bytes"
        nothing_was_made_up(outbox, receiver)


def test_B77_rows_that_were_removed_while_on_the_wire_are_counted_and_nothing_else_is_touched(outbox, relays, endpoint, gate):
    """TRUNCATE with 20 in flight: the results touch no row, which is said; new events of the same minute stay unsettled until they were sent."""
    holding = gate(holds=lambda r: r.event_type == "held.event")
    with Receiver(holding) as receiver:
        relay = relays({"endpoints": [endpoint("all", receiver.url(), timeout="20s", concurrency=50)]})
        outbox.insert_many(20, "held.event")
        receiver.wait_for(20, 30)
        outbox.rows("TRUNCATE outbox.delivery")
        later = outbox.insert_many(20, "held.event")
        receiver.wait_for(40, 30)
        assert outbox.outcomes() == {}, "settled before an answer"
        holding.open()
        outbox.wait_outcomes(20, timeout=30)
        assert wait_for(lambda: relay.records("settlement_refused"), 20, "the refused ones to be told")[0]["count"] > 0
        assert relay.metric("outboxd_lease_lost_total") > 0
        assert outbox.outcomes() == {"published": 20}
        assert {i for (i,) in outbox.rows("SELECT e.event_id FROM outbox.attempt a JOIN outbox.event e ON e.id = a.event")} == set(later)


def test_B77_a_lost_unique_key_is_refused_at_the_start(outbox, relays, endpoint, receiver):
    outbox.rows("ALTER TABLE outbox.delivery DROP CONSTRAINT delivery_pkey")
    relay = relays({"endpoints": [endpoint("all", receiver.url())]}, ready=False)
    relay.wait_log('"event":"not_ready".*delivery.id has no unique index', 40)
    assert relay.http("/readyz")[0] == 503
    outbox.rows("ALTER TABLE outbox.delivery ADD CONSTRAINT delivery_pkey PRIMARY KEY (id)")
    relay.wait_ready(40)
    flows(outbox, receiver)
