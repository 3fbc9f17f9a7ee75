"""The rules over the source text: each is a function from the files to the places where it is broken.

`files` maps a path relative to the project's root to its text. A place is (path, line number, what is wrong); line 0
stands for the whole file. tests/tidy/run.py runs them, and proves on small broken samples that each can fail.
"""

import re

FLOORS = {"base": 0, "lifecycle": 1, "wire": 1, "config": 2, "telemetry": 2, "ports": 3, "relay": 4, "postgres": 4,
          "https": 4, "admin": 4}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# A vendor's header -> the files that may include it. No header under lib/ but two that stay private to their folder
# (connection_impl.hpp, openssl_handles.hpp): compile times and rule 9 of the house.
VENDORS = [
    (r"^libpq", r"^(lib/postgres/([\w/]+\.cpp|connection_impl\.hpp))$"),
    (r"^yaml-cpp/", r"^(lib/config/[\w/]+\.cpp)$"),
    (r"^simdjson", r"^(lib/(wire|config|postgres)/[\w/]+\.cpp|daemon/commands/[\w/]+\.cpp)$"),
    (r"^CLI/", r"^(daemon/[\w/]+\.(cpp|hpp))$"),
    (r"^(spdlog|fmt)/", r"^(lib/telemetry/log\.cpp)$"),
    (r"^prometheus/", r"^(lib/telemetry/metrics\.cpp)$"),
    (r"^boost/beast", r"^(lib/(https|admin)/[\w/]+\.cpp)$"),
    (r"^(boost/asio/ssl|openssl/ssl)", r"^(lib/https/[\w/]+\.cpp)$"),
    (r"^openssl/", r"^((lib/(base|wire|https|config|admin)|daemon)/[\w/]+\.cpp|lib/wire/signature/openssl_handles\.hpp)$"),
    (r"^boost/url", r"^(lib/(wire|https)/[\w/]+\.cpp)$"),
    (r"^systemd/", r"^(daemon/[\w/]+\.cpp)$"),
]

METRICS = """attempts_total attempt_duration_seconds first_attempt_latency_seconds deliveries oldest_due_seconds in_flight
in_flight_bytes claim_seconds settle_seconds settle_batch_size rescued_total lease_lost_total circuit_state
circuit_transitions_total connections_opened_total connections_reused_total database_up listening build_info""".split()

SQL = re.compile(r"\b(SELECT\s+[\w*(\"'$]|INSERT\s+INTO\b|UPDATE\s+[\w.\"@]+\s+SET\b|DELETE\s+FROM\b|TRUNCATE\s+\w|"
                 r"(CREATE|ALTER|DROP)\s+(TABLE|SCHEMA|INDEX|FUNCTION|ROLE|VIEW|SEQUENCE)\b|GRANT\s+\w+.*\bTO\b|"
                 r"SET\s+LOCAL\b|\b(UN)?LISTEN\s+[\"\\*]|LOCK\s+TABLE\b)")
TRANSACTION = re.compile(r"^\"(BEGIN|COMMIT|ROLLBACK)\b")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')

FORBIDDEN = [
    (r"\bjobs?\b", "job"),
    (r"(?<!delivery_)(?<!delivery )\btasks?\b(?!_group)", "task"),
    (r"\bqueue[ _-]?items?\b", "queue item"),
    (r"\bdead[ _-]?letters?\b", "dead letter"),
    (r"\bdlq\b", "DLQ"),
    (r"\bconsumers?\b", "consumer"),
    (r"(?<!standard-)(?<!standard )(?<!standard_)\bwebhooks?\b(?!-(id|timestamp|signature|delivery)\b)", "webhook"),
    (r"\b(outbox|event|published|delivered|undelivered) messages?\b|\bmessages? (id|queue|broker|bus)\b|"
     r"\b(send|sends|deliver|publish|claim)(s|es|ing)? (a |the |each |every )?messages?\b", "message (for an event)"),
]


def lines_of(text):
    return enumerate(text.split("\n"), 1)


def code(files, pattern=r"^(lib|daemon)/.*\.(cpp|hpp)$"):
    expression = re.compile(pattern)
    return [(path, text) for path, text in sorted(files.items()) if expression.match(path)]


def room_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "lib" and len(parts) > 2 else None


def includes_go_down(files):
    """A file of lib/ includes only rooms of lower floors and its own; rooms of one floor never see each other."""
    for path, text in code(files, r"^lib/.*\.(cpp|hpp)$"):
        own = room_of(path)
        if own not in FLOORS:
            yield path, 0, f"lib/{own} is no room of the house"
            continue
        for number, line in lines_of(text):
            found = INCLUDE.match(line)
            if not found or found[1] != '"':
                continue
            other = found[2].split("/")[0]
            if "/" not in found[2] or found[2].startswith("."):
                yield path, number, f'include "{found[2]}" names no room: write "<room>/<noun>.hpp"'
            elif other != own and (other not in FLOORS or FLOORS[other] >= FLOORS[own]):
                yield path, number, f"{own} (floor {FLOORS[own]}) must not see {other} ({found[2]})"


