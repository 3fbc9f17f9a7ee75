"""The receiver as a child: see receiver.cpp for its commands."""

import json
import os
import signal
import subprocess

from outboxtest.process import die_with_parent


def receiver_path(root):
    return os.environ.get("OUTBOXD_BENCH_RECEIVER") or os.path.join(root, "build", "release", "tests", "bench", "bench_receiver")


class Receiver:
    def __init__(self, program, certificate, directory):
        self._directory = directory
        self._process = subprocess.Popen([program, certificate.chain_path, certificate.key_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         preexec_fn=die_with_parent(signal.SIGKILL))
        ports = json.loads(self._process.stdout.readline())
        self.http = f"http://127.0.0.1:{ports['http']}/events"
        self.https = f"https://127.0.0.1:{ports['https']}/events"

    @property
    def pid(self):
        return self._process.pid

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def reset(self, events, delay_ms=0.0):
        return self._ask(f"reset {events} {round(delay_ms * 1000)}")

    def stats(self):
        return self._ask("stats")

    def wait(self, unique, seconds):
        return self._ask(f"wait {unique} {max(1, round(seconds * 1000))}")

    def arrivals(self):
        """{number: seconds on time.monotonic()'s clock}"""
        path = os.path.join(self._directory, "arrivals")
        self._ask(f"arrivals {path}")
        with open(path, encoding="ascii") as lines:
            return {int(number): int(at) / 1e9 for number, at in map(str.split, lines)}

    def close(self):
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
