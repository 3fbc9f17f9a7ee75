"""The axes that look at the database: WAL per event, what the application pays for its INSERT; and the micro-benchmarks, which need no database."""

import os
import re
import subprocess

from outboxtest.cluster import connect, program
from outboxtest.process import clean_environment

from .contestants import Product
from .figures import Axis, Figure

# The event table alone: same columns, checks, defaults and indexes, no trigger.
BARE = "CREATE SCHEMA bare; CREATE TABLE bare.event (LIKE outbox.event INCLUDING ALL)"


class Log:
    """Bytes of WAL since the last call, records and full-page images apart. A checkpoint opens each section, so every page that it touches is written whole once: the worst case."""

    def __init__(self, session):
        self._cursor = session.cursor()

    def begin(self):
        self._cursor.execute("CHECKPOINT")
        self._cursor.execute("SELECT pg_current_wal_insert_lsn()")
        self._from = self._cursor.fetchone()[0]

    def end(self, events):
        """(bytes per event without, with full-page images)"""
        # A commit of our own, so that all before it is flushed and can be read.
        self._cursor.execute("SELECT txid_current()")
        self._cursor.execute("SELECT pg_current_wal_flush_lsn()")
        upto = self._cursor.fetchone()[0]
        self._cursor.execute("SELECT sum(record_size)::float8, sum(fpi_size)::float8 FROM pg_get_wal_stats(%s, %s)", (self._from, upto))
        records, images = self._cursor.fetchone()
        return records / events, (records + images) / events


def measure_wal(stage, _):
    rows = stage.options.wal_rows
    who = Product(stage)
    uri = who.database()
    session = connect(uri)
    try:
        with session.cursor() as cursor:
            cursor.execute("CREATE EXTENSION pg_walinspect")
            cursor.execute(BARE)
            log = Log(session)
            log.begin()
            cursor.execute("INSERT INTO bare.event (event_type, payload) SELECT 'order.created', bench_payload(i)::json FROM generate_series(0, %s) i", (rows - 1,))
            bare, bare_images = log.end(rows)
        log.begin()
        who.fill(rows)
        whole, whole_images = log.end(rows)
        log.begin()
        stage.drain(who, rows)
        settled, settled_images = log.end(rows)
    finally:
        session.close()
        stage.drop(uri)
    fan_out, fan_out_images = whole - bare, whole_images - bare_images
    return {"insert": bare, "fan_out": fan_out, "settle": settled, "beyond": fan_out + settled, "beyond_images": fan_out_images + settled_images}


WAL = Axis("wal", "WAL per event beyond the application's INSERT of the event row",
           [Figure("insert", "the INSERT of the event row alone", "B"), Figure("fan_out", "fan-out by the trigger", "B"), Figure("settle", "claim, settle and all else of a drain", "B"),
            Figure("beyond", "beyond the INSERT, without full-page images", "B", 0, at_most=900),
            Figure("beyond_images", "beyond the INSERT, with the images after a checkpoint right before", "B")], measure_wal)


def insert_rate(stage, uri, table, writers):
    """Single-row commits a second by `writers` sessions of pgbench."""
    script = os.path.join(stage.directory, "insert.sql")
    with open(script, "w", encoding="ascii") as out:
        payload = stage.value(uri, "SELECT bench_payload(0)")
        out.write(f"INSERT INTO {table} (event_type, payload) VALUES ('order.created', '{payload}');\n")
    for seconds in (stage.options.insert_seconds, 5 * stage.options.insert_seconds):
        # The time runs while the sessions still connect, which can use it up on a busy machine.
        done = subprocess.run([program("pgbench"), "-n", "-M", "prepared", "-f", script, "-c", str(writers), "-j", str(min(2, writers)), "-T", str(seconds), uri],
                              env=clean_environment(), capture_output=True, text=True, check=False)
        found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
        if done.returncode == 0 and found:
            return float(found[1])
    raise RuntimeError(f"pgbench ended with {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")


