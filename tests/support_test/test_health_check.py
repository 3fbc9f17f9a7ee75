"""The container's health check, as the Dockerfile has it, against answers of every kind."""

import json
import os
import re
import subprocess

import pytest

from outboxtest import Answer
from outboxtest.process import free_port

DOCKERFILE = os.path.join(os.path.dirname(__file__), "..", "..", "docker", "Dockerfile")


def health_check(port):
    with open(DOCKERFILE, encoding="utf-8") as source:
        command = json.loads(re.search(r"HEALTHCHECK .*?CMD (\[.*?\])\n", source.read(), re.DOTALL)[1])
    return subprocess.run([part.replace("/9464", f"/{port}") for part in command], timeout=10, check=False,
                          stderr=subprocess.DEVNULL).returncode


@pytest.mark.parametrize("status,healthy", [(200, True), (503, False), (404, False)])
def test_health_check_takes_the_status_of_healthz(receiver, status, healthy):
    receiver.behaviour = lambda request: Answer(status, body=b"ok\n")
    assert (health_check(receiver.port) == 0) == healthy
    assert [r.target for r in receiver.snapshot()] == ["/healthz"]


def test_health_check_fails_when_nobody_listens():
    assert health_check(free_port()) != 0


def test_health_check_fails_in_time_when_nobody_answers(receiver):
    receiver.behaviour = lambda request: Answer(action="hang")
    assert health_check(receiver.port) != 0
