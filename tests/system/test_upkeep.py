"""Vacuum beside the deliveries: what keeps it away is named, in the log and by check."""

import re

import pytest

from outboxtest import run_command, wait_for
from outboxtest.cluster import connect

ROWS = 24_000


@pytest.fixture
def piled_up(outbox):
    """delivery with dead row versions that nobody removes, as if autovacuum were held back; the session that keeps them."""
    outbox.rows("ALTER TABLE outbox.delivery SET (autovacuum_enabled = false)")
    outbox.rows(f"INSERT INTO outbox.delivery (event, due_at, lane) SELECT 1000000 + g, 'infinity', 'x' FROM generate_series(1, {ROWS}) g")
    holder = connect(outbox.uri + "?application_name=old-report", autocommit=False)
    holder.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    for _ in range(2):
        outbox.rows("UPDATE outbox.delivery SET size = size + 1")
    outbox.close()  # its statistics are written at the latest now
    wait_for(lambda: outbox.value("SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'outbox.delivery'::regclass") > ROWS + 1000, 20, "the statistics")
    yield holder
    holder.close()


def checked(uri):
    done = run_command("check", "--connect", config={"database": {"url": uri}, "endpoints": []})
    assert done.returncode == 0, done.stderr
    return re.search(r"^vacuum: (.*)$", done.stdout, re.MULTILINE).group(1)


def test_B17_who_keeps_vacuum_from_dead_rows_is_named_in_the_log_and_by_check(cluster, outbox, relays, endpoint, receiver, piled_up):
    relay = relays({"endpoints": [endpoint("all", receiver.url())]})
    line = relay.wait_log('"event":"dead_rows"', 60)
    pid = piled_up.get_backend_pid()
    assert f"session {pid} of role postgres (old-report), idle in transaction" in line and '"table":"delivery"' in line
    assert f"session {pid} " in checked(outbox.uri) and "autovacuum is off for table delivery" in checked(outbox.uri)
    # Events are delivered all the same.
    outbox.insert_many(20)
    outbox.wait_outcomes(20, timeout=40)
    assert len(relay.records("dead_rows")) == 1, "said again within minutes"


def test_B17_a_forgotten_prepared_transaction_is_named_and_a_hidden_session_is_called_so(cluster, outbox, piled_up):
    cluster.execute("postgres", "DROP ROLE IF EXISTS looker")
    cluster.execute("postgres", "CREATE ROLE looker LOGIN")
    for grant in ("USAGE ON SCHEMA outbox", "SELECT ON ALL TABLES IN SCHEMA outbox"):
        outbox.rows(f"GRANT {grant} TO looker")
    assert "GRANT pg_read_all_stats" in checked(outbox.uri.replace("postgres@", "looker@"))
    piled_up.rollback()
    prepared = connect(outbox.uri)
    prepared.cursor().execute("BEGIN; INSERT INTO outbox.event (event_type, payload) VALUES ('t', '{}'); PREPARE TRANSACTION 'forgotten'")
    assert "prepared transaction forgotten of role postgres" in checked(outbox.uri)
    prepared.cursor().execute("ROLLBACK PREPARED 'forgotten'")
    prepared.close()
    assert "held by nobody" in checked(outbox.uri)
    outbox.rows("VACUUM outbox.delivery")
    outbox.rows("ALTER TABLE outbox.delivery RESET (autovacuum_enabled)")
    wait_for(lambda: checked(outbox.uri) == "no dead rows pile up", 30, "the hint to go")
    outbox.rows("ALTER TABLE outbox.delivery RESET (autovacuum_vacuum_scale_factor)")
    assert "storage options" in checked(outbox.uri)
    outbox.rows("REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM looker")
    outbox.rows("REVOKE ALL ON SCHEMA outbox FROM looker")
