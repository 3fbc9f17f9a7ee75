"""pgbouncer in transaction mode in front of a test's database."""

import os
import shutil
import subprocess
import tempfile

import psycopg2

from .cluster import wait_for
from .process import clean_environment, die_with_parent, free_port, server_account


def pooler_program():
    return shutil.which("pgbouncer") or ("/usr/sbin/pgbouncer" if os.path.exists("/usr/sbin/pgbouncer") else None)


class Pooler:
    """`url` leads through it. `pool_size` server sessions for everybody together."""

    def __init__(self, database_uri, pool_size=2):
        role, _, place = database_uri.removeprefix("postgresql://").partition("@")
        address, _, name = place.partition("/")
        self.port = free_port()
        self.url = f"postgresql://{role}@127.0.0.1:{self.port}/{name}"
        self._directory = tempfile.mkdtemp(prefix="outboxd-pool-", dir=os.environ.get("OUTBOXD_TEST_TMP", "/tmp"))
        os.chmod(self._directory, 0o755)
        users, self._ini = os.path.join(self._directory, "users.txt"), os.path.join(self._directory, "pgbouncer.ini")
        with open(users, "w", encoding="utf-8") as out:
            out.write(f'"{role}" ""\n')
        with open(self._ini, "w", encoding="utf-8") as out:
            out.write(f"[databases]\n{name} = host=127.0.0.1 port={address.rpartition(':')[2]}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                      f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
                      f"default_pool_size = {pool_size}\nmax_client_conn = 200\nlogfile = {self._directory}/log\nlog_connections = 0\n")
        account = server_account()
        if account:
            os.chown(self._directory, account["user"], account["group"])
        self._process = None
        self.start()

    def start(self):
        self._process = subprocess.Popen([pooler_program(), "-q", self._ini], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         cwd="/", env=clean_environment(), preexec_fn=die_with_parent(), **server_account())

        def answers():
            try:
                psycopg2.connect(self.url, connect_timeout=2).close()
                return True
            except psycopg2.OperationalError:
                return False
        wait_for(answers, 20, "pgbouncer to answer")

    def stop(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
