"""A private PostgreSQL server: made, started, hurt and removed by one test process."""

import atexit
import glob
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time

import psycopg2

from .process import clean_environment, die_with_parent, free_port, run, server_account

_initial = None


def program(name):
    """Debian keeps the server's programs outside the PATH; 15 is preferred, a newer one will do."""
    for directory in ["/usr/lib/postgresql/15/bin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    return name


def _server_directory():
    # Below /tmp, whatever TMPDIR says: a Unix socket's path has 107 bytes at most, and the server's account must reach it.
    # tests/run.sh names a directory of its own there, so that nothing is left behind by a test that was killed.
    directory = tempfile.mkdtemp(prefix="outboxd-pg-", dir=os.environ.get("OUTBOXD_TEST_TMP", "/tmp"))
    account = server_account()
    if account:
        os.chown(directory, account["user"], account["group"])
    return directory


def _initial_data():
    """initdb takes a second, a copy of what it made takes a tenth of one."""
    global _initial
    if _initial is None:
        directory = _server_directory()
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        run([program("initdb"), "-D", directory + "/data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--locale=C.UTF-8", "--no-sync"], cwd="/", env=clean_environment(), **server_account())
        _initial = directory + "/data"
    return _initial


def wait_for(condition, timeout=20.0, what="", interval=0.02):
    """Asks `condition` until it is true, and returns what it returned; TimeoutError names `what` otherwise."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise TimeoutError(f"not within {timeout} s: {what or condition}")
        time.sleep(interval)


class Cluster:
    """One server. `settings` are lines for postgresql.conf, `hba_first` lines that stand before the trusting ones.

    `outlive=True` leaves it running when this process ends; remove() then is the caller's duty.
    """

    def __init__(self, settings=(), hba_first=(), certificate=None, data_from=None, directory=None, outlive=False):
        self.directory = directory or _server_directory()
        self.data = self.directory + "/data"
        self.log_path = self.directory + "/server.log"
        self.process = None
        self._names = itertools.count(1)
        self._template = None
        self._outlive = outlive
        if not outlive:
            atexit.register(self.remove)
        run(["cp", "-a", data_from or _initial_data(), self.data], cwd="/", **server_account())
        lines = ["listen_addresses = '127.0.0.1'", f"unix_socket_directories = '{self.directory}'", "max_connections = 100",
                 "shared_buffers = 64MB", "log_line_prefix = '%m [%p] '", "timezone = 'UTC'", "log_timezone = 'UTC'",
                 "max_prepared_transactions = 20", "max_wal_size = 512MB"]
        if certificate:
            self._write("server.crt", open(certificate.chain_path).read())
            self._write("server.key", open(certificate.key_path).read())
            lines.append("ssl = on")
        self._write("postgresql.conf", "\n".join([*lines, *settings]) + "\n", append=True)
        self._write("pg_hba.conf", "\n".join([*hba_first, "local all all trust", "host all all 127.0.0.1/32 trust",
                                              "local replication all trust",
                                              "host replication all 127.0.0.1/32 trust"]) + "\n")
        for attempt in range(5):
            # Another process may take the port between our look and the server's bind.
            self.port = free_port()
            try:
                self.start()
                return
            except RuntimeError:
                if attempt == 4:
                    raise

    def _write(self, name, text, append=False):
        path = os.path.join(self.data, name)
        with open(path, "a" if append else "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o600)
        account = server_account()
        if account:
            os.chown(path, account["user"], account["group"])

    def start(self):
        """Starts on the same port and data; returns when sessions are taken."""
        if self.process is not None:
            return
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [program("postgres"), "-D", self.data, "-p", str(self.port)], cwd="/", stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env=clean_environment(), process_group=0,
            preexec_fn=None if self._outlive else die_with_parent(signal.SIGQUIT), **server_account())
        log.close()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.process = None
                raise RuntimeError("PostgreSQL does not start: " + self.log()[-3000:])
            try:
                psycopg2.connect(self.socket_uri("postgres"), connect_timeout=2).close()
                return
            except psycopg2.OperationalError:
                time.sleep(0.02)
        raise RuntimeError("PostgreSQL does not answer: " + self.log()[-3000:])

    def stop(self, mode="fast"):
        """`fast` ends sessions and writes a checkpoint; `immediate` is a crash with recovery at the next start."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        self.process.wait()
        self.process = None

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def _signal_all(self, sig):
        """The parent first, so that it starts no new child meanwhile."""
        os.kill(self.process.pid, sig)
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                fields = open(path).read().rsplit(")", 1)[1].split()
                if int(fields[1]) == self.process.pid:
                    os.kill(int(path.split("/")[2]), sig)
            except (OSError, IndexError):
                continue

    def freeze(self):
        """Sockets stay open and nobody answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self):
        self._signal_all(signal.SIGCONT)

    def remove(self):
        if self.process is not None:
            self.thaw()
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as text:
            return text.read()

    def uri(self, database, role="postgres"):
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def socket_uri(self, database, role="postgres"):
        return f"postgresql:///{database}?host={self.directory}&port={self.port}&user={role}"

    def create_database(self, template="template1"):
        """A new database, a copy of `template` (with nobody connected to it), and its URI."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute("postgres", f'CREATE DATABASE {name} TEMPLATE "{template}"')
        return self.uri(name)

    def create_migrated_database(self, migrate):
        """As create_database, with `migrate(uri)` already run; it runs once per cluster and the result is copied."""
        if self._template is None:
            uri = self.create_database()
            migrate(uri)
            self._template = uri.rsplit("/", 1)[1]
        return self.create_database(self._template)

    def execute(self, database, sql, parameters=None):
        """One statement in autocommit, `database` a name or a URI; rows when it returns some."""
        connection = connect(database if "://" in database else self.uri(database))
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def value(self, database, sql, parameters=None):
        return self.execute(database, sql, parameters)[0][0]

    def set(self, name, value):
        """ALTER SYSTEM SET name = value (SQL text, quotes included) and reload."""
        self.execute("postgres", f"ALTER SYSTEM SET {name} = {value}")
        self.execute("postgres", "SELECT pg_reload_conf()")

    def terminate_backends(self, database, where="true"):
        """Ends the sessions of one database that `where` (over pg_stat_activity) names; the number of them."""
        name = database.rsplit("/", 1)[1] if "://" in database else database
        return self.value("postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                      f"WHERE datname = %s AND pid <> pg_backend_pid() AND ({where})", (name,))

    def standby(self, settings=()):
        """A streaming standby of this server, made by pg_basebackup; promote it with `promote()`."""
        directory = _server_directory()
        run([program("pg_basebackup"), "-D", directory + "/base", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres",
             "-R", "-c", "fast", "-X", "stream"], cwd="/", env=clean_environment(), **server_account())
        return Cluster(settings=settings, data_from=directory + "/base", directory=directory)

    def promote(self):
        run([program("pg_ctl"), "promote", "-w", "-D", self.data], cwd="/", env=clean_environment(), **server_account())


def connect(uri, autocommit=True):
    connection = psycopg2.connect(uri)
    connection.autocommit = autocommit
    return connection
