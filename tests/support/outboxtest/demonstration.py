"""What ./quickstart.sh shows: a shop's orders and their events, on a PostgreSQL, a receiver and a relay of our own.

Everything that it starts is named in a state file, so that another run, or --stop, can end and remove it.
"""

import argparse
import base64
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import psycopg2

from .ca import CertificateAuthority
from .cluster import Cluster, connect, program, wait_for
from .daemon import binary_path, daemon_environment
from .process import free_port

STATE = os.environ.get("OUTBOXD_QUICKSTART_STATE", f"/tmp/outboxd-quickstart-{os.geteuid()}.json")
WRITERS = 4
ROLLED_BACK = 0.1       # of the transactions
REFUSED = 0.05          # of the requests are answered 503
UNANSWERED = 0.01       # of the requests are taken, and the connection is closed without an answer

CONFIG = """# Written by quickstart.sh: the relay of the demonstration.
database:
  url: postgresql://outboxd@127.0.0.1:{database_port}/shop
admin:
  listen: "127.0.0.1:{admin_port}"
tls:
  ca_file: {ca}
endpoints:
  - name: orders
    url: https://localhost:{receiver_port}/unreliable/{refused}/{unanswered}
    events: ["order.*"]
    secrets: [{{ file: {secret} }}]
    # Short pauses, so that the demonstration need not wait; the default schedule begins with 5 s and 5 m.
    retry: {{ schedule: [200ms, 400ms, 800ms, 1600ms, 3s, 5s, 5s, 5s], jitter: 0.2 }}
    # One refused request in twenty is no reason to stop sending.
    circuit: {{ failures: 50 }}
"""


def step(text):
    print(f"  {text}", flush=True)