def vendors_stay_in_few_files(files):
    """A vendor's heavy header is included by the few .cpp files that are named for it, and by no public header."""
    private = ("connection_impl.hpp", "openssl_handles.hpp")
    for path, text in code(files):
        for number, line in lines_of(text):
            found = INCLUDE.match(line)
            if not found:
                continue
            if path.endswith(".hpp") and found[2].endswith(private):
                yield path, number, f"{found[2]} is for .cpp files alone"
            if path == "daemon/commands/version.cpp":
                continue  # names the versions of all libraries
            for vendor, allowed in VENDORS:
                if re.match(vendor, found[2]):
                    if not re.match(allowed, path):
                        yield path, number, f"<{found[2]}> is not for this file"
                    break


def pure_rooms_have_no_effects(files):
    """lib/lifecycle and lib/wire read no clock, await nothing, log nothing, draw no random number, start no thread."""
    effects = re.compile(r"_clock::now\(|\bco_await\b|\bstd::random_device\b|\brand\(|<boost/asio|<thread>|<mutex>|"
                         r"<iostream>|<fstream>|\bstd::(cerr|cout)\b|\bRAND_bytes\b|\bgetenv\b")
    for path, text in code(files, r"^lib/(lifecycle|wire)/.*\.(cpp|hpp)$"):
        for number, line in lines_of(text):
            if effects.search(line.split("//")[0]):
                yield path, number, "an effect in a pure room: " + line.strip()


def asio_begins_at_the_third_floor(files):
    """lib/base, config and telemetry know nothing of the event loop."""
    for path, text in code(files, r"^lib/(base|config|telemetry)/.*\.(cpp|hpp)$"):
        for number, line in lines_of(text):
            if re.match(r"\s*#\s*include\s*<boost/asio", line):
                yield path, number, "Asio below floor 3"


def sql_stays_in_its_places(files):
    """Statements are written in migrations/ and in the statements files of lib/postgres, nowhere else.

    How a transaction begins and ends is a state of a session, so all of lib/postgres may say that.
    """
    for path, text in code(files):
        if re.match(r"^lib/postgres/(\w+_)?statements\.(cpp|hpp)$", path):
            continue
        for number, line in lines_of(text):
            if line.lstrip().startswith("//"):
                continue
            for literal in STRING.findall(line):
                if SQL.search(literal) or (TRANSACTION.search(literal) and not path.startswith("lib/postgres/")):
                    yield path, number, "a statement outside of statements.*: " + literal[:80]


def words_are_the_contracts(files):
    """One word per thing: the words of contract section 1 that are not used are not used."""
    own = r"^((lib|daemon|config|migrations|systemd|docker)/.*|README\.md|CHANGELOG\.md|quickstart\.sh|tests/(unit|contract|" \
          r"integration|faults|sim|support|sql|system|bench|fuzz)/.*|tests/[\w.]+)$"
    for path, text in code(files, own):
        for number, line in lines_of(text):
            for expression, word in FORBIDDEN:
                if re.search(expression, line, re.IGNORECASE):
                    yield path, number, f"`{word}`: " + line.strip()[:100]


def nothing_is_left_to_do(files):
    """No marks for later, no leftovers of a merge, no code that is commented out by the preprocessor."""
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b|^(<{7}|>{7}|={7})( |$)|^\s*#\s*if\s+0\b")
    for path, text in sorted(files.items()):
        if path.startswith("tests/tidy/"):
            continue
        for number, line in lines_of(text):
            if marks.search(line):
                yield path, number, line.strip()[:100]


def files_are_one_noun(files):
    """400 lines are the limit of a file of code; a longer one wants a reason in allowed.toml."""
    for path, text in code(files, r"^(lib|daemon|tests|migrations)/.*\.(cpp|hpp|py|sh|sql)$"):
        count = text.count("\n")
        if count > 400:
            yield path, 0, f"{count} lines"


def headers_say_what_they_are(files):
    """A header opens with a comment that gives its role; under lib/ also its floor; then comes #pragma once."""
    for path, text in code(files, r"^(lib|daemon|tests)/.*\.hpp$"):
        comment, rest = [], text.split("\n")
        while rest and rest[0].startswith("//"):
            comment.append(rest.pop(0))
        opening = " ".join(comment)
        if len(opening) < 20:
            yield path, 1, "no opening comment with the file's role"
        if not rest or rest[0] != "#pragma once":
            yield path, len(comment) + 1, "no #pragma once after the opening comment"
        room = room_of(path)
        if room in FLOORS and f"Floor {FLOORS[room]}" not in opening:
            yield path, 1, f"the opening comment does not say `Floor {FLOORS[room]}`"


