"""The real binary as a child: started with a configuration, watched, hurt and ended."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from .cluster import wait_for
from .process import die_with_parent, free_port

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def binary_path():
    """$OUTBOXD_BIN, or the release build's."""
    return os.environ.get("OUTBOXD_BIN") or os.path.join(ROOT, "build", "release", "daemon", "outboxd")


def daemon_environment(more=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "OUTBOXD_", "NOTIFY_", "WATCHDOG_"))}
    environment.update(more or {})
    return environment


def write_config(config, directory):
    """JSON is YAML, so a dict needs no YAML library; a text is written as it is."""
    path = os.path.join(directory, "outboxd.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(config if isinstance(config, str) else json.dumps(config, indent=2))
    os.chmod(path, 0o600)
    return path


def run_command(*arguments, config=None, env=None, timeout=60, stdin=None):
    """One command to its end: CompletedProcess with text. `config` (dict or text) is given as --config."""
    with tempfile.TemporaryDirectory(prefix="outboxd-cmd-") as directory:
        command = [binary_path(), *map(str, arguments)]
        if config is not None:
            command += ["--config", write_config(config, directory)]
        return subprocess.run(command, env=daemon_environment(env), text=True, errors="replace", input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)


def merge(base, over):
    """`over` laid over `base`, sections of the configuration key by key."""
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


SECRET = re.compile(r"wh(?:sec|sk)_[A-Za-z0-9+/]{16,}")


class Outboxd:
    """`outboxd run`. `database` is a URI; `config` is laid over a default fit for tests (free admin port, quick polls).

    A text as `config` is taken whole; `admin_port` must then be the one it names.
    """

    def __init__(self, database, config=None, env=None, start=True, wrapper=(), admin_port=None, arguments=(),
                 preexec_fn=None):
        self.admin_port = admin_port or free_port()
        self._directory = tempfile.TemporaryDirectory(prefix="outboxd-run-")
        self.directory = self._directory.name
        if isinstance(config, str):
            self.config = config
        else:
            self.config = merge({"database": {"url": database}, "admin": {"listen": f"127.0.0.1:{self.admin_port}"},
                                 "egress": {"allow": ["127.0.0.0/8", "::1"], "allow_http": True},
                                 "log": {"level": "info", "format": "json", "attempts": "all"}}, config or {})
        self.config_path = write_config(self.config, self.directory)
        self.process = None
        self.lines = []             # of stderr, as they came
        self.stdout = []
        self._changed = threading.Condition()
        self._env = env
        self._wrapper = list(wrapper)
        self._arguments = list(arguments)
        self._preexec_fn = preexec_fn
        self._readers = []
        if start:
            self.start()

    def start(self):
        die = die_with_parent(signal.SIGKILL)

        def before_exec():
            die()
            if self._preexec_fn:
                self._preexec_fn()

        self.process = subprocess.Popen(
            [*self._wrapper, binary_path(), "run", *self._arguments, "--config", self.config_path],
            env=daemon_environment(self._env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", preexec_fn=before_exec)
        self._readers = [threading.Thread(target=self._read, args=(self.process.stderr, self.lines), daemon=True),
                         threading.Thread(target=self._read, args=(self.process.stdout, self.stdout), daemon=True)]
        for reader in self._readers:
            reader.start()
        return self

    def _read(self, stream, lines):
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with self._changed:
            return list(self.lines)

    def records(self, event=None):
        """Log lines that are JSON, as dicts; those of one `event` when it is named."""
        out = []
        for line in self.log():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and (event is None or record.get("event") == event):
                out.append(record)
        return out

    def wait_log(self, pattern, timeout=20.0, count=1):
        """Waits for the `count`th stderr line in which the regular expression is found, and returns it."""
        expression = re.compile(pattern)
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                found = [line for line in self.lines if expression.search(line)]
                if len(found) >= count:
                    return found[count - 1]
                if time.monotonic() >= end or (self.process.poll() is not None and not self._readers[0].is_alive()):
                    tail = "\n".join(self.lines[-30:])
                    raise TimeoutError(f"no line like {pattern!r} within {timeout} s (exit {self.process.poll()}):\n{tail}")
                self._changed.wait(min(0.2, max(0.0, end - time.monotonic())))

    def http(self, path, timeout=5.0, headers=None):
        """Status and text of a GET on the admin address; status 0 when nobody answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")
        except OSError:
            return 0, ""

    def wait_ready(self, timeout=20.0):
        """Until /readyz says 200."""
        def ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"outboxd ended with {self.process.returncode}:\n" + "\n".join(self.log()[-30:]))
            return self.http("/readyz")[0] == 200
        try:
            wait_for(ready, timeout, "readiness")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n" + "\n".join(self.log()[-30:])) from None
        return self

    def metrics(self):
        """{'outboxd_in_flight': 3.0, 'outboxd_attempts_total{outcome="published",...}': 7.0}"""
        values = {}
        for line in self.http("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
        return values

    def metric(self, name, **labels):
        """The sum over all series of a name whose labels include `labels`."""
        total = 0.0
        for series, value in self.metrics().items():
            base, _, inner = series.partition("{")
            if base == name and all(f'{key}="{label}"' in inner for key, label in labels.items()):
                total += value
        return total

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def peak_rss_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def signal(self, sig):
        self.process.send_signal(sig)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """kill -9, and wait."""
        if self.process.poll() is None:
            self.process.kill()
        return self.wait()

    def terminate(self, timeout=40.0):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout=40.0):
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(5)
        return code

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            try:
                self.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process is not None:
            for stream in (self.process.stdout, self.process.stderr):
                stream.close()
        self._directory.cleanup()
        self.assert_no_secret()

    def assert_no_secret(self):
        """Whatever a test did: no signing secret stands in what the daemon wrote."""
        found = [line for line in [*self.lines, *self.stdout] if SECRET.search(line)]
        assert not found, f"{len(found)} lines of the daemon show a signing secret"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
