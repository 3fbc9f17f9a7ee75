"""The demonstration itself: what a newcomer sees, what --keep leaves, and that nothing stays behind."""

import json
import os
import re
import subprocess
import sys

import pytest

from outboxtest import wait_for
from outboxtest.cluster import connect

SUPPORT = os.path.join(os.path.dirname(__file__), "..", "support")


@pytest.fixture
def quickstart(tmp_path):
    """Runs the demonstration with a state file of its own, so that one that a user keeps is left alone."""
    environment = {**os.environ, "PYTHONPATH": SUPPORT, "OUTBOXD_QUICKSTART_STATE": str(tmp_path / "state.json")}

    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "outboxtest.demonstration", *arguments], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=180, check=False)

    run.state = tmp_path / "state.json"
    yield run
    run("--stop")


def number(output, name):
    return int(re.search(rf"^\s+{name}\s+(\d+)", output, re.MULTILINE)[1])


def test_quickstart_delivers_what_was_committed_and_leaves_nothing_behind(quickstart):
    done = quickstart("--orders", "120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert number(done.stdout, "committed") == number(done.stdout, "delivered") > 60
    assert number(done.stdout, "committed") + number(done.stdout, "never sent") == 120
    assert re.search(r"p99\s+[\d.]+ ms", done.stdout)
    assert not quickstart.state.exists()
    configuration = re.search(r"configuration (\S+)", done.stdout)[1]
    assert not os.path.exists(os.path.dirname(configuration))


def test_quickstart_that_is_kept_takes_an_event_by_hand_and_ends_when_told(quickstart):
    done = quickstart("--keep", "--orders", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    uri = re.search(r'"(postgresql://shop@[^"]+)"', done.stdout)[1]
    log = re.search(r"tail -f (\S+)", done.stdout)[1]
    session = connect(uri)
    with session.cursor() as cursor:
        cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('order.created', '{\"order_id\":1042}') RETURNING event_id")
        event = cursor.fetchone()[0]
    session.close()
    wait_for(lambda: event in open(log, encoding="utf-8").read(), 20, "the event at the receiver")
    pids = [pid for _, pid, _, _ in json.loads(quickstart.state.read_text())["processes"]]
    assert len(pids) == 3
    stopped = quickstart("--stop")
    assert "3 processes stopped" in stopped.stdout
    assert not any(os.path.exists(f"/proc/{pid}/exe") and os.readlink(f"/proc/{pid}/exe").endswith("outboxd") for pid in pids)
    assert not os.path.exists(log)
