"""Mistakes in the configuration: all named at once, with file, line and key, before anything is started."""

import base64
import hashlib
import hmac
import json
import os
import re
import signal
import time

import pytest

from outboxtest import Receiver, run_command
from outboxtest.signature import secret_bytes

BASE = 'database: { url: "postgresql://localhost/app" }\n'


def check(text, **options):
    return run_command("check", config=text, **options)


def test_check_reports_five_different_mistakes_of_one_file_in_one_run():
    done = check(BASE + "\n".join([
        "relay:",                                    # line 2
        "  poll_intervall: 1s",                      # 3: misspelt
        "  lease: 10",                               # 4: no unit
        "endpoints:",
        "  - name: a",
        "    url: https://example.com/a",
        "    timeout: 5s",
        "    timeout: 6s",                           # 9: twice
        "  - name: a",                               # 10: taken
        "    url: ftp://example.com/",               # 11: no https
        "log: { format: xml }",                      # 12: not one of the list
        ""]))
    assert done.returncode == 78
    out = done.stdout + done.stderr
    for line, key in [(3, "relay.poll_intervall"), (4, "relay.lease"), (9, "endpoints[0].timeout"), (10, "endpoints[1].name"),
                      (11, "endpoints[1].url"), (12, "log.format")]:
        assert re.search(rf"error: \S+\.yaml:{line}: {re.escape(key)}: ", out), (line, key, out)
    assert "6 errors" in out


def test_check_json_is_one_document_with_every_problem():
    done = run_command("check", "--json", config=BASE + "relay: { leese: 1s }\nlog: { level: loud }\n")
    assert done.returncode == 78
    document = json.loads(done.stdout)
    assert document["ok"] is False
    errors = [p for p in document["problems"] if not p.get("warning")]
    assert len(errors) >= 2, document


DUPLICATES = {
    "two_endpoints_blocks": ("endpoints: []\nlog: { level: info }\nendpoints: []\n", 4, "endpoints"),
    "two_endpoints_of_one_name": ("endpoints:\n  - { name: a, url: https://a.example }\n  - { name: a, url: https://b.example }\n",
                                  4, r"endpoints\[1\]\.name"),
    "a_key_twice_in_an_endpoint": ("endpoints:\n  - name: a\n    url: https://a.example\n    timeout: 5s\n    timeout: 6s\n",
                                   6, r"endpoints\[0\]\.timeout"),
    "a_key_twice_in_a_flow_map": ("relay: { lease: 60s, notify: true, lease: 61s }\n", 2, r"relay\.lease"),
    "differing_in_case": ("log: { level: info }\nLog: { level: warn }\n", 3, "Log"),
    "two_documents": ("log: { level: info }\n---\nlog: { level: warn }\n", 3, ""),
    "a_list_for_a_map": ("relay:\n  - lease: 60s\n", 3, "relay"),
    "a_map_for_a_list": ("endpoints:\n  name: a\n", 3, "endpoints"),
    "a_scalar_for_a_map": ("log: info\n", 2, "log"),
}


@pytest.mark.parametrize("name", DUPLICATES)
def test_B55_a_key_that_is_written_twice_or_of_the_wrong_shape_is_refused(name):
    text, line, key = DUPLICATES[name]
    done = check(BASE + text)
    assert done.returncode == 78, done.stdout + done.stderr
    # The line of the key or of its value: both lead there.
    found = re.search(rf"error: \S+\.yaml:(\d+): {key}", done.stdout + done.stderr)
    assert found and abs(int(found[1]) - line) <= 1, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["", "# only\n# comments\n", "---\n", "\n\n"], ids=["empty", "comments", "document_mark", "lines"])
def test_B55_an_empty_file_is_valid_when_the_database_comes_from_elsewhere(text):
    done = check(text, env={"OUTBOXD_DATABASE_URL": "postgresql://localhost/app"})
    assert done.returncode == 0, done.stdout + done.stderr


TYPOS = {
    "retires": (BASE + "defaults:\n  retires: 3\n", "defaults.retires", "retry"),
    "time_out": (BASE + "defaults:\n  time_out: 5s\n", "defaults.time_out", "timeout"),
    "verfy": (BASE + "endpoints:\n  - name: a\n    url: https://a.example\n    tls: { verfy: true }\n",
              "endpoints[0].tls.verfy", "verify"),
    "endponts": (BASE + "endponts: []\n", "endponts", "endpoints"),
    "wrong_depth": (BASE + "max_in_flight: 10\n", "max_in_flight", None),
    "newer_key": (BASE + "relay: { warp_drive: true }\n", "relay.warp_drive", None),
    "not_a_boolean": (BASE + "egress: { allow_http: ture }\n", "egress.allow_http", None),
    "quoted_boolean": (BASE + 'relay: { notify: "false" }\n', "relay.notify", None),
    "signing_scheme": (BASE + "endpoints:\n  - { name: a, url: https://a.example, signing: standart }\n",
                       "endpoints[0].signing", "standard-webhooks"),
    "trailing_space": (BASE + 'log:\n  "level ": info\n', "log.level", None),
}


@pytest.mark.parametrize("name", TYPOS)
def test_B59_a_misspelt_key_or_value_is_an_error_with_its_path(name):
    text, path, near = TYPOS[name]
    done = check(text)
    out = done.stdout + done.stderr
    assert done.returncode == 78, out
    assert f": {path}" in out, out
    assert near is None or near in out, out