def one_insert_rate(stage, writers, table="outbox.event", delay_ms=None, notify=True):
    """With `delay_ms` a relay is at work, whose receiver takes that long."""
    who = Product(stage, in_flight=512, concurrency=64, config={"relay": {"notify": notify}})
    uri = who.database()
    try:
        stage.sql(uri, BARE)
        stage.calm(uri)
        if delay_ms is None:
            return insert_rate(stage, uri, table, writers)
        stage.receiver.reset(1, delay_ms)
        with stage.running(who) as relays:
            relays[0].wait_ready(30)
            return insert_rate(stage, uri, table, writers)
    finally:
        stage.drop(uri)


SLOW_MS = 500  # 64 in flight: 128 events/s, whatever is inserted


def measure_application(stage, _):
    values = {}
    for writers in (1, 8, 32):
        bare = one_insert_rate(stage, writers, table="bare.event")
        slow = one_insert_rate(stage, writers, delay_ms=SLOW_MS)
        quick = one_insert_rate(stage, writers, delay_ms=0)
        values |= {f"bare_{writers}": bare, f"slow_{writers}": slow, f"slow_ratio_{writers}": slow / bare, f"quick_{writers}": quick, f"quick_ratio_{writers}": quick / bare}
    silent = one_insert_rate(stage, 32, delay_ms=0, notify=False)
    return values | {"silent_32": silent, "wake_ratio_32": values["quick_32"] / silent}


def application_figures():
    for writers in (1, 8, 32):
        who = f"{writers} writer{'s' if writers > 1 else ''}"
        yield Figure(f"bare_{writers}", f"{who}: bare table", "/s")
        yield Figure(f"slow_ratio_{writers}", f"{who}: with trigger and active relay against bare, receiver slow", "x", 2, at_least=0.75)
        yield Figure(f"quick_ratio_{writers}", f"{who}: the same while the relay delivers all of it on the same cores", "x", 2)
    yield Figure("wake_ratio_32", "32 writers: with wake-ups against `notify: false`, receiver at once", "x", 2, at_least=0.95)


APPLICATION = Axis("application", "Application's side: single-row INSERTs a second", list(application_figures()), measure_application)

MICRO = [("request_ns", "micro_request", "raw, unsigned, 1 KB", "request building, raw, unsigned"),
         ("request_signed_ns", "micro_request", "raw, standard-webhooks HMAC, 1 KB", "request building with signature (HMAC)"),
         ("signature_ns", "micro_request", "signature alone, standard-webhooks HMAC, 1 KB", "signature alone (HMAC)"),
         ("signature_ed25519_ns", "micro_request", "signature alone, standard-webhooks ed25519, 1 KB", "signature alone (ed25519)"),
         ("mapping_ns", "micro_mapping", "row mapping, claim of 256, 1 KB", "row mapping, per event"),
         ("settle_ns", "micro_mapping", "settle encoding, 256 published", "settle encoding, published, per event"),
         ("settle_retried_ns", "micro_mapping", "settle encoding, 256 retried with excerpt", "settle encoding, retried with excerpt, per event")]


def measure_micro(stage, _):
    directory = os.environ.get("OUTBOXD_BENCH_MICRO") or os.path.join(stage.root, "build", "release", "tests", "bench")
    best = {}
    for name in ("micro_request", "micro_mapping"):
        done = subprocess.run([os.path.join(directory, name)], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            found = re.match(r"(.+?)\s+best\s+(\d+) ns", line)
            if found:
                best[name, found[1].strip()] = float(found[2])
    return {key: best[name, case] for key, name, case, _ in MICRO}


MICRO_AXIS = Axis("micro", "Micro-benchmarks, 1 KB, best of 15 rounds", [Figure(key, title, "ns") for key, _, _, title in MICRO], measure_micro)

AXES = [WAL, APPLICATION, MICRO_AXIS]
