"""The axes that drain a backlog: against peers, and against outboxd itself without the hardship in question."""

import contextlib

from outboxtest.cluster import connect
from outboxtest.fixtures import migrate

from .contestants import CHUNK, Peer, Product
from .figures import Axis, Figure, best_of_peers, quotient


def against_peers(name, title, tls=False, delay_ms=0, in_flight=512, bars=None):
    bars = bars or {}
    figures = [Figure("rate", "events/s from the first POST", "/s"), Figure("from_start", "events/s from process start", "/s"),
               Figure("peer_rate", "best peer beside it, events/s from the first POST", "/s"), Figure("ratio", "times the best peer", "x", 2, at_least=4),
               Figure("component", "share of the component limit (cores / CPU per event of relay + PostgreSQL + receiver)", "", 2, at_least=bars.get("component")),
               Figure("relay_us", "CPU per event, relay", "µs", 1, at_most=bars.get("relay")), Figure("postgres_us", "CPU per event, PostgreSQL", "µs", 1, at_most=bars.get("postgres")),
               Figure("receiver_us", "CPU per event, receiver", "µs", 1), Figure("peak_mib", "peak memory of the relay", "MiB", 1)]

    def measure(stage, _):
        rows = stage.options.rows
        own = stage.fresh_drain(Product(stage, tls, in_flight), rows, delay_ms=delay_ms)
        peers = {n: stage.fresh_drain(Peer(stage, n, command, tls, in_flight), rows, delay_ms=delay_ms) for n, command in stage.options.peer}
        best = best_of_peers(peers, "rate")
        values = {f"{n} {key}": result[key] for n, result in peers.items() for key in ("rate", "from_start", "relay_us", "postgres_us", "peak_mib")}
        own.pop("in_flight")
        return {**own, **values, "peer_rate": best, "ratio": quotient(own["rate"], best)}

    return Axis(name, title, figures, measure)


class Statements:
    """pg_stat_statements of a server of its own, since the measured one has PostgreSQL's defaults: calls, rows and buffers of the claim as the drain goes on."""

    QUERY = ("SELECT coalesce(sum(calls), 0)::float8, coalesce(sum(rows), 0)::float8, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements "
             "WHERE query ~ '\\.\"?claim\"?\\(' AND query !~ 'pg_stat_statements'")

    def __init__(self):
        self.seen = []

    def __call__(self, session):
        with session.cursor() as cursor:
            cursor.execute(self.QUERY)
            self.seen.append(cursor.fetchone())

    def buffers(self, rows, begin, end):
        """Buffers per claim and per claimed row between two shares of the drain."""
        inside = [s for s in self.seen if begin * rows <= s[1] <= end * rows]
        if len(inside) < 2 or inside[-1][0] == inside[0][0] or inside[-1][1] == inside[0][1]:
            return None, None
        spent = inside[-1][2] - inside[0][2]
        return spent / (inside[-1][0] - inside[0][0]), spent / (inside[-1][1] - inside[0][1])


@contextlib.contextmanager
def snapshot_held(uri):
    """A REPEATABLE READ transaction that has taken its snapshot and sits there: no dead row may be removed."""
    session = connect(uri, autocommit=False)
    try:
        session.set_session(isolation_level="REPEATABLE READ")
        with session.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM outbox.endpoint")
        yield
    finally:
        session.close()


def held_begin(stage):
    stage.watched = stage.server(["shared_preload_libraries = 'pg_stat_statements'"])
    stage.watched.execute("template1", "CREATE EXTENSION pg_stat_statements")


def held_end(stage):
    stage.watched.remove()


def held_drain(stage, cluster, watch=None):
    """A drain under a held snapshot, on the measured server or on the watched one."""
    usual, stage.cluster = stage.cluster, cluster
    try:
        who = Product(stage)
        uri = who.database()
        try:
            who.fill(stage.options.rows)
            stage.calm(uri)
            with snapshot_held(uri):
                return stage.drain(who, stage.options.rows, watch=watch)
        finally:
            stage.drop(uri)
    finally:
        stage.cluster = usual


def measure_held(stage, _):
    rows = stage.options.rows
    plain = stage.fresh_drain(Product(stage), rows)["rate"]
    held = held_drain(stage, stage.cluster)["rate"]
    watch = Statements()
    held_drain(stage, stage.watched, watch)
    first, first_row = watch.buffers(rows, 0.02, 0.3)
    last, last_row = watch.buffers(rows, 0.65, 1)
    return {"plain": plain, "held": held, "ratio": held / plain, "buffers_first": first, "buffers_last": last, "growth": quotient(last_row, first_row)}


