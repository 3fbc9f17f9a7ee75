"""The axes of a relay that has little to do: latency at a trickle, idling, five thousand lanes, memory."""

import time

from outboxtest.cluster import connect

from . import gauges
from .contestants import Peer, Product, prepared
from .figures import Axis, Figure, best_of_peers, percentile, quotient

WARM_UP = 1.0  # seconds of the trickle that are not counted


def trickle(stage, who):
    """Inserts at a steady rate whatever happens (open loop) and asks the receiver when each event came.

    The commit counts from the moment its answer reached the writer: an event may be on the wire before that.
    """
    rate, seconds = stage.options.rate, stage.options.seconds
    events = round(rate * seconds)
    uri = who.database()
    try:
        stage.calm(uri)
        stage.receiver.reset(events)
        session = connect(uri)
        payloads = [row[0] for row in stage.sql(uri, "SELECT bench_payload(i) FROM generate_series(0, %s) i", (events - 1,))]
        insert = prepared(session, who.insert)
        with stage.running(who) as started:
            # A relay that has just started is busy with itself.
            time.sleep(min(3.0, seconds))
            meter = stage.meter(started)
            committed = []
            begin = time.monotonic()
            for number, payload in enumerate(payloads):
                pause = begin + number / rate - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                insert(payload)
                committed.append(time.monotonic())
            used = meter.used()
            stage.receiver.wait(events, 20)
        session.close()
        arrived = stage.receiver.arrivals()
    finally:
        stage.drop(uri)
    if len(arrived) < events:
        stage.log(f"{who.name}: {events - len(arrived)} of {events} events did not arrive within 20 s")
    stage.note_disturbance(who.name, used)
    waits = [1000 * (at - committed[number]) for number, at in arrived.items() if committed[number] >= begin + min(WARM_UP, seconds / 3)]
    return {"p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99), "worst": max(waits), "relay_percent": 100 * used["relay"] / used["wall"],
            "postgres_percent": 100 * used["postgres"] / used["wall"]}


def measure_latency(stage, _):
    own = trickle(stage, Product(stage))
    peers = {n: trickle(stage, Peer(stage, n, command)) for n, command in stage.options.peer}
    best = {key: best_of_peers(peers, key, lower_is_better=True) for key in ("p50", "p99", "relay_percent")}
    # The peer with the least latency is the one whose CPU is compared.
    nearest = min(peers.values(), key=lambda r: r["p50"])["relay_percent"] if peers else None
    return {**own, **{f"{n} {key}": result[key] for n, result in peers.items() for key in result}, "p50_ratio": quotient(own["p50"], best["p50"]),
            "p99_ratio": quotient(own["p99"], best["p99"]), "cpu_ratio": quotient(own["relay_percent"], nearest)}


LATENCY = Axis("latency", "Latency commit to arrival at 200/s",
               [Figure("p50", "p50", "ms", 2, at_most=0.8), Figure("p99", "p99", "ms", 2, at_most=2.9), Figure("worst", "worst", "ms", 1),
                Figure("relay_percent", "relay, share of a core meanwhile", "%", 1), Figure("postgres_percent", "PostgreSQL, share of a core meanwhile", "%", 1),
                Figure("p50_ratio", "p50 against the best peer's", "x", 2, at_most=1), Figure("p99_ratio", "p99 against the best peer's", "x", 2, at_most=1),
                Figure("cpu_ratio", "relay's CPU against that of the peer with the least p50", "x", 2, at_most=0.34)], measure_latency)


def idle(stage, who, relays, settle=3.0):
    """CPU shares of relays with nothing to do."""
    time.sleep(min(settle, stage.options.idle))
    meter = stage.meter(relays)
    time.sleep(stage.options.idle)
    used = meter.used()
    stage.note_disturbance(f"{who.name}, idle", used)
    return {"relay_percent": 100 * used["relay"] / used["wall"], "postgres_percent": 100 * used["postgres"] / used["wall"]}


