"""What one run of the benchmarks stands on: the server, the receiver, the certificates, and a drain measured from fork to the last settlement."""

import contextlib
import os
import shutil
import tempfile
import time

from outboxtest import CertificateAuthority, Cluster
from outboxtest.cluster import connect

from . import gauges
from .contestants import PAYLOAD
from .receiver import Receiver, receiver_path

# The test server's own settings put back to PostgreSQL's defaults: durability and speed are what a user gets.
DEFAULTS = ["shared_buffers = 128MB", "max_wal_size = 1GB", "max_prepared_transactions = 0", "log_line_prefix = '%m [%p] '"]
DURABLE = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "wal_sync_method", "autovacuum")
DISTURBED = 0.2  # of a core, used by something that is not part of the measurement


class Stage:
    def __init__(self, root, options, log):
        self.root, self.options, self.log = root, options, log
        self.directory = tempfile.mkdtemp(prefix="outboxd-bench-")
        os.chmod(self.directory, 0o755)
        self.ca = CertificateAuthority()
        self.receiver = Receiver(receiver_path(root), self.ca.issue(), self.directory)
        self.cluster = self.server()
        self.axis = ""       # the one that is being measured
        self.disturbed = {}  # what was measured -> shares of a core that somebody else used

    def server(self, settings=()):
        cluster = Cluster(settings=[*DEFAULTS, *settings])
        cluster.execute("template1", PAYLOAD)
        return cluster

    def close(self):
        self.receiver.close()
        self.cluster.remove()
        self.ca.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def sql(self, uri, statement, parameters=None):
        return self.cluster.execute(uri, statement, parameters)

    def value(self, uri, statement, parameters=None):
        return self.sql(uri, statement, parameters)[0][0]

    def settings(self):
        return dict(self.sql("postgres", "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)", (list(DURABLE),)))

    def calm(self, uri, vacuum=True):
        """What autovacuum and the checkpointer would otherwise do in the midst of a measurement is done now."""
        if vacuum:
            self.sql(uri, "VACUUM (ANALYZE)")
        self.sql(uri, "CHECKPOINT")

    def drop(self, uri):
        self.sql("postgres", f"DROP DATABASE IF EXISTS {uri.rsplit('/', 1)[1]} WITH (FORCE)")

    @contextlib.contextmanager
    def running(self, who, count=1):
        """`count` relays of one contestant, ended when the block ends."""
        started = []
        try:
            for _ in range(count):
                started.append(who.start())
            yield started
        finally:
            for one in started:
                one.close()

    def meter(self, relays):
        return gauges.Meter(relay=[r.pid for r in relays], postgres=[self.cluster.process.pid], receiver=[self.receiver.pid])

    def note_disturbance(self, what, used):
        """Kernel threads count as others too; a core's fifth is more than they take."""
        share = used["other"] / used["wall"]
        if share > DISTURBED:
            self.disturbed.setdefault(f"{self.axis} {what}", []).append(round(share, 2))

    def fresh_drain(self, who, events, **options):
        """A drain in a database of its own."""
        uri = who.database()
        try:
            who.fill(events)
            self.calm(uri)
            return self.drain(who, events, **options)
        finally:
            self.drop(uri)

    def _until(self, unique, who, started, session, watch, end):
        """Waits for so many different events, with an eye on the relays."""
        while self.receiver.wait(unique, 0.05 if watch else 0.5)["unique"] < unique and time.monotonic() < end:
            if watch:
                watch(session)
            for one in started:
                if one.process.poll() is not None:
                    raise RuntimeError(f"{who.name} ended with {one.process.returncode} in the midst of a drain")
        if watch:
            watch(session)

    def drain(self, who, events, delay_ms=0, relays=1, limit=240.0, watch=None):
        """Starts relays on a backlog of `events` and waits until nothing is left to settle. `watch(session)` is called about every 50 ms meanwhile.

        rate: events a second from the first POST on; from_start: from fork on; *_us: CPU per event in microseconds, from the first POST on.
        """
        self.receiver.reset(events, delay_ms)
        session = connect(who.uri)
        try:
            began = time.monotonic()
            with self.running(who, relays) as started:
                end = began + limit
                self._until(1, who, started, session, watch, end)
                # From here on, so that CPU and rate belong to the same time; starting up costs the same however many events there are.
                meter, before = self.meter(started), self.receiver.stats()["unique"]
                self._until(events, who, started, session, watch, end)
                while True:
                    with session.cursor() as cursor:
                        cursor.execute(who.left)
                        left = cursor.fetchone()[0]
                    done_at = time.monotonic()
                    if left == 0 or done_at >= end:
                        break
                    time.sleep(0.005)
                used = meter.used()
                peak = max(gauges.peak_mib(one.pid) for one in started)
        finally:
            session.close()
        stats = self.receiver.stats()
        done = events - left
        if done <= 0:
            raise RuntimeError(f"{who.name} delivered nothing within {limit:.0f} s")
        rate = done / (done_at - stats["first"] / 1e9)
        per_event = {name: 1e6 * used[name] / max(1, done - before) for name in ("relay", "postgres", "receiver")}
        self.note_disturbance(who.name, used)
        if left:
            self.log(f"{who.name}: {left} of {events} events were left after {limit:.0f} s")
        if stats["duplicates"] or stats["bad"]:
            self.log(f"{who.name}: {stats['duplicates']} duplicates, {stats['bad']} broken requests")
        return {"rate": rate, "from_start": done / (done_at - began), "relay_us": per_event["relay"], "postgres_us": per_event["postgres"], "receiver_us": per_event["receiver"],
                "component": rate / (gauges.machine()["cores"] * 1e6 / sum(per_event.values())), "peak_mib": peak, "in_flight": stats["most_in_flight"]}
