"""Checks of systemd/ and docker/: the real tools where they exist, the text where they do not."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

MAXIMUM_EXPOSURE = 2.0


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)\s*(s|min|ms)?", text.strip()).groups()
    return int(number) * {"s": 1, None: 1, "min": 60, "ms": 0.001}[unit]


def check_unit_is_accepted(root):
    """`systemd-analyze verify` has nothing to say about the unit, with a program in the place of the installed one."""
    if not shutil.which("systemd-analyze"):
        return None
    with tempfile.TemporaryDirectory(prefix="outboxd-unit-") as directory:
        unit = os.path.join(directory, "outboxd.service")
        with open(f"{root}/systemd/outboxd.service", encoding="utf-8") as source, open(unit, "w", encoding="utf-8") as out:
            out.write(source.read().replace("/usr/bin/outboxd", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False,
                              env={**os.environ, "SYSTEMD_LOG_COLOR": "0"})
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "outboxd.service" in line or done.returncode]
    return lines or ([f"exit {done.returncode}"] if done.returncode else [])


def check_unit_is_hardened(root):
    """`systemd-analyze security` gives an exposure of at most 2.0."""
    if not shutil.which("systemd-analyze"):
        return None
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"{root}/systemd/outboxd.service"],
                          capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for outboxd\.service: ([\d.]+)", done.stdout)
    if not found:
        return [f"no exposure in: {done.stdout[-300:]}{done.stderr[-300:]}"]
    return [f"exposure {found[1]}"] if float(found[1]) > MAXIMUM_EXPOSURE else []


def check_unit_says_what_the_contract_says(root):
    """Type=notify, a watchdog, HUP for reload, time to drain, and no start limit that a slow database could meet."""
    settings = {}
    with open(f"{root}/systemd/outboxd.service", encoding="utf-8") as unit:
        for line in unit:
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                settings.setdefault(name, []).append(value)
    problems = []
    for name, value in {"Type": "notify", "Restart": "always", "StartLimitIntervalSec": "0", "User": "outboxd",
                        "NoNewPrivileges": "yes", "TimeoutStartSec": "infinity"}.items():
        if settings.get(name) != [value]:
            problems.append(f"{name} is {settings.get(name)}, not {value}")
    if "-HUP $MAINPID" not in settings.get("ExecReload", [""])[0]:
        problems.append("ExecReload sends no HUP")
    if set(settings.get("RestartPreventExitStatus", [""])[0].split()) != {"2", "78"}:
        problems.append("a wrong configuration is restarted for ever")
    if seconds(settings["TimeoutStopSec"][0]) <= 30:
        problems.append("TimeoutStopSec is not above the drain time of 30 s")
    if not 5 <= seconds(settings["WatchdogSec"][0]) <= 120:
        problems.append("WatchdogSec is out of reason")
    return problems


def instructions(text):
    """A Dockerfile as (instruction, rest) pairs, continued lines joined, comments left out."""
    kept = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    for line in kept.replace("\\\n", " ").split("\n"):
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def check_dockerfiles(root, files):
    """Two stages on Debian slim, an account of its own, the daemon as process 1, and nothing that old builders refuse."""
    problems = []
    for path in [p for p in files if p.startswith("docker/") and p.endswith("Dockerfile")]:
        steps = list(instructions(files[path]))
        names = [name for name, _ in steps]

        def wrong(text, where=path):
            problems.append(f"{where}: {text}")

        if "<<" in files[path] or "--link" in files[path]:
            wrong("a here-document or COPY --link")
        for name, rest in steps:
            if name == "FROM" and not rest.startswith("debian:bookworm-slim"):
                wrong(f"FROM {rest}")
            if name == "RUN" and "apt-get install" in rest and \
                    ("--no-install-recommends" not in rest or "rm -rf /var/lib/apt/lists" not in rest):
                wrong("apt-get install leaves recommends or lists")
            if name == "COPY" and not rest.startswith("--from="):
                for source in rest.split()[:-1]:
                    if not os.path.exists(os.path.join(root, source)):
                        wrong(f"COPY of {source}, which does not exist")
        last = len(names) - 1 - names[::-1].index("FROM")
        final = dict(steps[last:])
        for name in ("USER", "ENTRYPOINT", "HEALTHCHECK"):
            if name not in final:
                wrong(f"no {name} in the last stage")
        if final.get("USER", "0").split(":")[0] in ("0", "root"):
            wrong("runs as root")
        for name in ("ENTRYPOINT", "CMD"):
            if name in final and not isinstance(json.loads(final[name]), list):
                wrong(f"{name} is not in exec form")
        health = final.get("HEALTHCHECK", "")
        if not isinstance(json.loads(health[health.index("["):]), list):
            wrong("HEALTHCHECK is not in exec form")
        if path == "docker/Dockerfile":
            if names.count("FROM") != 2:
                wrong("not two stages")
            if json.loads(final["ENTRYPOINT"]) != ["/usr/bin/outboxd"]:
                wrong("process 1 is not outboxd")
    return problems


def check_image_has_the_libraries(root, files):
    """Every shared library of the built binary is in a package that the last stage installs, or in Debian's base."""
    binary = f"{root}/build/release/daemon/outboxd"
    if not os.path.exists(binary) or not shutil.which("dpkg-query"):
        return None
    last = files["docker/Dockerfile"].rsplit("\nFROM ", 1)[1]
    needed = subprocess.run(["objdump", "-p", binary], capture_output=True, text=True, check=False).stdout
    problems = []
    for library in re.findall(r"NEEDED\s+(\S+)", needed):
        paths = [p for d in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
                 for p in glob.glob(f"{d}/{library}")]
        owner = subprocess.run(["dpkg-query", "-S", *paths[:1]], capture_output=True, text=True, check=False).stdout if paths else ""
        package = owner.split(":")[0].split(",")[0]
        if package and package not in ("libc6", "libgcc-s1", "libstdc++6") and not re.search(rf"\s{re.escape(package)}\s", last):
            problems.append(f"{library} is in {package}, which the image does not install")
    return problems


