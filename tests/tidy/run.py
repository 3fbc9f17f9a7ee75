#!/usr/bin/env python3
"""Tests over the source text, the scripts and the packaging. Ends with the line `N passed, N failed`.

tests/tidy/run.py [NAME...] runs the checks whose name contains one of the words.
"""

import fnmatch
import os
import re
import subprocess
import sys
import tomllib

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, HERE)

import packaging_checks  # noqa: E402
import rules  # noqa: E402
import settings_checks  # noqa: E402

TEXT = re.compile(r"(\.(cpp|hpp|py|sh|sql|yaml|yml|md|toml|txt|json|cmake|ini|service|conf|in|html|css|js)|Dockerfile|/run|"
                  r"CMakeLists\.txt)$")
SKIPPED = {"build", ".git", "__pycache__", ".cache", ".pytest_cache", "node_modules"}


def read_files():
    files = {}
    for directory, names, entries in os.walk(ROOT):
        names[:] = [name for name in names if name not in SKIPPED]
        for entry in entries:
            path = os.path.relpath(os.path.join(directory, entry), ROOT)
            if TEXT.search("/" + path):
                with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as text:
                    files[path] = text.read()
    return files


def read_allowed():
    with open(os.path.join(HERE, "allowed.toml"), "rb") as source:
        entries = tomllib.load(source).get("allow", [])
    for entry in entries:
        entry["used"] = False
    return entries


def excused(entries, rule, path, line):
    for entry in entries:
        if entry.get("rule") == rule and fnmatch.fnmatch(path, entry.get("path", "")) and re.search(entry.get("line", ""), line):
            entry["used"] = True
            return True
    return False


def check_rule(rule, files, entries):
    problems = []
    for path, number, what in rule(files):
        line = files[path].split("\n")[number - 1] if number and path in files else what
        if not excused(entries, rule.__name__, path, line):
            problems.append(f"{path}:{number}: {what}" if number else f"{path}: {what}")
    return problems


def check_rules_can_fail():
    """Each rule finds the break in its sample, and nothing in an empty project."""
    problems = []
    for rule in rules.RULES:
        path, text = rules.BROKEN[rule.__name__]
        if not list(rule({path: text})):
            problems.append(f"{rule.__name__} does not see its broken sample")
        if list(rule({})):
            problems.append(f"{rule.__name__} complains about nothing")
    return problems


def check_allowed(entries):
    """Every exception has a reason and a rule, and still excuses something."""
    names = {rule.__name__ for rule in rules.RULES}
    problems = []
    for entry in entries:
        where = f"{entry.get('rule')} {entry.get('path')}"
        if len(entry.get("reason", "")) < 15:
            problems.append(f"{where}: no reason")
        if entry.get("rule") not in names:
            problems.append(f"{where}: no such rule")
        elif not entry["used"] and not entry.get("standing"):
            problems.append(f"{where}: excuses nothing any more")
    return problems


def check_commit_subjects():
    """Subjects of commits are sentences; checkpoints and fixups are not left in the history."""
    if not os.path.isdir(os.path.join(ROOT, ".git")):
        return []
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "log", "--format=%h %s", "-n", "500"],
                          capture_output=True, text=True, check=False)
    problems = []
    for line in done.stdout.splitlines():
        subject = line.partition(" ")[2]
        if re.match(r"(fixup!|squash!|amend!|wip\b|checkpoint\b|temp\b|tmp\b|x$|\.$)", subject, re.IGNORECASE):
            problems.append(line)
    return problems


def check_scripts(files):
    """Shell scripts parse and are executable where they are run by name; shellcheck agrees where it is installed."""
    problems = []
    scripts = [path for path, text in files.items() if re.match(r"#!.*\b(ba)?sh\b", text) and os.path.exists(f"{ROOT}/{path}")]
    for path in sorted(scripts):
        full = os.path.join(ROOT, path)
        parsed = subprocess.run(["bash", "-n", full], capture_output=True, text=True, check=False)
        if parsed.returncode:
            problems.append(f"{path}: {parsed.stderr.strip()}")
        if not os.access(full, os.X_OK):
            problems.append(f"{path}: not executable")
    return problems


def check_python(files):
    """Every Python file compiles."""
    problems = []
    for path, text in sorted(files.items()):
        if path.endswith(".py"):
            try:
                compile(text, path, "exec")
            except SyntaxError as error:
                problems.append(f"{path}:{error.lineno}: {error.msg}")
    return problems


def main():
    files = read_files()
    entries = read_allowed()
    checks = [(rule.__name__, lambda rule=rule: check_rule(rule, files, entries)) for rule in rules.RULES]
    checks += [
        ("rules_can_fail", check_rules_can_fail),
        ("commit_subjects_are_sentences", check_commit_subjects),
        ("scripts_parse", lambda: check_scripts(files)),
        ("python_compiles", lambda: check_python(files)),
    ]
    checks += settings_checks.checks(ROOT, files) + packaging_checks.checks(ROOT, files)
    wanted = sys.argv[1:]
    if not wanted:
        checks.append(("exceptions_have_reasons", lambda: check_allowed(entries)))
    passed = failed = 0
    for name, check in checks:
        if wanted and not any(word in name for word in wanted):
            continue
        problems = check()
        if problems is None:
            print(f"left out  {name}")
            continue
        print(f"{'FAILED' if problems else 'ok'}  {name}")
        for problem in problems[:40]:
            print(f"    {problem}")
        if len(problems) > 40:
            print(f"    and {len(problems) - 40} more")
        failed += bool(problems)
        passed += not problems
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
