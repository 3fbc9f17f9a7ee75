"""The test support itself: it must be able to see what tests rely on it to see."""

import http.client
import json
import os
import socket
import ssl
import threading
import time

import psycopg2
import pytest

from outboxtest import Answer, Cluster, NotifySocket, Proxy, Receiver, verify_signature, wait_for
from outboxtest.cluster import connect

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = b'{"email":"test@example.com","username":"test_user"}'
SIGNATURE = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="


def post(receiver, path="/ok", body=b"{}", headers=None, context=None, method="POST"):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    options = {"context": context} if context else {}
    connection = kind("localhost" if context else "127.0.0.1", receiver.port, timeout=10, **options)
    try:
        connection.request(method, path, body, headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("path,status", [("/ok", 200), ("/status/418", 418), ("/fail/503", 503), ("/retry-after/7", 503),
                                         ("/redirect/307", 307), ("/slow/0.05", 200), ("/anything", 200)])
def test_receiver_answers_what_the_path_says(receiver, path, status):
    assert post(receiver, path) == status


def test_receiver_counts_attempts_per_id(receiver):
    statuses = [post(receiver, "/first/2", headers={"webhook-id": "a"}) for _ in range(3)]
    assert statuses == [503, 503, 200]
    assert [r.attempt_of_id for r in receiver.of("a")] == [1, 2, 3]
    assert receiver.accepted_ids() == {"a"}


def test_receiver_keeps_bytes_and_header_order(receiver):
    body = bytes(range(256)) * 300
    post(receiver, body=body, headers={"X-One": "1", "webhook-id": "b"})
    request, = receiver.wait_for(1)
    assert request.body == body
    names = [name for name, _ in request.headers]
    assert names.index("X-One") < names.index("webhook-id")


def test_receiver_runs_behaviours_that_wait(receiver):
    import asyncio

    async def later(_request):
        await asyncio.sleep(0.01)
        return 202

    receiver.behaviour = later
    assert post(receiver) == 202
    receiver.behaviour = lambda request: Answer(action="reset")
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        post(receiver)


def test_receiver_speaks_tls_with_a_name_that_verifies(https_receiver, ca):
    good = ssl.create_default_context(cafile=ca.path)
    assert post(https_receiver, context=good) == 200


def test_certificates_that_are_wrong_do_not_verify(ca):
    context = ssl.create_default_context(cafile=ca.path)
    for wrong, reason in [(ca.issue(begins_in=-172800, ends_in=-86400), "expired"),
                          (ca.issue(begins_in=86400, ends_in=172800), "not yet valid"),
                          (ca.issue(dns=("other.example.test",), ip=()), "mismatch"),
                          (ca.issue(usage="clientAuth"), "unsuitable")]:
        with Receiver(certificate=wrong) as receiver, pytest.raises(ssl.SSLError, match=reason):
            post(receiver, context=context)


@pytest.mark.parametrize("change,reason", [
    ({}, None),
    ({"body": BODY + b" "}, "no signature matches"),
    ({"identifier": "msg_other"}, "no signature matches"),
    ({"signature": "v1,AAAA " + SIGNATURE}, None),
    ({"signature": ""}, "missing"),
    ({"now": 1649367553 + 301}, "window"),
    ({"timestamp": "1649367553.5"}, "whole number"),
])
def test_signatures_verify_by_the_published_vector(change, reason):
    values = {"identifier": "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "timestamp": "1649367553", "body": BODY,
              "signature": SIGNATURE, "now": 1649367553 + 10, **change}
    error = verify_signature([SECRET], **values)
    assert error is None if reason is None else reason in error


def test_cluster_keeps_committed_rows_through_a_crash(cluster):
    with Cluster() as server:
        uri = server.create_database()
        server.execute(uri, "CREATE TABLE kept (id int)")
        server.execute(uri, "INSERT INTO kept VALUES (1)")
        server.restart("immediate")
        assert server.value(uri, "SELECT count(*) FROM kept") == 1


def test_proxy_freezes_cuts_and_refuses(cluster):
    with Proxy(cluster.port) as proxy:
        uri = cluster.uri("postgres").replace(f":{cluster.port}/", f":{proxy.port}/")
        session = connect(uri)
        proxy.freeze()
        answered = threading.Event()

        def ask():
            session.cursor().execute("SELECT 1")
            answered.set()

        threading.Thread(target=ask, daemon=True).start()
        assert not answered.wait(0.3)
        proxy.thaw()
        assert answered.wait(5)
        proxy.cut()
        with pytest.raises(psycopg2.OperationalError):
            session.cursor().execute("SELECT 1")
        proxy.refuse()
        with pytest.raises(psycopg2.OperationalError):
            connect(uri)


def test_standby_follows_and_can_be_promoted():
    with Cluster() as primary:
        primary.execute("postgres", "CREATE TABLE seen (id int)")
        with primary.standby() as standby:
            assert standby.value("postgres", "SELECT pg_is_in_recovery()")
            primary.execute("postgres", "INSERT INTO seen VALUES (1)")
            wait_for(lambda: standby.value("postgres", "SELECT count(*) FROM seen") == 1, what="replication")
            standby.promote()
            standby.execute("postgres", "INSERT INTO seen VALUES (2)")


@pytest.mark.parametrize("abstract", [False, True])
def test_notify_socket_remembers_lines(abstract):
    with NotifySocket(watchdog_seconds=2, abstract=abstract) as manager:
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = manager.environment["NOTIFY_SOCKET"]
        sender.sendto(b"READY=1\nSTATUS=fine", "\0" + address[1:] if abstract else address)
        assert manager.wait_for("STATUS=")[1] == "STATUS=fine"
        assert manager.environment["WATCHDOG_USEC"] == "2000000"
        sender.close()


def test_a_wait_that_is_in_vain_says_for_what():
    before = time.monotonic()
    with pytest.raises(TimeoutError, match="the moon"):
        wait_for(lambda: False, timeout=0.05, what="the moon")
    assert time.monotonic() - before < 5
    assert json.dumps({}) == "{}"