def coroutines_live_in_a_group(files):
    """No detached coroutine but in the task group, and nobody stops the loop: it ends when nothing is left to do."""
    expression = re.compile(r"\bdetached\b|\b(ctx|context|io|ioc|loop|io_context)_?(\.|->)stop\(\)")
    for path, text in code(files):
        if re.search(r"(^|/)task_group\.\w+$", path):
            continue
        for number, line in lines_of(text):
            if expression.search(line.split("//")[0]) and not INCLUDE.match(line):
                yield path, number, line.strip()[:100]


def environment_is_read_in_one_place(files):
    """getenv under lib/ is for the configuration alone."""
    for path, text in code(files, r"^lib/(?!config/).*\.(cpp|hpp)$"):
        for number, line in lines_of(text):
            if re.search(r"\b(secure_)?getenv\b|\benviron\b", line.split("//")[0]):
                yield path, number, line.strip()[:100]


def metrics_are_the_contracts(files):
    """The names in lib/telemetry are those of contract section 7."""
    path = "lib/telemetry/metric_names.hpp"
    if path not in files:
        return
    found = {}
    for number, line in lines_of(files[path]):
        for name in re.findall(r'"outboxd_(\w+)"', line):
            found[name] = number
    for name in METRICS:
        if name not in found:
            yield path, 0, f"outboxd_{name} is missing"
    for name, number in found.items():
        if name not in METRICS:
            yield path, number, f"outboxd_{name} is not in the contract"


def nothing_of_the_workplace(files):
    """No path of the machine that this was written on."""
    for path, text in sorted(files.items()):
        if path.startswith("tests/tidy/"):
            continue
        for number, line in lines_of(text):
            if re.search("/wor" + r"k/(main|shared)|/tmp/(spec|build-)|\bsub" + r"agents?\b", line):
                yield path, number, line.strip()[:100]


def unit_tests_mirror_the_rooms(files):
    """tests/unit/<room>/ for a room of lib/, and nothing else."""
    for path, _ in code(files, r"^tests/unit/.*"):
        parts = path.split("/")
        if len(parts) > 3 and parts[2] not in FLOORS:
            yield path, 0, f"lib/{parts[2]} is no room of the house"


def control_flow_is_written_out(files):
    """g++ 12 mishandles lambdas that are coroutines: a lambda never returns an awaitable."""
    expression = re.compile(r"\]\s*(\([^)]*\))?\s*(mutable\s*)?(noexcept\s*)?->\s*(boost::)?(asio::)?awaitable<")
    for path, text in code(files):
        for number, line in lines_of(text):
            if expression.search(line.split("//")[0]):
                yield path, number, line.strip()[:100]


RULES = [includes_go_down, vendors_stay_in_few_files, pure_rooms_have_no_effects, asio_begins_at_the_third_floor,
         sql_stays_in_its_places, words_are_the_contracts, nothing_is_left_to_do, files_are_one_noun,
         headers_say_what_they_are, coroutines_live_in_a_group, environment_is_read_in_one_place,
         metrics_are_the_contracts, nothing_of_the_workplace, unit_tests_mirror_the_rooms, control_flow_is_written_out]

# For each rule a file that breaks it: a rule that finds nothing here could find nothing anywhere.
BROKEN = {
    "includes_go_down": ("lib/wire/a.cpp", '#include "lifecycle/outcome.hpp"\n'),
    "vendors_stay_in_few_files": ("lib/https/a.hpp", "#include <boost/beast/core.hpp>\n"),
    "pure_rooms_have_no_effects": ("lib/lifecycle/a.cpp", "auto now = std::chrono::system_clock::now();\n"),
    "asio_begins_at_the_third_floor": ("lib/base/a.hpp", "#include <boost/asio/awaitable.hpp>\n"),
    "sql_stays_in_its_places": ("lib/relay/a.cpp", 'run("SELECT 1");\n'),
    "words_are_the_contracts": ("lib/relay/a.cpp", "// the next job\n"),
    "nothing_is_left_to_do": ("lib/base/a.cpp", "// TODO later\n"),
    "files_are_one_noun": ("lib/base/a.cpp", "\n" * 401),
    "headers_say_what_they_are": ("lib/base/a.hpp", "// Errors as values, and nothing more. Floor 1.\n#pragma once\n"),
    "coroutines_live_in_a_group": ("lib/relay/a.cpp", "co_spawn(ctx, f(), asio::detached);\n"),
    "environment_is_read_in_one_place": ("lib/base/a.cpp", 'std::getenv("HOME");\n'),
    "metrics_are_the_contracts": ("lib/telemetry/metric_names.hpp", '"outboxd_surprise"\n'),
    "nothing_of_the_workplace": ("README.md", "see /wor" + "k/main/x\n"),
    "unit_tests_mirror_the_rooms": ("tests/unit/attic/a.cpp", "\n"),
    "control_flow_is_written_out": ("lib/relay/a.cpp", "auto f = [x]() -> asio::awaitable<void> { co_return; };\n"),
}
