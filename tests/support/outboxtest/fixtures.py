"""pytest fixtures for the suites in Python: one server and one authority per run, a fresh migrated database per test."""

import pytest

from .ca import CertificateAuthority
from .cluster import Cluster
from .daemon import Outboxd, binary_path, run_command
from .receiver import Receiver


@pytest.fixture(scope="session")
def cluster():
    with Cluster() as server:
        yield server


@pytest.fixture(scope="session")
def ca():
    with CertificateAuthority() as authority:
        yield authority


@pytest.fixture(scope="session")
def certificate(ca):
    """Good for localhost, 127.0.0.1 and ::1."""
    return ca.issue(dns=("localhost",), ip=("127.0.0.1", "::1"))


def migrate(uri):
    """`outboxd migrate` on a database; AssertionError with its output when it fails."""
    done = run_command("migrate", config={"database": {"url": uri}})
    assert done.returncode == 0, f"{binary_path()} migrate: {done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def database(cluster):
    """URI of a fresh database with the schema in it."""
    return cluster.create_migrated_database(migrate)


@pytest.fixture
def empty_database(cluster):
    """URI of a fresh database without the schema."""
    return cluster.create_database()


@pytest.fixture
def receiver():
    """A plain HTTP receiver that answers as the path says."""
    with Receiver() as one:
        yield one


@pytest.fixture
def https_receiver(certificate):
    with Receiver(certificate=certificate) as one:
        yield one


@pytest.fixture
def relays(database):
    """A factory: relays(config) starts a daemon on this test's database; all end with the test."""
    started = []

    def start(config=None, ready=True, **options):
        daemon = Outboxd(options.pop("database", database), config, **options)
        started.append(daemon)
        return daemon.wait_ready() if ready else daemon

    yield start
    for daemon in started:
        daemon.close()