HELD = Axis("held", "Held snapshot (REPEATABLE READ open elsewhere)",
            [Figure("plain", "events/s without it", "/s"), Figure("held", "events/s with it", "/s"), Figure("ratio", "rate kept", "x", 2, at_least=0.8),
             Figure("buffers_first", "buffers per claim, first third of the drain", "", 0), Figure("buffers_last", "buffers per claim, last third", "", 0),
             Figure("growth", "growth of buffers per claimed event", "x", 2, at_most=1.2)], measure_held, held_begin, held_end)


def history_begin(stage):
    """Events and attempts of the past, written around the trigger; the maintenance row says that the sweep has seen them."""
    who, count = Product(stage), stage.options.history
    uri = stage.history = stage.cluster.create_migrated_database(migrate)
    session = connect(uri)
    with session.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for begin in range(1, count + 1, CHUNK):
            end = min(begin + CHUNK - 1, count)
            cursor.execute("INSERT INTO outbox.event (event_type, payload, created_at) SELECT 'order.created', bench_payload(i)::json, now() - interval '1 day' FROM generate_series(%s::bigint, %s) i",
                           (begin, end))
            cursor.execute("INSERT INTO outbox.attempt (delivery, event, started_at, finished_at, relay, attempt, http_status, duration_ms, first_byte_ms, outcome, endpoint) "
                           "SELECT i, i, now() - interval '1 day', now() - interval '1 day', 1, 1, 200, 3, 2, 'published', 'e0' FROM generate_series(%s::bigint, %s) i", (begin, end))
            if begin // CHUNK % 20 == 0:
                stage.log(f"history: {end:,} of {count:,}")
        cursor.execute("SELECT setval(pg_get_serial_sequence('outbox.delivery', 'id'), %s)", (count,))
        cursor.execute("UPDATE outbox.maintenance SET state = jsonb_build_object('done', %s) WHERE name = 'sweep'", (count,))
    session.close()
    who.use(uri)
    stage.calm(uri)


def history_end(stage):
    stage.drop(stage.history)


def measure_history(stage, _):
    rows = stage.options.rows
    plain = stage.fresh_drain(Product(stage), rows)["rate"]
    who = Product(stage)
    who.uri = stage.history
    who.fill(rows)
    # VACUUM of the live table alone: the history was vacuumed when it was made.
    stage.sql(who.uri, "VACUUM (ANALYZE) outbox.delivery")
    stage.calm(who.uri, vacuum=False)
    loaded = stage.drain(who, rows)["rate"]
    return {"plain": plain, "loaded": loaded, "ratio": loaded / plain}


HISTORY = Axis("history", "History: attempts and events kept (--history)",
               [Figure("plain", "events/s without", "/s"), Figure("loaded", "events/s with", "/s"), Figure("ratio", "rate kept", "x", 2, at_least=0.9)],
               measure_history, history_begin, history_end)


def measure_relays(stage, _):
    rows, values = stage.options.rows, {}
    for lanes, name in ((1, "one_lane"), (64, "lanes_64")):
        one = stage.fresh_drain(Product(stage, lanes=lanes), rows)["rate"]
        two = stage.fresh_drain(Product(stage, lanes=lanes), rows, relays=2)["rate"]
        values |= {f"{name}_1": one, f"{name}_2": two, f"{name}_ratio": two / one}
    # One request at a time takes so much longer that a fifth of the rows is enough.
    few = max(1000, rows // 5)
    one = stage.fresh_drain(Product(stage, in_flight=1), few)["rate"]
    two = stage.fresh_drain(Product(stage, in_flight=1), few, relays=2)["rate"]
    return values | {"single_1": one, "single_2": two, "single_ratio": two / one}


RELAYS = Axis("relays", "Two relays beside one",
              [Figure("one_lane_1", "one lane, one relay", "/s"), Figure("one_lane_2", "one lane, two relays", "/s"), Figure("one_lane_ratio", "one lane, two against one", "x", 2, at_least=0.9),
               Figure("lanes_64_1", "64 lanes, one relay", "/s"), Figure("lanes_64_2", "64 lanes, two relays", "/s"), Figure("lanes_64_ratio", "64 lanes, two against one", "x", 2, at_least=0.9),
               Figure("single_1", "one HTTP connection, one relay", "/s"), Figure("single_2", "one HTTP connection each, two relays", "/s"),
               Figure("single_ratio", "one HTTP connection each, two against one", "x", 2, at_least=1)], measure_relays)

AXES = [against_peers("drain_http", "Drain, HTTP, receiver answers at once", bars={"component": 0.75, "relay": 18, "postgres": 22}),
        against_peers("drain_https", "Drain, HTTPS keep-alive, receiver answers at once", tls=True, bars={"component": 0.75, "relay": 24, "postgres": 22}),
        against_peers("drain_20ms", "Drain, HTTP, receiver takes 20 ms, 1,024 in flight", delay_ms=20, in_flight=1024), HELD, HISTORY, RELAYS]
