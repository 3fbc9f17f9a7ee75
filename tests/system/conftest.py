"""What the system tests share beside tests/support: the outbox of a test's database, receivers that wait, endpoints."""

import asyncio
import os
import threading

import pytest

from outboxtest.cluster import Cluster
from outboxtest.outbox import Outbox


class Gate:
    """A behaviour of a receiver: requests that `holds` names get no answer before open(); all others get 200 at once."""

    def __init__(self, holds=lambda request: True, status=200):
        self._open = threading.Event()
        self._holds = holds
        self.status = status

    def open(self):
        self._open.set()

    def __call__(self, request):
        return self._later() if self._holds(request) and not self._open.is_set() else self.status

    async def _later(self):
        while not self._open.is_set():
            await asyncio.sleep(0.03)
        return self.status


@pytest.fixture
def patience():
    """patience(2.0): a bound on a latency, longer where more programs want the processors than there are."""

    def grant(seconds):
        return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

    return grant


@pytest.fixture
def gate():
    """The class; a test that fails must not leave its receiver waiting."""
    made = []

    def make(**options):
        made.append(Gate(**options))
        return made[-1]

    yield make
    for one in made:
        one.open()


@pytest.fixture
def outbox(database):
    one = Outbox(database)
    yield one
    one.close()


@pytest.fixture
def own_cluster():
    """A server that this test may stop, freeze and restart."""
    with Cluster() as server:
        yield server


@pytest.fixture
def endpoint():
    """endpoint("a", url, timeout="2s"): an entry of the file. No adaptive window and no circuit unless a test asks."""

    def entry(name, url, **settings):
        return {"name": name, "url": url, "signing": "none", "adaptive": False, "circuit": {"failures": 0},
                "retry": {"schedule": ["1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s"], "jitter": 0}, **settings}

    return entry
