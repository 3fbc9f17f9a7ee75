"""Checks that the key table, the sample files and the binary agree about the configuration."""

import os
import re
import subprocess
import tempfile


def keys_of_schema(text):
    """Paths that the table of lib/config/schema.cpp names: rows are like key{"relay.lease", ...}."""
    return re.findall(r'\bkey\{"([a-z_]+(?:\[\])?(?:\.[a-z_]+)+)"', text)


def keys_of_sample(text):
    """Words that stand before a colon in the sample, whether the line is commented out or not."""
    return set(re.findall(r"(?:^|[\s{,#])([a-z_]+):(?=\s|$)", text, re.MULTILINE))


def check_sample_shows_every_key(files):
    """config/outboxd.yaml has a line for every row of the key table."""
    schema = "\n".join(text for path, text in files.items() if re.match(r"lib/config/schema\w*\.(cpp|hpp)$", path))
    sample = files.get("config/outboxd.yaml")
    if not schema or sample is None:
        return None
    shown = keys_of_sample(sample)
    keys = keys_of_schema(schema)
    if len(keys) < 30:
        return [f"only {len(keys)} keys found in lib/config/schema.cpp: has the table another form now?"]
    return [f"{key} is not in config/outboxd.yaml" for key in keys if key.split(".")[-1] not in shown]


def check_samples_are_valid(root):
    """`outboxd check` accepts both samples, so no line of theirs names a key that the table does not have."""
    binary = os.environ.get("OUTBOXD_BIN", f"{root}/build/release/daemon/outboxd")
    if not os.path.exists(binary):
        return None
    problems = []
    environment = {"PATH": "/usr/bin:/bin", "BILLING_SECRET": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                   "OUTBOXD_DATABASE_URL": "postgresql://outboxd@localhost/app"}
    for sample in ("config/outboxd.yaml", "config/outboxd.minimal.yaml"):
        done = subprocess.run([binary, "check", "--config", f"{root}/{sample}"], capture_output=True, text=True, timeout=30,
                              env=environment, check=False)
        if done.returncode:
            problems += [f"{sample}: exit {done.returncode}", *(done.stdout + done.stderr).splitlines()[:20]]
    return problems


def check_unknown_key_is_seen(root):
    """The check above would notice: a sample with one key more is refused."""
    binary = os.environ.get("OUTBOXD_BIN", f"{root}/build/release/daemon/outboxd")
    if not os.path.exists(binary):
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as wrong:
        wrong.write("relay:\n  leese: 60s\n")
        wrong.flush()
        done = subprocess.run([binary, "check", "--config", wrong.name], capture_output=True, text=True, timeout=30, check=False)
    return [] if done.returncode == 78 and "leese" in done.stderr + done.stdout else [f"exit {done.returncode}: {done.stderr}"]


def checks(root, files):
    return [
        ("sample_shows_every_key", lambda: check_sample_shows_every_key(files)),
        ("samples_are_valid", lambda: check_samples_are_valid(root)),
        ("unknown_key_is_seen", lambda: check_unknown_key_is_seen(root)),
    ]
