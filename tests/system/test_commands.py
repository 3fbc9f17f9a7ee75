"""Every command of the real binary: what it prints and where, its exit code, and that no secret comes out."""

import json
import os
import re
import signal
import subprocess
import time

import psycopg2
import pytest

from outboxtest import Receiver, binary_path, run_command, wait_for
from outboxtest.daemon import daemon_environment, write_config

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
EGRESS = {"allow": ["127.0.0.0/8", "::1"], "allow_http": True}
UNSIGNED = {"signing": "none", "retry": {"schedule": ["1h"] * 3, "jitter": 0}}

COMMANDS = ["run", "drain", "migrate", "check", "status", "why", "event list", "event show", "delivery list", "delivery show",
            "delivery retry", "delivery cancel", "delivery unblock", "replay", "endpoint list", "endpoint show", "endpoint add",
            "endpoint set", "endpoint enable", "endpoint disable", "endpoint pause", "endpoint resume", "endpoint remove",
            "endpoint rotate-secret", "endpoint test", "purge", "keygen", "sign", "verify", "version"]


def run(uri, *arguments, more=None, **options):
    return run_command(*arguments, config={"database": {"url": uri}, "egress": EGRESS, **(more or {})}, **options)


def good(uri, *arguments, **options):
    done = run(uri, *arguments, **options)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def document(uri, *arguments, code=0, **options):
    """One JSON document on stdout, and nothing else there."""
    done = run(uri, *arguments, "--json", **options)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


# The line itself ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words, text", [
    ([], "Usage: outboxd COMMAND"),
    (["statsu"], "did you mean 'status'?"),
    (["endpoint", "ad", "x"], "did you mean 'add'?"),
    (["endpoint"], "wants one of: list, show"),
    (["--json", "status"], "commands come first, flags after"),
    (["status", "--jsno"], "did you mean '--json'?"),
    (["status", "--wacth"], "did you mean '--watch'?"),
    (["status", "--config"], "--config wants a value"),
    (["status", "--config", "--json"], "--config wants a value"),
    (["status", "--config", "a", "--config", "b"], "--config is given 2 times"),
    (["status", "--config=a", "--config=b"], "--config is given 2 times"),
    (["status", "extra"], "takes no operands"),
    (["status", "--json=1"], "--json"),
    (["why"], "'why' wants EVENT_ID"),
    (["why", "a", "b"], "does not take 'b'"),
    (["endpoint", "add", "x"], "'endpoint add' wants URL"),
    (["drain", "--max-passes", "0"], "whole number from 1"),
    (["drain", "--timeout", "5"], "--timeout"),
    (["event", "list", "--since", "yesterday"], "--since wants a time"),
    (["event", "list", "--status", "publishd"], "did you mean `published`?"),
    (["delivery", "show", "abc"], "named by its number"),
    (["replay"], "at least one of"),
    (["replay", "1", "--type", "x"], "--type selects events"),
    (["replay", "1", "--rate", "5"], "--rate wants a rate"),
    (["keygen", "--type", "rsa"], "hmac or ed25519"),
    (["sign", "--scheme", "md5"], "--scheme wants"),
])
def test_B59_a_wrong_line_is_a_usage_error_that_names_the_way_out(words, text):
    done = run_command(*words)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    done = run_command(*command.split(), "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert f"Usage: outboxd {command}" in done.stdout
    assert f"Examples:\n  " in done.stdout and f"outboxd {command}" in done.stdout.split("Examples:")[1]
    assert run_command("help", *command.split()).stdout == done.stdout


def test_the_overview_names_every_command():
    done = run_command("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout
    assert run_command("endpoint", "--help").returncode == 0


def test_version_names_revision_and_libraries():
    assert re.match(r"outboxd \d+\.\d+\.\d+ \(revision [0-9a-z]+\)", run_command("version").stdout)
    assert set(json.loads(run_command("version", "--json").stdout)["libraries"]) >= {"boost", "libpq", "openssl"}
    assert run_command("--version").stdout == run_command("version").stdout


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        assert subprocess.run([binary_path(), "version"], stdout=full, stderr=subprocess.PIPE, check=False).returncode == 1


def test_exit_codes_tell_database_and_configuration_apart(tmp_path, empty_database):
    assert run("postgresql://u@127.0.0.1:1/x", "status").returncode == 69
    assert run(empty_database + "_none", "status").returncode == 69
    assert run_command("status", config="databse: {}").returncode == 78
    assert run_command("status", "--config", str(tmp_path / "none.yaml")).returncode == 78
    without_schema = run(empty_database, "status")
    assert without_schema.returncode == 1 and "migrate" in without_schema.stderr


def test_the_database_comes_from_flag_before_variable_before_file(database):
    nowhere = "postgresql://u@127.0.0.1:1/x"
    config = {"database": {"url": nowhere}}
    assert run_command("status", config=config).returncode == 69
    assert run_command("status", config=config, env={"OUTBOXD_DATABASE_URL": database}).returncode == 0
    assert run_command("status", "--database", nowhere, config=config, env={"OUTBOXD_DATABASE_URL": database}).returncode == 69
    assert run_command("status", "--database", database, config={"database": {"url": nowhere}}).returncode == 0
    # No --config and no default file: the variable is enough.
    if not os.path.exists("/etc/outboxd/outboxd.yaml"):
        assert run_command("status", env={"OUTBOXD_DATABASE_URL": database}).returncode == 0
        assert run_command("status").returncode == 78


# Secrets -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("url", [
    "postgresql://u:k^T$Z/w@h/db", "postgresql://u:pa55-word@127.0.0.1:1/x", "host=127.0.0.1 port=1 user=u password=pa55-word",
    "postgresql://u:pa55-word@127.0.0.1:x/y", "password='pa55-word", "postgresql://u:pa55-word@[::1/x"])
