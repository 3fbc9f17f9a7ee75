"""Starting children that end when we do, and the accounts that they run under."""

import ctypes
import os
import pwd
import signal
import socket
import subprocess

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(sig=signal.SIGKILL):
    """For `preexec_fn`: the kernel sends `sig` to the child when the thread that started it ends."""

    def before_exec():
        _libc.prctl(PR_SET_PDEATHSIG, int(sig))

    return before_exec


def server_account():
    """PostgreSQL refuses to run as root: keyword arguments that hand a child to `postgres`, or none."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    groups = os.getgrouplist("postgres", entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


def clean_environment(**more):
    """English messages and no preloaded libraries, whatever the machine has set."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LANGUAGE") and not k.startswith("PG")}
    environment.update(LC_ALL="C", LANG="C")
    environment.update(more)
    return environment


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(arguments, **options):
    """Runs to the end; RuntimeError with the output when it fails."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments[0]} ended with {done.returncode}: {done.stdout[-3000:]}")
    return done.stdout
