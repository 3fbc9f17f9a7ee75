"""What /proc tells: CPU time and memory of processes and their descendants, and what the rest of the machine did meanwhile."""

import glob
import os
import platform
import re
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return ""


def _fields(pid):
    """/proc/PID/stat behind the name: [0] is the state, [11] and [12] own ticks, [13] and [14] those of children that are gone."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def descendants(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/t*k/*/children"):
        for child in _read(path).split():
            found += [int(child), *descendants(int(child))]
    return found


def _own_cpu(pid):
    """Seconds of all threads. schedstat counts nanoseconds where the kernel offers it, stat only ticks."""
    threads = [_read(path).split() for path in glob.glob(f"/proc/{pid}/t*k/*/schedstat")]
    if threads and all(threads):
        return sum(int(t[0]) for t in threads) / 1e9
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICK if fields else 0.0


def cpu(pid):
    """Seconds of a process, its descendants, and the children that it has buried."""
    total = 0.0
    for one in [pid, *descendants(pid)]:
        fields = _fields(one)
        if fields:
            total += _own_cpu(one) + (int(fields[13]) + int(fields[14])) / TICK
    return total


def peak_mib(pid):
    """VmHWM, summed over a process and its descendants."""
    total = 0
    for one in [pid, *descendants(pid)]:
        found = re.search(r"^VmHWM:\s+(\d+)", _read(f"/proc/{one}/status"), re.MULTILINE)
        total += int(found[1]) if found else 0
    return total / 1024


def machine_cpu():
    """Seconds in which any core worked, since boot."""
    ticks = [int(value) for value in _read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICK


class Meter:
    """CPU seconds of groups of processes between two moments. `other` is what neither they nor we used: a disturbed measurement has much of it."""

    def __init__(self, **groups):
        self._groups = groups  # name -> list of pids
        self._began = self._read()

    def _read(self):
        seconds = {name: sum(cpu(pid) for pid in pids) for name, pids in self._groups.items()}
        own = os.times()
        seconds["other"] = machine_cpu() - sum(seconds.values()) - own.user - own.system
        seconds["wall"] = time.monotonic()
        return seconds

    def used(self):
        now = self._read()
        return {name: max(0.0, now[name] - before) for name, before in self._began.items()}


def machine():
    """What a reader needs in order to compare: processor, cores, memory, kernel."""
    model = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    return {"processor": model[1] if model else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(memory[1]) / 1048576, 1) if memory else None, "kernel": platform.release(), "system": _system()}


def _system():
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"), re.MULTILINE)
    return found[1] if found else platform.system()


def revision(root):
    done = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