def started_at(pid):
    """When a process began, in ticks: with its number it names one process for ever; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
            return None if fields[0] == "Z" else int(fields[19])
    except OSError:
        return None


class State:
    """The processes and directories that this demonstration owns, on disk as soon as they exist."""

    def __init__(self, processes=(), directories=()):
        self.processes = list(processes)
        self.directories = list(directories)

    def save(self):
        with open(STATE, "w", encoding="utf-8") as out:
            os.chmod(STATE, 0o600)
            json.dump({"processes": self.processes, "directories": self.directories}, out)

    def add_process(self, name, pid, stop_signal):
        self.processes.append([name, pid, started_at(pid), int(stop_signal)])
        self.save()

    def add_directory(self, path):
        self.directories.append(path)
        self.save()

    @classmethod
    def load(cls):
        try:
            if os.stat(STATE).st_uid != os.geteuid():
                raise SystemExit(f"{STATE} belongs to somebody else")
            with open(STATE, encoding="utf-8") as text:
                found = json.load(text)
            return cls(found["processes"], found["directories"])
        except (OSError, ValueError, KeyError):
            return cls()

    def end(self):
        """Stops in the reverse order of starting, then removes; a process that is not ours any more is left alone."""
        count = 0
        for _, pid, began, stop_signal in reversed(self.processes):
            if began is None or started_at(pid) != began:
                continue
            count += 1
            os.kill(pid, stop_signal)
            end = time.monotonic() + 20
            while started_at(pid) == began:
                reap(pid)
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
        for path in self.directories:
            shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(STATE):
            os.unlink(STATE)
        self.processes, self.directories = [], []
        return count


def reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


class Demonstration:
    def __init__(self, orders):
        self.orders = orders
        self.state = State()
        self.directory = tempfile.mkdtemp(prefix="outboxd-quickstart-")
        self.state.add_directory(self.directory)
        self.committed = {}     # event id -> (moment of COMMIT, sha256 of the body)
        self.rolled_back = set()
        self.lock = threading.Lock()

    def path(self, name):
        return os.path.join(self.directory, name)

    def spawn(self, name, arguments, log, stop_signal=signal.SIGTERM, env=None):
        with open(self.path(log), "ab") as out, open(self.path(name + ".err"), "ab") as err:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=self.directory,
                                       start_new_session=True)
        self.state.add_process(name, process.pid, stop_signal)
        return process

    def command(self, *arguments):
        done = subprocess.run([binary_path(), *arguments, "--config", self.path("outboxd.yaml")], text=True, env=daemon_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RuntimeError(f"outboxd {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def start_database(self):
        self.cluster = Cluster(outlive=True)
        self.state.add_directory(self.cluster.directory)
        self.state.add_process("postgresql", self.cluster.process.pid, signal.SIGINT)
        for statement in ("CREATE ROLE outboxd LOGIN", "CREATE ROLE shop LOGIN", "CREATE DATABASE shop OWNER outboxd"):
            self.cluster.execute("postgres", statement)
        self.cluster.execute("shop", "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, article text NOT NULL, "
                                     "quantity int NOT NULL, created_at timestamptz NOT NULL DEFAULT now())")
        self.cluster.execute("shop", "GRANT SELECT, INSERT ON orders TO shop")
        step(f"PostgreSQL   private server on 127.0.0.1:{self.cluster.port}, database shop, roles outboxd and shop (no superusers)")

    def start_receiver(self):
        authority = CertificateAuthority(self.path("ca"))
        leaf = authority.issue(dns=("localhost",), ip=("127.0.0.1",), ends_in=30 * 86400.0)
        with open(self.path("secret"), "w", encoding="ascii") as out:
            os.chmod(self.path("secret"), 0o600)
            out.write("whsec_" + base64.b64encode(os.urandom(32)).decode() + "\n")
        self.receiver_port = free_port()
        support = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
        self.spawn("receiver", [sys.executable, "-m", "outboxtest.receiver", "--port", str(self.receiver_port), "--certificate",
                                leaf.chain_path, "--key", leaf.key_path, "--secret-file", self.path("secret")], "receiver.log",
                   env={**os.environ, "PYTHONPATH": support})
        wait_for(lambda: os.path.getsize(self.path("receiver.log")), 20, "the receiver")
        step(f"Receiver     https://localhost:{self.receiver_port}, its own authority; verifies each signature; refuses "
             f"{REFUSED:.0%} of the requests and leaves {UNANSWERED:.0%} unanswered")

    def start_relay(self):
        self.admin_port = free_port()
        with open(self.path("outboxd.yaml"), "w", encoding="utf-8") as out:
            out.write(CONFIG.format(database_port=self.cluster.port, admin_port=self.admin_port, ca=self.path("ca/ca.pem"),
                                    receiver_port=self.receiver_port, refused=REFUSED, unanswered=UNANSWERED, secret=self.path("secret")))
        self.command("migrate", "--grant-writer", "shop")
        relay = self.spawn("relay", [binary_path(), "run", "--config", self.path("outboxd.yaml")], "relay.out", env=daemon_environment())

        def ready():
            if relay.poll() is not None:
                raise RuntimeError("outboxd ended:\n" + open(self.path("relay.err"), encoding="utf-8").read()[-3000:])
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/readyz", timeout=2) as answer:
                    return answer.status == 200
            except OSError:
                return False
        wait_for(ready, 30, "readiness of outboxd")
        step(f"Relay        outboxd, ready; configuration {self.path('outboxd.yaml')}")

    def write_orders(self, count, seed):
        """One writer of the shop: the order and its event in one transaction, some of them rolled back."""
        lot = random.Random(seed)
        session = connect(self.cluster.uri("shop", "shop"), autocommit=False)
        for _ in range(count):
            with session.cursor() as cursor:
                cursor.execute("INSERT INTO orders (article, quantity) VALUES (%s, %s) RETURNING id",
                               (lot.choice(("kettle", "teapot", "cup")), lot.randint(1, 9)))
                order = cursor.fetchone()[0]
                body = json.dumps({"order_id": order, "price": lot.randint(100, 99999) / 100, "note": "für Zoë ☕"}, ensure_ascii=False)
                cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('order.created', %s) RETURNING event_id", (body,))
                event = cursor.fetchone()[0]
            if lot.random() < ROLLED_BACK:
                session.rollback()
                with self.lock:
                    self.rolled_back.add(event)
            else:
                moment = time.monotonic()
                session.commit()
                with self.lock:
                    self.committed[event] = (moment, hashlib.sha256(body.encode()).hexdigest())
            time.sleep(lot.expovariate(60))
        session.close()

    def run_shop(self):
        began = time.monotonic()
        share, rest = divmod(self.orders, WRITERS)
        writers = [threading.Thread(target=self.write_orders, args=(share + (i < rest), i)) for i in range(WRITERS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        step(f"Shop         {self.orders} transactions by {WRITERS} writers in {time.monotonic() - began:.1f} s: an order and its event each, "
             "some rolled back")
        wait_for(lambda: self.cluster.value("shop", "SELECT count(*) FROM outbox.delivery") == 0, 60, "the last delivery", interval=0.05)

    def requests(self):
        with open(self.path("receiver.log"), encoding="utf-8") as log:
            return [line for line in map(json.loads, log) if "id" in line]

    def report(self):
        """Prints the table; true when everything that was promised was kept."""
        requests = self.requests()
        first, accepted, processed = {}, set(), {}
        for one in requests:
            first.setdefault(one["id"], one)
            # An unanswered request was taken all the same: when it comes again, it is a duplicate for the receiver.
            if one["answer"] == 200:
                accepted.add(one["id"])
            if one["answer"] in (200, "close"):
                processed[one["id"]] = processed.get(one["id"], 0) + 1
        latencies = sorted(first[e]["arrived"] - moment for e, (moment, _) in self.committed.items() if e in first)
        delivered = len(accepted & self.committed.keys())
        phantoms = len(self.rolled_back & first.keys())
        duplicates = sum(count - 1 for count in processed.values())
        verified = sum(one["signature"] == "verified" for one in requests)
        identical = sum(one["sha256"] == self.committed[one["id"]][1] for one in requests if one["id"] in self.committed)
        same_key = all(one["key"] == one["id"] for one in requests)
        retried = self.cluster.value("shop", "SELECT count(*) FROM outbox.attempt WHERE outcome = 'retried'")

        def percentile(part):
            return f"{latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1000:.1f} ms" if latencies else "-"

        rows = [
            ("committed", len(self.committed), "orders whose transaction committed, each with one event"),
            ("delivered", delivered, "of them accepted by the receiver"),
            ("never sent", len(self.rolled_back) - phantoms, f"of {len(self.rolled_back)} rolled back: no request was made for them"),
            ("retried", retried, "attempts that were refused or got no answer, and were made again"),
            ("duplicates", duplicates, "came twice because the answer was lost; the Idempotency-Key was the same" if same_key else
             "with DIFFERENT idempotency keys"),
            ("signature verified", verified, f"of {len(requests)} requests, by the receiver"),
            ("same bytes", identical, f"of {len(requests)} bodies are what was inserted"),
            ("p50", percentile(0.50), "from COMMIT to arrival at the receiver"),
            ("p99", percentile(0.99), ""),
        ]
        print()
        for name, value, text in rows:
            print(f"    {name:<20}{value:>10}   {text}")
        print(flush=True)
        return (delivered == len(self.committed) and not phantoms and verified == len(requests) == identical and same_key
                and bool(self.committed))

    def hints(self):
        psql = program("psql")
        outboxd = os.path.relpath(binary_path())
        config = self.path("outboxd.yaml")
        print(f"""  It is still running. An event by hand:

    {psql} "{self.cluster.uri('shop', 'shop')}" -c \\
      "INSERT INTO outbox.event (event_type, payload) VALUES ('order.created', '{{\\"order_id\\":1042}}') RETURNING event_id"

  What the receiver gets     tail -f {self.path('receiver.log')}
  What became of an event    {outboxd} why EVENT_ID --config {config}
  The whole                  {outboxd} status --config {config}
  The relay's log            {self.path('relay.err')}
  Metrics                    http://127.0.0.1:{self.admin_port}/metrics
  Readiness                  http://127.0.0.1:{self.admin_port}/readyz

  Stop and remove            ./quickstart.sh --stop
""", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="quickstart.sh", description="Shows outboxd at work on this machine, in a few seconds.")
    parser.add_argument("--keep", action="store_true", help="leave everything running and say how to use it")
    parser.add_argument("--stop", action="store_true", help="end and remove what --keep left running")
    parser.add_argument("--orders", type=int, default=1000, metavar="N", help="number of the shop's transactions (default 1000)")
    options = parser.parse_args()
    ended = State.load().end()
    if options.stop:
        print(f"  {ended} processes stopped." if ended else "  Nothing was running.")
        return 0
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _frame: sys.exit(128 + number))
    demonstration = Demonstration(max(1, options.orders))
    kept = False
    try:
        print()
        demonstration.start_database()
        demonstration.start_receiver()
        demonstration.start_relay()
        demonstration.run_shop()
        good = demonstration.report()
        if not good:
            print("  Something is not as promised; see above.", file=sys.stderr)
        if options.keep:
            demonstration.hints()
            kept = True
        elif good:
            print("  As promised. All that was started is stopped and removed again; ./quickstart.sh --keep leaves it running.\n"
                  f"  The program is {os.path.relpath(binary_path())}.\n", flush=True)
        return 0 if good else 1
    except (RuntimeError, TimeoutError, psycopg2.Error) as error:
        print(f"quickstart: {error}", file=sys.stderr)
        for name in ("relay.err", "receiver.err"):
            if os.path.exists(demonstration.path(name)):
                text = open(demonstration.path(name), encoding="utf-8", errors="replace").read()[-2000:]
                print(f"--- {name}\n{text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if not kept:
            demonstration.state.end()


if __name__ == "__main__":
    sys.exit(main())
