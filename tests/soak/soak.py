"""The soak: every promise of the README under constant kills. Prints committed, delivered, lost, phantom, duplicates, order violations, differing bytes."""

import argparse
import random
import threading
import time

import psycopg2

from outboxtest import Answer, CertificateAuthority, Cluster, Outboxd, Receiver
from outboxtest.cluster import connect
from outboxtest.fixtures import migrate

LEASE_S = 6
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"n": %d,  "a":1.0, "a":1e400, "pad":"%s", "\\u2028": "\U0001f600"}'


class Behaviour:
    """Calm for most; each hostile kind now and then. Always calm once `calm` is set, so that everything can end."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.calm = False

    def __call__(self, request):
        lot = self.random.random()
        if self.calm or lot < 0.90:
            return Answer(200, delay=self.random.random() * 0.02)
        if lot < 0.94:
            return Answer(503)
        if lot < 0.96:
            return Answer(action="close")
        if lot < 0.97:
            return Answer(action="reset")
        if lot < 0.98:
            return Answer(302, headers={"Location": "/elsewhere"})
        if lot < 0.995:
            return Answer(429, headers={"Retry-After": "1"})
        return Answer(action="hang")


class Writer(threading.Thread):
    """Business transactions of random length; a fifth roll back. Writers own their ordering keys, so that commits of one key never overlap."""

    def __init__(self, number, uri, stop):
        super().__init__(daemon=True)
        self.number, self.uri, self.stop = number, uri, stop
        self.random = random.Random(number)
        self.committed, self.rolled_back, self.doubtful = {}, set(), {}
        self.serial = 0

    def run(self):
        session = None
        while not self.stop.is_set():
            try:
                if session is None:
                    session = connect(self.uri, autocommit=False)
                self.one(session)
            except psycopg2.Error:
                session = None
                time.sleep(0.2)
            time.sleep(self.random.random() * 0.05)

    def one(self, session):
        ids = {}
        cursor = session.cursor()
        for _ in range(self.random.randint(1, 5)):
            self.serial += 1
            event_id = f"w{self.number}-{self.serial}"
            body = BODY % (self.serial, "x" * self.random.randint(0, 2000))
            key = f"key-{self.number}-{self.random.randint(0, 3)}" if self.random.random() < 0.5 else None
            cursor.execute("INSERT INTO outbox.event (event_id, event_type, payload, ordering_key) VALUES (%s, 'soak.event', %s, %s)", (event_id, body, key))
            ids[event_id] = (body.encode(), key)
        time.sleep(self.random.random() * 0.05)
        if self.random.random() < 0.2:
            session.rollback()
            self.rolled_back.update(ids)
            return
        self.doubtful.update(ids)  # until COMMIT has answered nobody knows
        session.commit()
        for event_id in ids:
            self.committed[event_id] = self.doubtful.pop(event_id)


def first_order_violations(requests, committed):
    """Per key: the first arrivals must come in the order in which the writer committed them."""
    first = {}
    for r in requests:
        first.setdefault(r.id, r.arrived)
    by_key = {}
    for event_id, (_, key) in committed.items():
        if key is not None and event_id in first:
            by_key.setdefault(key, []).append((int(event_id.split("-")[1]), first[event_id]))
    bad = 0
    for rows in by_key.values():
        rows.sort()
        bad += sum(1 for a, b in zip(rows, rows[1:]) if b[1] < a[1])
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--relays", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.relays} relays, {args.minutes:g} minutes", flush=True)
    chance = random.Random(args.seed)
    behaviour = Behaviour(args.seed)
    stop = threading.Event()
    kills = database_kills = 0
    with Cluster() as cluster, CertificateAuthority() as ca:
        certificate = ca.issue(dns=("localhost",), ip=("127.0.0.1",))
        uri = cluster.create_migrated_database(migrate)
        with Receiver(behaviour, certificate=certificate, secrets=[SECRET], window=3600) as receiver:
            config = {"relay": {"lease": f"{LEASE_S}s", "max_rescues": 1000, "drain_timeout": "5s"}, "tls": {"ca_file": ca.path},
                      "defaults": {"timeout": "2s", "connect_timeout": "1s", "retry": {"base": "200ms", "factor": 1.5, "max": "2s", "max_attempts": 1000}, "circuit": {"failures": 50, "open_for": "1s"}},
                      "log": {"attempts": "none"},
                      "endpoints": [{"name": "soak", "url": receiver.url("/soak"), "events": ["*"], "secrets": [SECRET]}]}
            relays = [Outboxd(uri, config) for _ in range(args.relays)]
            writers = [Writer(n, uri, stop) for n in range(4)]
            for writer in writers:
                writer.start()
            end = time.monotonic() + args.minutes * 60
            next_database_kill = time.monotonic() + 30
            while time.monotonic() < end:
                time.sleep(chance.uniform(0.7, 1.3))
                victim = chance.choice(relays)
                victim.kill()
                victim.start()
                kills += 1
                if time.monotonic() >= next_database_kill:
                    cluster.restart("immediate")
                    database_kills += 1
                    next_database_kill = time.monotonic() + chance.uniform(20, 60)
            stop.set()
            behaviour.calm = True
            for writer in writers:
                writer.join(10)
            # Everything that is committed must end within a few leases once the world is calm.
            session = connect(uri)
            cursor = session.cursor()
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                cursor.execute("SELECT count(*) FROM outbox.delivery")
                if cursor.fetchone()[0] == 0:
                    break
                time.sleep(0.2)
            cursor.execute("SELECT event_id, payload::text FROM outbox.event")
            in_table = dict(cursor.fetchall())
            cursor.execute("SELECT e.event_id FROM outbox.event e JOIN outbox.attempt a ON a.event = e.id WHERE a.outcome = 'published' GROUP BY 1 HAVING count(*) > 1")
            twice = cursor.rowcount
            codes = [relay.terminate() for relay in relays]
            requests = receiver.snapshot()
    report(args, writers, in_table, requests, kills, database_kills, twice, codes)


def report(args, writers, in_table, requests, kills, database_kills, twice, codes):
    committed = {}
    for writer in writers:
        committed.update(writer.committed)
        # A COMMIT whose answer was lost: the table knows.
        committed.update({i: v for i, v in writer.doubtful.items() if i in in_table})
    rolled_back = set().union(*(w.rolled_back for w in writers))
    accepted = {r.id for r in requests if r.status == 200}
    answered = sum(1 for r in requests if r.status == 200)
    lost = [i for i in committed if i not in accepted]
    phantom = [r.id for r in requests if r.id in rolled_back or r.id not in in_table]
    differing = [r.id for r in requests if r.id in committed and r.body != committed[r.id][0]]
    keys = [r.id for r in requests if r.key != r.id]
    unsigned = [r.id for r in requests if r.signature_error]
    order = first_order_violations(requests, committed)
    duplicates = answered - len(accepted)
    print(f"committed {len(committed)}, rolled back {len(rolled_back)}, delivered {len(accepted & committed.keys())}, requests {len(requests)}")
    print(f"kills {kills}, database kills {database_kills}, duplicates {duplicates} ({duplicates / max(1, kills):.2f} per kill)")
    checks = {"lost": len(lost), "phantom": len(phantom), "bytes differing": len(differing), "keys differing": len(keys), "signatures wrong": len(unsigned),
              "order violations": order, "published twice": twice, "relays that did not stop in order": sum(1 for c in codes if c != 0)}
    for name, count in checks.items():
        print(f"{name} {count}")
    for name, sample in (("lost", lost), ("phantom", phantom), ("bytes differing", differing)):
        if sample:
            print(f"  {name}: {sample[:5]}")
    failed = sum(1 for count in checks.values() if count) + (0 if committed else 1)
    print(f"{len(checks) + 1 - failed} passed, {failed} failed")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