def measure_idle(stage, _):
    values = {}
    for who in [Product(stage), *(Peer(stage, n, command) for n, command in stage.options.peer)]:
        uri = who.database()
        try:
            stage.calm(uri)
            with stage.running(who) as relays:
                found = idle(stage, who, relays) | {"peak_mib": max(gauges.peak_mib(r.pid) for r in relays)}
        finally:
            stage.drop(uri)
        values |= found if isinstance(who, Product) else {f"{who.name} {key}": value for key, value in found.items()}
    return values


IDLE = Axis("idle", "Idle", [Figure("relay_percent", "relay, share of a core", "%", 2, at_most=0.5), Figure("postgres_percent", "PostgreSQL, share of a core", "%", 2),
                             Figure("peak_mib", "peak memory (VmHWM)", "MiB", 1, at_most=30)], measure_idle)


def measure_lanes(stage, _):
    rows, lanes = stage.options.rows, stage.options.lanes
    one = stage.fresh_drain(Product(stage), rows)["rate"]
    who = Product(stage, lanes=lanes)
    uri = who.database()
    try:
        who.fill(rows)
        stage.calm(uri)
        many = stage.drain(who, rows)
        with stage.running(who) as relays:
            resting = idle(stage, who, relays, settle=5.0)
    finally:
        stage.drop(uri)
    return {"one": one, "many": many["rate"], "ratio": many["rate"] / one, "relay_us": many["relay_us"], "postgres_us": many["postgres_us"], "idle_percent": resting["relay_percent"],
            "idle_postgres": resting["postgres_percent"], "peak_mib": many["peak_mib"]}


LANES = Axis("lanes", "Lanes: the same events over 5,000 endpoints (--lanes)",
             [Figure("one", "events/s, one endpoint", "/s"), Figure("many", "events/s, many", "/s"), Figure("ratio", "rate kept", "x", 2, at_least=0.8),
              Figure("relay_us", "CPU per event, relay", "µs", 1), Figure("postgres_us", "CPU per event, PostgreSQL", "µs", 1),
              Figure("idle_percent", "idle with as many endpoints: relay, share of a core", "%", 2, at_most=2), Figure("idle_postgres", "idle: PostgreSQL, share of a core", "%", 2),
              Figure("peak_mib", "peak memory of the relay", "MiB", 1)], measure_lanes)


def memory_begin(stage):
    stage.large = Product(stage)
    stage.large.database()


def memory_end(stage):
    stage.drop(stage.large.uri)


def peak_after(stage, who, backlog):
    """VmHWM of a relay that has worked at a backlog for `--memory-seconds`, counted from its first POST on."""
    there = stage.value(who.uri, who.left)
    if there < backlog:
        who.fill(backlog - there, first=there)
        stage.sql(who.uri, "VACUUM (ANALYZE) outbox.delivery")
    stage.calm(who.uri, vacuum=False)
    stage.receiver.reset(backlog)
    with stage.running(who) as relays:
        if not stage.receiver.wait(1, 60)["unique"]:
            raise RuntimeError(f"nothing was delivered within a minute: {relays[0].log()[-5:]}")
        time.sleep(stage.options.memory_seconds)
        return gauges.peak_mib(relays[0].pid)


def measure_memory(stage, _):
    small = Product(stage)
    small.database()
    try:
        few = peak_after(stage, small, min(10_000, stage.options.backlog))
    finally:
        stage.drop(small.uri)
    many = peak_after(stage, stage.large, stage.options.backlog)
    return {"small": few, "large": many, "ratio": many / few}


MEMORY = Axis("memory", "Memory: peak (VmHWM) while draining",
              [Figure("small", "backlog of 10,000", "MiB", 1), Figure("large", "backlog of 2,000,000 (--backlog)", "MiB", 1), Figure("ratio", "large against small", "x", 2, at_most=1.2)],
              measure_memory, memory_begin, memory_end)

AXES = [LATENCY, IDLE, LANES, MEMORY]