def check_installation(root):
    """`cmake --install` puts binary, configuration and unit where Debian wants them, and keeps an operator's file."""
    build = f"{root}/build/release"
    if not os.path.exists(f"{build}/daemon/outboxd") or not shutil.which("cmake"):
        return None
    problems = []
    for prefix, etc in (("/usr", "/etc"), ("/opt/outboxd", "/opt/outboxd/etc")):
        with tempfile.TemporaryDirectory(prefix="outboxd-install-") as stage:
            install = ["cmake", "--install", build, "--prefix", prefix]
            for _ in range(2):
                done = subprocess.run(install, capture_output=True, text=True, check=False, env={**os.environ, "DESTDIR": stage})
                config = f"{stage}{etc}/outboxd/outboxd.yaml"
                if done.returncode or not os.path.exists(config):
                    return problems + [f"{prefix}: {done.stdout[-500:]}{done.stderr[-500:]}"]
                with open(config, "a", encoding="utf-8") as mine:
                    mine.write("# mine\n")
            if not open(config, encoding="utf-8").read().endswith("# mine\n# mine\n"):
                problems.append(f"{prefix}: an operator's configuration was overwritten")
            unit = f"{stage}{prefix}/lib/systemd/system/outboxd.service"
            if not os.access(f"{stage}{prefix}/bin/outboxd", os.X_OK):
                problems.append(f"{prefix}: no binary")
            start = f"ExecStart={prefix}/bin/outboxd run --config {etc}/outboxd/outboxd.yaml"
            if not os.path.exists(unit) or start not in open(unit, encoding="utf-8").read():
                problems.append(f"{prefix}: no unit that starts the installed binary with the installed configuration")
    return problems


def check_compose(root, files):
    """Database, relay and receiver; each start waits for health; secrets are files; what is mounted exists."""
    text = files["docker/compose.yaml"]
    problems = []
    for service in ("database", "relay", "receiver", "migrate"):
        if not re.search(rf"^  {service}:$", text, re.MULTILINE):
            problems.append(f"no service {service}")
    for part in ("condition: service_healthy", "condition: service_completed_successfully", "read_only: true",
                 "stop_grace_period: 45s", "no-new-privileges:true", "cap_drop: [ALL]", "/run/secrets/"):
        if part not in text:
            problems.append(f"nowhere `{part}`")
    if re.search(r"(PASSWORD|SECRET|TOKEN)\w*:\s*['\"]?[^\s/'\"]", text):
        problems.append("a secret as a literal")
    for source in re.findall(r"- (\./[\w.-]+):", text):
        if not os.path.exists(os.path.join(root, "docker", source)):
            problems.append(f"{source} is mounted and does not exist")
    declared = set(re.findall(r"^  (\w+): \{ file: \./secrets/\1 \}$", text, re.MULTILINE))
    used = {name for group in re.findall(r"secrets: \[([^\]]*)\]", text) for name in group.replace(" ", "").split(",")}
    if declared != used:
        problems.append(f"secrets declared {sorted(declared)}, used {sorted(used)}")
    made = set(re.findall(r"^write_once (\w+)", files["docker/make-secrets.sh"], re.MULTILINE))
    if not declared <= made:
        problems.append(f"docker/make-secrets.sh does not make {sorted(declared - made)}")
    return problems


def checks(root, files):
    return [
        ("unit_is_accepted", lambda: check_unit_is_accepted(root)),
        ("unit_is_hardened", lambda: check_unit_is_hardened(root)),
        ("unit_says_what_the_contract_says", lambda: check_unit_says_what_the_contract_says(root)),
        ("dockerfiles", lambda: check_dockerfiles(root, files)),
        ("image_has_the_libraries", lambda: check_image_has_the_libraries(root, files)),
        ("installation", lambda: check_installation(root)),
        ("compose", lambda: check_compose(root, files)),
    ]