def test_B46_a_connection_string_never_shows_its_password(url):
    for arguments in (["status"], ["status", "--json"], ["check", "--connect"], ["check", "--connect", "--json"], ["migrate"]):
        done = run_command(*arguments, config={"database": {"url": url}})
        assert done.returncode in (69, 78), (arguments, done)
        for secret in ("k^T$Z", "pa55-word"):
            assert secret not in done.stdout + done.stderr
    done = run_command("status", "--database", url)
    assert "k^T$Z" not in done.stderr and "pa55-word" not in done.stderr
    if "127.0.0.1:1" in url:
        assert "127.0.0.1" in done.stderr and "u" in done.stderr


def test_B46_the_process_list_shows_no_password(database):
    with_password = database.replace("postgres@", "postgres:pa55-word@")
    child = subprocess.Popen([binary_path(), "status", "--watch", "--interval", "1s", "--database", with_password], env=daemon_environment(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        child.stdout.readline()
        with open(f"/proc/{child.pid}/cmdline", "rb") as line:
            shown = line.read()
        assert b"pa55-word" not in shown and b"--database" in shown
    finally:
        child.send_signal(signal.SIGINT)
        output = child.communicate(timeout=20)
    assert child.returncode == 0
    assert "pa55-word" not in "".join(output)


def test_B46_check_and_endpoint_commands_show_no_secret(database, monkeypatch):
    config = {"defaults": {"secrets": [OLD_SECRET]}, "admin": {"token": "admin-token-1"},
              "endpoints": [{"name": "a", "url": "https://a.example/?token=url-token", "secrets": [{"env": "A_SECRET"}],
                             "headers": {"Authorization": "Bearer header-secret"}}]}
    env = {"A_SECRET": SECRET}
    texts = []
    for arguments in (["check"], ["check", "--json"], ["migrate"], ["migrate", "--json"], ["endpoint", "list"], ["endpoint", "list", "--json"],
                      ["endpoint", "show", "a"], ["endpoint", "show", "a", "--json"], ["status", "--json"]):
        done = run(database, *arguments, more=config, env=env)
        assert done.returncode == 0, done
        texts.append(done.stdout + done.stderr)
    for secret in (SECRET[6:], OLD_SECRET[6:], "admin-token-1", "url-token", "header-secret"):
        assert not any(secret in text for text in texts), secret


def test_B46_a_bad_secret_is_refused_without_being_shown(database, tmp_path):
    (tmp_path / "bad").write_text("not-base64-pa55-word!\n")
    done = run(database, "endpoint", "add", "x", "https://x.example/", "--secret-file", tmp_path / "bad")
    assert done.returncode == 1
    assert "pa55-word" not in done.stdout + done.stderr
    done = run_command("check", config={"defaults": {"secrets": ["pa55-word!"]}})
    assert done.returncode == 78 and "pa55-word" not in done.stdout + done.stderr


# check -------------------------------------------------------------------------------------------------------------

def test_B59_check_reports_five_mistakes_of_one_file_at_once(tmp_path):
    path = tmp_path / "outboxd.yaml"
    path.write_text("relay:\n  clam_batch: 256\n  lease: soon\nendponts: []\negress:\n  allow_http: ture\ndefaults:\n  signing: md5\n  retries: 3\n")
    done = run_command("check", "--config", path)
    assert done.returncode == 78
    for line, key, near in ((2, "clam_batch", "claim_batch"), (3, "lease", ""), (4, "endponts", "endpoints"), (6, "allow_http", ""), (8, "signing", ""), (9, "retries", "")):
        found = [text for text in done.stderr.splitlines() if f"outboxd.yaml:{line}:" in text]
        assert found and key in found[0] and near in found[0], (line, done.stderr)
    report = json.loads(run_command("check", "--json", "--config", path).stdout)
    assert not report["ok"] and {p["line"] for p in report["problems"]} >= {2, 3, 4, 6, 8, 9}
    assert run_command("status", "--config", path).returncode == 78
    assert run_command("run", "--config", path).returncode == 78


def test_B59_a_misspelt_variable_of_ours_is_an_error():
    done = run_command("check", config={}, env={"OUTBOXD_DATABSE_URL": "postgresql://x/y"})
    assert done.returncode == 78 and "OUTBOXD_DATABASE_URL" in done.stderr
    # What a container platform sets, and what the file itself reads, is none.
    assert run_command("check", config={}, env={"OUTBOXD_PORT": "tcp://10.0.0.1:80", "OUTBOXD_SERVICE_HOST": "10.0.0.1"}).returncode == 0


def test_B61_dollar_signs_survive_and_an_unset_variable_stops_the_start():
    for text in ("kq$mnp@rt", "Tr7$HOME-x", "$$", "a: b", "x #y", "!abc", 'q"q'):
        assert run_command("check", config={"admin": {"token": text}}).returncode == 0, text
        assert run_command("check", config={"admin": {"token": {"env": "T"}}}, env={"T": text}).returncode == 0, text
    done = run_command("check", config={"admin": {"token": "${OUTBOX_UNSET}"}})
    assert done.returncode == 78 and "OUTBOX_UNSET" in done.stderr
    done = run_command("check", config={"admin": {"token": {"env": "OUTBOX_UNSET"}}}, env={"OUTBOX_UNSET": ""})
    assert done.returncode == 78 and "OUTBOX_UNSET" in done.stderr


def test_check_connect_tries_everything_and_says_what_fails(database, ca, https_receiver):
    endpoints = [{"name": "good", "url": https_receiver.url("/ok"), "secrets": [SECRET]},
                 {"name": "refused", "url": "https://127.0.0.1:1/", "secrets": [SECRET]},
                 {"name": "nowhere", "url": "https://no-such-host.invalid/", "secrets": [SECRET]}]
    more = {"tls": {"ca_file": ca.path}, "endpoints": endpoints}
    report = document(database, "check", "--connect", more=more, code=1)
    said = {one["what"]: one for one in report["connect"]}
    assert said["database"]["ok"] and said["endpoint good"]["ok"], said
    assert "tls" in said["endpoint good"]["text"]
    assert not said["endpoint refused"]["ok"] and said["endpoint refused"]["text"].startswith("connect:")
    assert not said["endpoint nowhere"]["ok"] and said["endpoint nowhere"]["text"].startswith("dns:")
    untrusted = document(database, "check", "--connect", more={"endpoints": endpoints[:1]}, code=1)
    assert untrusted["connect"][1]["text"].startswith("tls:")
    assert https_receiver.snapshot() == []
    assert run("postgresql://u@127.0.0.1:1/x", "check", "--connect").returncode == 69


# migrate -----------------------------------------------------------------------------------------------------------

def test_migrate_is_idempotent_and_shows_its_state(empty_database):
    before = document(empty_database, "migrate", "--status")
    assert before and not any(m["applied"] for m in before)
    first = document(empty_database, "migrate")
    assert len(first["applied"]) == len(before)
    assert document(empty_database, "migrate")["applied"] == []
    assert all(m["applied"] for m in document(empty_database, "migrate", "--status"))


def test_what_migrate_prints_is_what_it_applies(empty_database):
    text = good(empty_database, "migrate", "--print")
    subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty_database, "-f", "-"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    assert document(empty_database, "migrate")["applied"] == []
    assert run("postgresql://u@127.0.0.1:1/x", "migrate", "--print").returncode == 0


def test_a_granted_writer_may_insert_events_and_nothing_else(cluster, empty_database):
    role = "writer_" + empty_database.rsplit("/", 1)[1].replace("-", "_")
    cluster.execute("postgres", f'CREATE ROLE "{role}" LOGIN')
    assert document(empty_database, "migrate", "--grant-writer", role)["writer"] == role
    connection = psycopg2.connect(empty_database.replace("postgres@", role + "@"))
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('t', '{}') RETURNING id, event_id")
    assert cursor.fetchone()[0] == 1
    for refused in ("SELECT payload FROM outbox.event", "DELETE FROM outbox.event", "SELECT * FROM outbox.delivery", "SELECT * FROM outbox.endpoint_secret"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(refused)


def test_an_unknown_writer_is_refused_before_anything_is_migrated(cluster, empty_database):
    refused = run(empty_database, "migrate", "--grant-writer", "no_such_role")
    assert refused.returncode == 1 and "role no_such_role does not exist: create it first" in refused.stderr, refused
    assert not any(m["applied"] for m in document(empty_database, "migrate", "--status"))


def test_check_says_whether_the_role_may_migrate(cluster, empty_database):
    role = "reader_" + empty_database.rsplit("/", 1)[1].replace("-", "_")
    cluster.execute("postgres", f'CREATE ROLE "{role}" LOGIN')
    said = good(empty_database.replace("postgres@", role + "@"), "check", "--connect")
    assert "run 'outboxd migrate', as a role that may create (GRANT CREATE ON DATABASE)" in said
    assert "as a role" not in good(empty_database, "check", "--connect")


def test_commands_that_only_need_the_database_do_without_the_secrets_of_the_service(database):
    more = {"admin": {"token": {"env": "NOT_IN_THIS_SHELL"}},
            "endpoints": [{"name": "a", "url": "https://a.example/", "secrets": [{"env": "NOT_IN_THIS_SHELL"}]}]}
    for command in (["status"], ["event", "list"], ["endpoint", "list"], ["delivery", "list"]):
        good(database, *command, more=more)
    for command in (["run"], ["check"], ["migrate"]):
        refused = run(database, *command, more=more)
        assert refused.returncode == 78 and "NOT_IN_THIS_SHELL is not set" in refused.stderr, refused


# What there is -----------------------------------------------------------------------------------------------------

def insert(cluster, database, event_type="t", **columns):
    names, values = ["event_type", "payload"] + list(columns), [event_type, '{"n": 1.0}'] + list(columns.values())
    return cluster.value(database, f"INSERT INTO outbox.event ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))}) RETURNING id", values)


def test_status_reads_the_database_alone_and_knows_relays(cluster, database, relays):
    insert(cluster, database)
    report = document(database, "status")
    assert report["deliveries"]["unrouted"] == 1 and report["relays"] == []
    assert "no relay is running" in good(database, "status")
    relays()
    report = document(database, "status")
    assert len(report["relays"]) == 1 and report["relays"][0]["alive"]


def test_why_answers_by_public_id_and_number_and_fails_for_unknown(cluster, database):
    number = insert(cluster, database, event_id="evt_1")
    assert good(database, "why", "evt_1") == good(database, "why", number)
    assert document(database, "why", "evt_1")[0]["cause"] == "unrouted"
    done = run(database, "why", "nothing")
    assert done.returncode == 1 and done.stdout == "" and "nothing" in done.stderr


def test_an_event_is_shown_with_deliveries_attempts_and_exact_body(cluster, database, receiver):
    good(database, "endpoint", "add", "a", receiver.url("/status/503"), "--set", "signing=none")
    number = insert(cluster, database, event_id="evt_1", headers='{"X-Token": "header-secret"}')
    assert run(database, "drain", "--max-passes", "1").returncode == 3
    shown = document(database, "event", "show", "evt_1")
    assert shown["deliveries"][0]["status"] == "retrying" and shown["attempts"][0]["http_status"] == 503
    assert shown["headers"] == ["X-Token"]
    assert "header-secret" not in json.dumps(shown)
    assert good(database, "event", "show", number, "--body") == '{"n": 1.0}'
    assert [e["event_id"] for e in document(database, "event", "list", "--type", "t", "--endpoint", "a")] == ["evt_1"]
    assert document(database, "event", "list", "--since", "2099-01-01") == []
    delivery = document(database, "delivery", "list")[0]
    assert document(database, "delivery", "show", delivery["id"])["attempts"][0]["outcome"] == "retried"
    assert good(database, "delivery", "retry", delivery["id"]) == f"delivery {delivery['id']}: due now\n"
    both = run(database, "delivery", "cancel", delivery["id"], 999999)
    assert both.returncode == 1 and "cancelled" in both.stdout and "no such delivery" in both.stderr
    assert document(database, "why", "evt_1")[0]["cause"] == "cancelled"


# replay ------------------------------------------------------------------------------------------------------------

def test_B49_each_accepted_replay_is_one_more_request_with_the_same_bytes(cluster, database, receiver, relays):
    good(database, "endpoint", "add", "a", receiver.url("/ok"), "--set", "signing=none")
    number = insert(cluster, database, event_id="evt_1")
    relays()
    for count in (1, 2, 3):
        if count > 1:
            assert "replayed" in good(database, "replay", "evt_1")
        receiver.wait_for(count)
        wait_for(lambda: cluster.value(database, "SELECT count(*) FROM outbox.delivery") == 0, what="settlement")
    requests = receiver.snapshot()
    assert len(requests) == 3
    assert {(r.id, r.key, r.body) for r in requests} == {("evt_1", "evt_1", b'{"n": 1.0}')}
    fresh = document(database, "replay", number, "--new-id")[0]["new_event_id"]
    receiver.wait_for(4)
    assert receiver.snapshot()[3].id == fresh != "evt_1"
    assert receiver.snapshot()[3].body == b'{"n": 1.0}'


def test_B49_refused_replays_say_why_and_fail(cluster, database):
    insert(cluster, database, event_id="evt_1")
    for arguments, text in ((["evt_9"], "no such event"), (["evt_1"], "unrouted"), (["evt_1", "--endpoint", "nobody"], "no such endpoint")):
        done = run(database, "replay", *arguments)
        assert done.returncode == 1 and text in done.stderr, done
    rows = document(database, "replay", "evt_9", "evt_1", code=1)
    assert [row["result"] for row in rows][0] == "no such event"


def test_B49_failed_deliveries_of_one_endpoint_are_replayed_by_filter_paced(cluster, database):
    good(database, "endpoint", "add", "a", "https://a.example/")
    good(database, "endpoint", "add", "b", "https://b.example/")
    cluster.execute(database, "INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' FROM generate_series(1, 300)")
    cluster.execute(database, "UPDATE outbox.delivery SET status = 'failed', attempts = 8")
    assert len(document(database, "replay", "--endpoint", "a", "--status", "failed", "--dry-run")) == 300
    assert cluster.value(database, "SELECT count(*) FROM outbox.delivery WHERE status = 'failed'") == 600
    before = time.monotonic()
    report = document(database, "replay", "--endpoint", "a", "--status", "failed", "--rate", "200/s")
    assert report["replayed"] == 300 and report["finished"]
    assert time.monotonic() - before > 1.0
    assert cluster.value(database, "SELECT count(*) FROM outbox.delivery WHERE status = 'failed' AND endpoint = 'a'") == 0
    assert cluster.value(database, "SELECT count(*) FROM outbox.delivery WHERE status = 'failed' AND endpoint = 'b'") == 300
    again = document(database, "replay", "--endpoint", "a", "--status", "failed")
    assert again["replayed"] == 0


def test_an_interrupted_replay_says_where_to_go_on(cluster, database, tmp_path):
    good(database, "endpoint", "add", "a", "https://a.example/")
    cluster.execute(database, "INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' FROM generate_series(1, 200)")
    cluster.execute(database, "UPDATE outbox.delivery SET status = 'failed', attempts = 8")
    path = write_config({"database": {"url": database}}, str(tmp_path))
    arguments = [binary_path(), "replay", "--status", "failed", "--rate", "20/s", "--json", "--config", path]
    child = subprocess.Popen(arguments, env=daemon_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: cluster.value(database, "SELECT count(*) FROM outbox.delivery WHERE status = 'pending'") >= 10, what="first batches")
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=20)
    report = json.loads(output)
    assert child.returncode == 1 and not report["finished"] and report["replayed"] < 200
    assert f"--after {report['last_event']}" in errors
    rest = document(database, "replay", "--status", "failed", "--after", report["last_event"], "--rate", "10000/s")
    assert report["replayed"] + rest["replayed"] == 200


# Endpoints ---------------------------------------------------------------------------------------------------------

def test_an_endpoint_is_made_changed_and_removed_by_command(database, receiver):
    secret = good(database, "endpoint", "add", "a", receiver.url("/ok"), "--events", "order.*,invoice.paid", "--tenant", "t", "--generate-secret", "--set", "timeout=5s",
                  "--set", "retry.jitter=0.1").strip()
    assert secret.startswith("whsec_")
    assert run(database, "endpoint", "add", "a", receiver.url("/ok")).returncode == 1
    shown = document(database, "endpoint", "show", "a")
    assert shown["events"] == ["order.*", "invoice.paid"] and shown["tenant_id"] == "t" and shown["managed_by"] == "cli"
    assert shown["settings"]["timeout"] == "5s" and len(shown["secrets"]) == 1
    assert secret not in json.dumps(shown)
    good(database, "endpoint", "set", "a", "timeout=null", "concurrency=3", "--no-tenant", "--events", "*")
    shown = document(database, "endpoint", "show", "a")
    assert "timeout" not in shown["settings"] and shown["settings"]["concurrency"] == 3 and shown["tenant_id"] is None
    for command, state in (("disable", "disabled"), ("enable", "ok"), ("pause", "paused"), ("resume", "ok")):
        good(database, "endpoint", command, "a")
        assert f"state: {state}" in re.sub(" +", " ", good(database, "endpoint", "show", "a"))
    assert document(database, "endpoint", "remove", "a")["state"] == "removed"
    assert document(database, "endpoint", "list") == []
    for command in ("show", "enable", "disable", "pause", "resume", "remove", "test", "rotate-secret"):
        done = run(database, "endpoint", command, "a")
        assert done.returncode == 1 and "no endpoint named 'a'" in done.stderr, command


@pytest.mark.parametrize("arguments, text", [
    (["a b", "https://x.example/"], "name"), (["a", "x.example"], "url"), (["a", "ftp://x.example/"], "http"), (["a", "https://u:pw@x.example/"], "user"),
    (["a", "https://x.example/", "--set", "timeuot=5s"], "timeout"), (["a", "https://x.example/", "--set", "timeout=soon"], "timeout"),
    (["a", "https://x.example/", "--events", "a*"], "--events"), (["a", "https://x.example/", "--events", ""], "--events")])
def test_an_endpoint_that_cannot_work_is_refused(database, arguments, text):
    done = run(database, "endpoint", "add", *arguments)
    assert done.returncode in (1, 2) and text.lower() in done.stderr.lower(), done.stderr
    assert document(database, "endpoint", "list") == []


def test_endpoints_of_the_file_are_changed_there(database):
    more = {"endpoints": [{"name": "a", "url": "https://a.example/", "secrets": [SECRET]}]}
    assert document(database, "migrate", more=more)["endpoints"]["added"] == ["a"]
    for arguments in (["set", "a", "timeout=5s"], ["rotate-secret", "a"], ["remove", "a"]):
        done = run(database, "endpoint", *arguments, more=more)
        assert done.returncode == 1 and "configuration file" in done.stderr


def test_a_generated_secret_is_never_in_a_document(database, tmp_path):
    assert run(database, "endpoint", "add", "a", "https://a.example/", "--generate-secret", "--json").returncode == 2
    path = tmp_path / "a.secret"
    done = run(database, "endpoint", "add", "a", "https://a.example/", "--generate-secret", "--secret-out", path, "--json")
    assert done.returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in done.stdout + done.stderr


def test_after_a_rotation_both_secrets_sign_along(cluster, database, tmp_path):
    (tmp_path / "old").write_text(OLD_SECRET + "\n")
    (tmp_path / "new").write_text(SECRET + "\r\n")
    with Receiver(secrets=(OLD_SECRET,)) as receiver:
        good(database, "endpoint", "add", "a", receiver.url("/ok"), "--secret-file", tmp_path / "old")
        good(database, "endpoint", "rotate-secret", "a", "--secret-file", tmp_path / "new", "--keep-old", "1h")
        insert(cluster, database)
        good(database, "drain")
        receiver.wait_for(1)
        request = receiver.snapshot()[0]
        assert request.signature_error is None
        assert len(request.header("webhook-signature").split(" ")) == 2
        verified = run_command("verify", "--secret-file", tmp_path / "new", "--id", request.id, "--timestamp", request.header("webhook-timestamp"),
                               "--signature", request.header("webhook-signature"), stdin=request.body.decode())
        assert verified.returncode == 0, verified.stderr


def test_endpoint_test_takes_the_path_of_deliveries_and_prints_the_phases(database, ca, https_receiver, receiver):
    more = {"tls": {"ca_file": ca.path}}
    good(database, "endpoint", "add", "a", https_receiver.url("/ok"), "--generate-secret", more=more)
    result = document(database, "endpoint", "test", "a", more=more)
    assert result["published"] and result["http_status"] == 200 and {"connect_ms", "tls_ms", "first_byte_ms"} <= set(result["phases"])
    https_receiver.wait_for(1)
    request = https_receiver.snapshot()[0]
    assert request.event_type == "outboxd.endpoint.test" and request.header("webhook-signature")
    good(database, "endpoint", "add", "b", receiver.url("/status/503"), "--set", "signing=none")
    failed = document(database, "endpoint", "test", "b", code=1)
    assert not failed["published"] and "503" in failed["result"]
    text = run(database, "endpoint", "test", "a", more={}).stdout
    assert "tls:" in text and "result:" in text
    good(database, "endpoint", "add", "c", "http://127.0.0.1:1/", "--set", "signing=none")
    assert document(database, "endpoint", "test", "c", code=1)["error_class"] == "connect"


def test_purge_removes_what_retention_says_and_nothing_live(cluster, database, receiver):
    good(database, "endpoint", "add", "a", receiver.url("/ok"), "--set", "signing=none")
    # More than one step of the walk, the first of which finds nothing to remove.
    cluster.execute(database, "INSERT INTO outbox.event (event_type, payload, created_at, deliver_at)"
                              " SELECT 't', '{}', now() - interval '40 days', CASE WHEN i <= 1100 THEN timestamptz '2099-01-01' END FROM generate_series(1, 1150) i")
    good(database, "drain")
    insert(cluster, database)
    assert document(database, "purge")["events"] == 0
    time_back = "UPDATE outbox.attempt SET finished_at = finished_at - interval '40 days', started_at = started_at - interval '40 days'"
    cluster.execute(database, time_back)
    assert document(database, "purge")["events"] == 50
    assert cluster.value(database, "SELECT count(*) FROM outbox.event") == 1101


# Signature tools ---------------------------------------------------------------------------------------------------

def test_sign_gives_the_published_vector_and_verify_accepts_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    body = '{"test": 2432232314}'
    signed = run_command("sign", "--secret-file", secret, "--id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", "1614265330", stdin=body)
    assert signed.returncode == 0
    assert "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" in signed.stdout.splitlines()
    arguments = ["verify", "--secret-file", secret, "--id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", "1614265330", "--signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="]
    assert run_command(*arguments, "--tolerance", "0s", stdin=body).returncode == 0
    assert run_command(*arguments, stdin=body).returncode == 1
    wrong = run_command(*arguments, "--tolerance", "0s", "--json", stdin=body + " ")
    assert wrong.returncode == 1 and json.loads(wrong.stdout)["valid"] is False


def test_a_generated_pair_signs_and_its_public_key_verifies(tmp_path):
    pair = json.loads(run_command("keygen", "--type", "ed25519", "--out", tmp_path / "key", "--json").stdout)
    signed = json.loads(run_command("sign", "--secret-file", tmp_path / "key", "--id", "e1", "--json", stdin="body").stdout)
    verified = run_command("verify", "--public-key", pair["public_key"], "--id", "e1", "--timestamp", signed["webhook-timestamp"], "--signature", signed["webhook-signature"], stdin="body")
    assert verified.returncode == 0, verified.stderr
    assert run_command("keygen", "--out", tmp_path / "key").returncode == 1


@pytest.mark.parametrize("scheme", ["github", "stripe", "rfc9421"])
def test_other_schemes_verify_what_they_signed(tmp_path, scheme):
    (tmp_path / "secret").write_text(SECRET)
    signed = json.loads(run_command("sign", "--scheme", scheme, "--secret-file", tmp_path / "secret", "--url", "https://h.example/p", "--id", "e1", "--json", stdin="{}").stdout)
    headers = []
    for name, value in signed.items():
        headers += ["--header", f"{name}: {value}"]
    arguments = ["verify", "--scheme", scheme, "--secret-file", tmp_path / "secret", "--url", "https://h.example/p", "--header", "Content-Type: application/json", *headers]
    verified = run_command(*arguments, stdin="{}")
    assert verified.returncode == 0, verified.stderr
    assert run_command(*arguments, stdin="{ }").returncode == 1