def test_B59_the_daemon_does_not_start_half_configured(tmp_path):
    done = run_command("run", config=BASE + "relay: { pol_interval: 1s }\n", timeout=30)
    assert done.returncode == 78
    assert "relay.pol_interval" in done.stderr and "poll_interval" in done.stderr


@pytest.mark.parametrize("arguments, says", [
    (["check", "--bogus"], "--bogus"), (["check", "--jsn"], "--json"), (["check", "--config"], "--config"),
    (["drain", "--timeout"], "--timeout"), (["drain", "--max-passes", "0"], "--max-passes"),
    (["drain", "--max-passes", "many"], "--max-passes"), (["drain", "--timeout", "5"], "--timeout"),
    (["check", "--config", "a", "--config", "b"], "--config"), (["statsu"], "status"), (["endpoint", "lst"], "list"),
    (["why"], "EVENT_ID"), (["--json", "check"], "flags after")],
    ids=lambda value: "_".join(value) if isinstance(value, list) else None)
def test_B59_wrong_use_of_the_command_line_exits_2_and_says_what_is_wrong(arguments, says):
    done = run_command(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr and done.stdout == ""


def test_B59_a_variable_with_our_prefix_that_nothing_reads_is_named():
    done = check("", env={"OUTBOXD_DATABSE_URL": "postgresql://localhost/app"})
    assert "OUTBOXD_DATABSE_URL" in done.stderr and "OUTBOXD_DATABASE_URL" in done.stderr


# B62: the end of a secret file ------------------------------------------------------------------------------------------

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
RAW = SECRET.encode()
SECRET_FILES = {
    "no_line_end": (RAW, True), "lf": (RAW + b"\n", True), "cr_lf": (RAW + b"\r\n", True),
    "two_line_ends": (RAW + b"\n\n", False), "leading_space": (b" " + RAW, False), "bom": (b"\xef\xbb\xbf" + RAW, False),
    "empty": (b"", False), "only_a_line_end": (b"\n", False), "one_megabyte": (b"whsec_" + b"A" * (1 << 20), False),
    "binary": (bytes(range(256)), False), "too_short": (b"whsec_AAAA\n", False),
}


def config_with_secret(url, secret):
    return {"database": {"url": "postgresql://localhost/app"}, "egress": {"allow_http": True},
            "endpoints": [{"name": "signed", "url": url, "secrets": [secret]}]}


@pytest.mark.parametrize("name", SECRET_FILES)
def test_B62_one_line_end_of_a_secret_file_is_dropped_and_nothing_else(tmp_path, name):
    content, good = SECRET_FILES[name]
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(0o600)
    done = check(config_with_secret("http://127.0.0.1:1/", {"file": str(path)}))
    out = done.stdout + done.stderr
    assert done.returncode == (0 if good else 78), out
    assert good or "signed" in out, "the endpoint is named"
    assert "MfKQ9r8GKYqrTwj" not in out, "the secret is shown"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"], ids=["no_line_end", "lf", "cr_lf"])
def test_B62_the_signature_is_the_one_of_the_secret_given_inline(tmp_path, end):
    path = tmp_path / "secret"
    path.write_bytes(RAW + end)
    path.chmod(0o600)
    body = tmp_path / "body"
    body.write_bytes(b'{"a": 1}')
    done = run_command("sign", "--secret-file", path, "--id", "evt_1", "--timestamp", "1700000000", "--body-file", body)
    assert done.returncode == 0, done.stderr
    expected = base64.b64encode(hmac.new(secret_bytes(SECRET), b'evt_1.1700000000.{"a": 1}', hashlib.sha256).digest()).decode()
    assert f"v1,{expected}" in done.stdout


def test_B62_a_secret_file_behind_a_link_that_is_swapped_is_read_anew_at_a_reload(tmp_path, outbox, relays, endpoint):
    """The way in which a cluster hands secrets to a container: a link to the version of the day."""
    second = "whsec_dGhpcyBpcyBhbm90aGVyIHNlY3JldCBrZXk="
    for name, secret in (("v1", SECRET), ("v2", second)):
        (tmp_path / name).write_text(secret + "\n")
        (tmp_path / name).chmod(0o600)
    link = tmp_path / "current"
    link.symlink_to("v1")
    with Receiver(secrets=[SECRET]) as receiver:
        relay = relays({"endpoints": [endpoint("signed", receiver.url(), signing="standard-webhooks",
                                               secrets=[{"file": str(link)}])]})
        outbox.insert()
        assert receiver.wait_for(1, 30)[0].signature_error is None
        (tmp_path / "next").symlink_to("v2")
        os.replace(tmp_path / "next", link)
        relay.signal(signal.SIGHUP)
        receiver.secrets = [second]
        # Until the reload is through events may still be signed with the old one; then none is.
        end = time.monotonic() + 30
        while time.monotonic() < end:
            seen = len(receiver.snapshot())
            outbox.insert()
            if receiver.wait_for(seen + 1, 30)[-1].signature_error is None:
                break
        else:
            raise AssertionError("the new secret is not used after a reload:\n" + "\n".join(relay.log()[-10:]))
        assert SECRET not in "\n".join(relay.log()) and second not in "\n".join(relay.log())


def test_B62_a_secret_file_that_all_may_read_is_warned_of(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(RAW)
    path.chmod(0o644)
    done = check(config_with_secret("http://127.0.0.1:1/", {"file": str(path)}))
    assert done.returncode == 0
    assert re.search(r"warning: .*read by everybody", done.stdout + done.stderr), done.stdout + done.stderr
