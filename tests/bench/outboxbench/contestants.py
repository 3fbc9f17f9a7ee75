"""Who is measured: outboxd itself, and any peer that comes as a command.

A peer's command is called with one word; see tests/bench/README.md for what it has to do.
"""

import os
import shlex
import signal
import subprocess

from outboxtest.daemon import Outboxd
from outboxtest.fixtures import migrate
from outboxtest.process import clean_environment, die_with_parent

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CHUNK = 50_000

# 1,024 bytes of JSON with the number that the receiver looks for.
PAYLOAD = """CREATE OR REPLACE FUNCTION bench_payload(bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN rpad('{"bench_number":' || $1 || ',"order":{"currency":"EUR","lines":3},"filler":"', 1022, 'The quick brown fox jumps over it. ') || '"}'"""


class Product:
    """outboxd on one database. Endpoints are rows, so that one and five thousand of them are made alike."""

    name = "outboxd"

    def __init__(self, stage, tls=False, in_flight=512, concurrency=None, lanes=1, config=None):
        self._stage, self._tls, self._lanes = stage, tls, lanes
        self._config = {"relay": {"max_in_flight": in_flight}, "defaults": {"concurrency": concurrency or in_flight}, "tls": {"ca_file": stage.ca.path},
                        "log": {"level": "warn", "attempts": "failures"}}
        for section, values in (config or {}).items():
            self._config[section] = {**self._config.get(section, {}), **values}
        self.uri = None

    def database(self):
        """A fresh database with schema and endpoints."""
        self.uri = self._stage.cluster.create_migrated_database(migrate)
        self.use(self.uri)
        return self.uri

    def use(self, uri):
        """Endpoints for a database that is there already."""
        self.uri = uri
        receiver = self._stage.receiver
        self._stage.sql(uri, "INSERT INTO outbox.endpoint (name, url, events) SELECT 'e' || i, %s || '/' || i, %s FROM generate_series(0, %s) i",
                        (receiver.https if self._tls else receiver.http, ["*"] if self._lanes == 1 else ["none"], self._lanes - 1))
        self._stage.sql(uri, "INSERT INTO outbox.endpoint_secret (endpoint, secret) SELECT name, %s FROM outbox.endpoint", (SECRET,))

    def fill(self, events, first=0):
        """Committed events with the numbers from `first` on. With one lane by subscription, with several by name, lane by lane in turn."""
        name = "NULL" if self._lanes == 1 else f"'e' || i %% {self._lanes}"
        for begin in range(first, first + events, CHUNK):
            self._stage.sql(self.uri, f"INSERT INTO outbox.event (event_type, payload, endpoint) SELECT 'order.created', bench_payload(i)::json, {name} FROM generate_series(%s::bigint, %s) i",
                            (begin, min(begin + CHUNK, first + events) - 1))

    insert = "INSERT INTO outbox.event (event_type, payload) VALUES ('order.created', $1::json)"
    left = "SELECT count(*) FROM outbox.delivery"

    def start(self):
        return Outboxd(self.uri, self._config)


class PeerProcess:
    """The foreground process of a peer, ended with SIGTERM and, when that does not help, with its whole group."""

    def __init__(self, command, environment, log):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0, preexec_fn=die_with_parent(signal.SIGTERM))

    @property
    def pid(self):
        return self.process.pid

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Peer:
    def __init__(self, stage, name, command, tls=False, in_flight=512):
        self._stage, self.name, self._command = stage, name, shlex.split(command)
        self._tls, self._in_flight = tls, in_flight
        self.uri = self.insert = self.left = None
        self._events = 0

    def _environment(self):
        receiver = self._stage.receiver
        return clean_environment(BENCH_DATABASE_URL=self.uri, BENCH_RECEIVER_URL=receiver.https if self._tls else receiver.http, BENCH_CA_FILE=self._stage.ca.path if self._tls else "",
                                 BENCH_EVENTS=str(self._events), BENCH_IN_FLIGHT=str(self._in_flight), BENCH_DIRECTORY=self._stage.directory)

    def _call(self, word):
        done = subprocess.run([*self._command, word], env=self._environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name} {word} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def database(self):
        self.uri = self._stage.cluster.create_database()
        self._call("setup")
        self.insert, self.left = self._call("insert"), self._call("left")
        return self.uri

    def fill(self, events):
        self._events = events
        self._call("fill")

    def start(self):
        with open(os.path.join(self._stage.directory, f"{self.name}.log"), "ab") as log:
            return PeerProcess([*self._command, "run"], self._environment(), log)


def prepared(session, statement, name="bench_insert"):
    """Prepares `statement` ($1 is the payload); returns what EXECUTEs it for one payload."""
    cursor = session.cursor()
    cursor.execute(f"PREPARE {name} (text) AS {statement}")
    return lambda payload: cursor.execute(f"EXECUTE {name} (%s)", (payload,))

