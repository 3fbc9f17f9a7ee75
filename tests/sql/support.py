"""One migrated database per case, and short words for what the cases do all the time."""

import glob
import os
import sys
import threading
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

from outboxtest.cluster import Cluster, wait_for  # noqa: E402

MIGRATIONS = os.path.join(HERE, "..", "..", "migrations")
FOREVER = "1 hour"


def migrations():
    return sorted(glob.glob(os.path.join(MIGRATIONS, "[0-9]*_*.sql")))


def migrate(uri, schema="outbox", files=None):
    """What `outboxd migrate` does: the schema's quoted name for @schema@, one transaction per file."""
    connection = psycopg2.connect(uri)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
    for path in files or migrations():
        with connection, connection.cursor() as cursor:
            cursor.execute(open(path, encoding="utf-8").read().replace("@schema@", schema))
    connection.close()


class Session:
    """A connection. `rows`, `row` and `value` read; in a transaction after `begin`."""

    def __init__(self, uri, settings=""):
        self.connection = psycopg2.connect(uri, options=settings)
        self.connection.autocommit = True

    def execute(self, sql, *parameters):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else cursor.rowcount

    rows = execute

    def row(self, sql, *parameters):
        found = self.rows(sql, *parameters)
        return found[0] if found else None

    def value(self, sql, *parameters):
        found = self.row(sql, *parameters)
        return found[0] if found else None

    def error(self, sql, *parameters):
        """The SQLSTATE the statement ends with, and its text; None when it works."""
        try:
            self.execute(sql, *parameters)
        except psycopg2.Error as failure:
            return failure.pgcode, failure.diag.message_primary
        return None

    def in_background(self, sql, *parameters):
        """Starts a statement that will have to wait; `finish()` on the result gives its rows or raises."""
        return Waiting(self, sql, parameters)

    def close(self):
        self.connection.close()


class Waiting:
    def __init__(self, session, sql, parameters):
        self.session, self.result, self.failure = session, None, None
        self.pid = session.connection.get_backend_pid()
        self.thread = threading.Thread(target=self._run, args=(sql, parameters), daemon=True)
        self.thread.start()

    def _run(self, sql, parameters):
        try:
            self.result = self.session.execute(sql, *parameters)
        except Exception as failure:  # handed to finish()
            self.failure = failure

    def is_blocked(self, other):
        """Waits until the statement waits for a lock, seen from another session."""
        wait_for(lambda: other.value("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", self.pid)
                 or not self.thread.is_alive(), what="a lock wait")
        assert self.thread.is_alive(), f"did not wait: {self.result} {self.failure}"

    def finish(self, timeout=20):
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "still waiting"
        if self.failure:
            raise self.failure
        return self.result


class Database:
    """What a case gets: sessions of the relay's role, of the application and of a superuser."""

    def __init__(self, cluster, uri):
        self.cluster, self.name, self.open = cluster, uri.rsplit("/", 1)[1], []
        self.sql = self.session()

    def session(self, role="relay", settings=""):
        session = Session(self.cluster.socket_uri(self.name, role), settings)
        self.open.append(session)
        return session

    def close(self):
        for session in self.open:
            session.close()

    # The words of the cases.
    def endpoint(self, name, events="{*}", tenant=None):
        self.sql.execute("INSERT INTO outbox.endpoint (name, url, events, tenant_id) VALUES (%s, 'https://x', %s, %s)",
                         name, events, tenant)

    def insert(self, event_type="order.created", session=None, **columns):
        """Inserts one event, returns its id."""
        columns = {"event_type": event_type, "payload": '{"a": 1}', **columns}
        names = ", ".join(columns)
        holes = ", ".join(["%s"] * len(columns))
        return (session or self.sql).value(f"INSERT INTO outbox.event ({names}) VALUES ({holes}) RETURNING id",
                                           *columns.values())

    def insert_many(self, count, event_type="order.created", key=None):
        self.sql.execute("INSERT INTO outbox.event (event_type, payload, ordering_key) "
                         "SELECT %s, '{}', %s FROM generate_series(1, %s)", event_type, key, count)

    def relay(self, lease=FOREVER, session=None):
        return (session or self.sql).value("SELECT id FROM outbox.register_relay('r', 'h', 1, 'test', %s)", lease)

    def claim(self, relay, lanes=None, session=None, **options):
        """(report, rows as dictionaries). Without lanes everything is found by discovery."""
        lanes = lanes or {}
        use = {"epoch": 0, "bound_due": None, "bound_id": None, "after_key": None, "exclude": None, "discover_after": None,
               "discover_lanes": 0 if lanes else 64, "discover_limit": 100, "max_rows": 1000, "max_bytes": 1 << 30,
               "fetch_max": 1 << 20, **options}
        names = ["id", "event", "endpoint", "lane", "ordering_key", "attempts", "rescued", "due_at", "expires_at", "size",
                 "format", "max_attempts", "report"]
        found = (session or self.sql).rows(
            f"SELECT {', '.join(names)} FROM outbox.claim(%s, %s, %s::text[], %s::int[], %s::timestamptz[], %s::bigint[], "
            "%s::text[], %s::text[], %s, %s, %s, %s, %s, %s)",
            relay, use["epoch"], list(lanes), list(lanes.values()), use["bound_due"], use["bound_id"], use["after_key"],
            use["exclude"], use["discover_after"], use["discover_lanes"], use["discover_limit"], use["max_rows"],
            use["max_bytes"], use["fetch_max"])
        report = found[0][-1]
        assert report is not None and found[0][0] is None, found[0]
        return report, [dict(zip(names, row)) for row in found[1:]]

    def settle(self, relay, *results, session=None):
        """Each result: (delivery, outcome, {other columns}). Returns the deliveries really changed, sorted."""
        results = [(*r, {}) if len(r) == 2 else r for r in results]
        column = lambda name, default=None: [r[2].get(name, default) for r in results]
        phases = [p for r in results for p in r[2].get("phases", [None] * 4)]
        return sorted(row[0] for row in (session or self.sql).rows(
            "SELECT * FROM outbox.settle(%s, %s::bigint[], %s::text[], %s::boolean[], %s::int[], %s::text[], %s::text[], "
            "%s::text[], %s::int[], %s::int[], %s::bigint[], %s::int[], %s::text[], %s::boolean[])",
            relay, [r[0] for r in results], [r[1] for r in results], column("counts", True), column("http_status"),
            column("error_class"), column("error"), column("excerpt"), column("duration_ms"), column("started_ago_ms", 0),
            column("retry_in_ms"), phases, column("format"), column("blocks")))

    def delivery(self, event, columns="id, lane, status"):
        return self.sql.rows(f"SELECT {columns} FROM outbox.delivery WHERE event = %s ORDER BY id", event)

    def statuses(self, event):
        return sorted(self.sql.rows("SELECT coalesce(endpoint, ''), status FROM outbox.status WHERE event = %s", event))

    def age(self, relay):
        """Ends a relay's lease."""
        self.sql.execute("UPDATE outbox.relay SET lease_until = clock_timestamp() - interval '1 second' WHERE id = %s", relay)


def expect(actual, wanted, what=""):
    assert actual == wanted, f"{what}\n   got    {actual!r}\n   wanted {wanted!r}"


def ids(rows):
    return [row["id"] for row in rows]


def elapsed(action):
    begin = time.monotonic()
    result = action()
    return time.monotonic() - begin, result
