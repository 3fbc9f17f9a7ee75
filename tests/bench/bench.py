"""Measures every row of the table and says what held. Called by run.sh, which builds, installs and takes the lock."""

import argparse
import json
import os
import signal
import ssl
import sys
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "support")]

from outboxtest import run_command  # noqa: E402

from outboxbench import axes_database, axes_drain, axes_quiet, gauges, table  # noqa: E402
from outboxbench.stage import Stage  # noqa: E402

AXES = [*axes_drain.AXES[:3], *axes_quiet.AXES[:2], axes_database.WAL, *axes_drain.AXES[3:5], axes_quiet.LANES, axes_database.APPLICATION, axes_quiet.MEMORY, axes_drain.RELAYS,
        axes_database.MICRO_AXIS]
KEPT = os.path.join(HERE, "results")
QUICK = {"reps": 1, "rows": 4000, "history": 20_000, "backlog": 30_000, "lanes": 200, "seconds": 2.0, "idle": 1.0, "insert_seconds": 2, "memory_seconds": 2.0, "wal_rows": 4000}


def peer(text):
    name, _, command = text.partition("=")
    if not name or not command:
        raise argparse.ArgumentTypeError("want NAME=COMMAND")
    return name, command


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description="Measures outboxd and says which bars hold. Takes about half an hour with the defaults; see tests/bench/README.md.")
    parser.add_argument("--quick", action="store_true", help="small numbers, a minute or two: whether everything works, not how fast it is")
    parser.add_argument("--only", action="append", default=[], choices=[axis.name for axis in AXES], metavar="ROW", help=f"this row alone (repeatable): {' '.join(axis.name for axis in AXES)}")
    parser.add_argument("--peer", action="append", default=[], type=peer, metavar="NAME=COMMAND", help="a contestant to measure beside outboxd (repeatable)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "bench"), metavar="DIR", help="where table.md and latest.json go (default build/bench)")
    parser.add_argument("--keep", action="store_true", help="also keep them in tests/bench/results for later runs to compare with")
    for name, default, text in (("reps", 3, "repetitions"), ("rows", 100_000, "events per drain"), ("history", 5_000_000, "events and attempts kept"), ("backlog", 2_000_000, "events waiting"),
                                ("lanes", 5000, "endpoints of the lanes row"), ("wal-rows", 50_000, "events of the wal row"), ("rate", 200, "events a second of the latency row"),
                                ("seconds", 15.0, "length of the latency row"), ("idle", 20.0, "seconds of idling"), ("insert-seconds", 5, "seconds per INSERT rate"),
                                ("memory-seconds", 10.0, "seconds of draining before memory is read")):
        # Told apart from a given value, so that --quick changes only what was not asked for.
        parser.add_argument(f"--{name}", type=type(default), default=None, metavar="N", help=f"{text} (default {default:,})")
        parser.set_defaults(**{f"{name.replace('-', '_')}_default": default})
    options = parser.parse_args(arguments)
    if options.keep and options.quick:
        parser.error("--quick is for trying; its figures are not worth keeping")
    for name in [n[:-8] for n in vars(options) if n.endswith("_default")]:
        if getattr(options, name) is None:
            setattr(options, name, QUICK.get(name, getattr(options, f"{name}_default")) if options.quick else getattr(options, f"{name}_default"))
        delattr(options, f"{name}_default")
    return options


def log(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def measure(axis, stage, report):
    """All repetitions of one axis; what fails is written down, and the next axis goes on."""
    begun = False
    try:
        log(f"{axis.name}: {axis.title}")
        stage.axis = axis.name
        if axis.begin:
            axis.begin(stage)
        begun = True
        for repetition in range(stage.options.reps):
            values = axis.measure(stage, repetition)
            axis.add(values)
            log(f"{axis.name} {repetition + 1}/{stage.options.reps}: " + ", ".join(f"{key} {value:.4g}" for key, value in values.items() if value is not None))
            report()
    except Exception as error:  # noqa: BLE001
        axis.errors.append(f"{type(error).__name__}: {error}")
        traceback.print_exc()
    finally:
        if begun and axis.end:
            axis.end(stage)
    report()


def main(arguments):
    options = parse(arguments)
    chosen = [axis for axis in AXES if not options.only or axis.name in options.only]
    os.makedirs(options.out, exist_ok=True)
    kept = table.load(os.path.join(KEPT, "latest.json"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stage = Stage(ROOT, options, log)
    about = {"at": time.strftime("%Y-%m-%d %H:%M:%S %Z"), "revision": gauges.revision(ROOT), "machine": gauges.machine(), "peers": [name for name, _ in options.peer],
             "options": {k: v for k, v in vars(options).items() if k not in ("peer", "out", "keep", "only")}, "postgresql_settings": stage.settings(), "disturbed": stage.disturbed,
             "versions": {"outboxd": run_command("version").stdout.split("\n", 1)[0], "postgresql": stage.value("postgres", "SELECT split_part(version(), ' on ', 1)"), "openssl": ssl.OPENSSL_VERSION,
                          "python": sys.version.split()[0]}}

    def report():
        table.write(os.path.join(options.out, "latest.json"), json.dumps(table.results(chosen, about), indent=1) + "\n")
        table.write(os.path.join(options.out, "table.md"), table.document(AXES, table.results(chosen, about), kept))

    try:
        for axis in chosen:
            measure(axis, stage, report)
    finally:
        stage.close()
    found = table.results(chosen, about)
    print(table.document(AXES, found, kept))
    if options.keep:
        os.makedirs(KEPT, exist_ok=True)
        table.write(os.path.join(KEPT, "latest.json"), json.dumps(table.merged(found, kept), indent=1) + "\n")
        table.write(os.path.join(KEPT, "table.md"), table.document(AXES, table.merged(found, kept), kept))
    missed = [f"{axis.name} {figure.key}" for axis in chosen for figure in axis.figures if (entry := axis.summary().get(figure.key)) and figure.holds(entry["median"]) is False]
    log("bars that do not hold: " + (", ".join(missed) or "none"))
    log(f"written: {options.out}/table.md, {options.out}/latest.json")
    return 1 if any(axis.errors for axis in chosen) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
