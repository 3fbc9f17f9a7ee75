"""An HTTP/HTTPS receiver that records what came, answers as it is told, and checks Standard Webhooks signatures.

In a test: `with Receiver() as receiver: ... receiver.wait_for(10)`. As a program (`python3 -m outboxtest.receiver`) it
prints one JSON line per request. What it answers is said by a callable, or by the path:
  /ok  /status/503  /slow/1.5  /flaky/0.2  /first/2 (fails the first two attempts of each id)  /retry-after/7  /hang
  /reset  /close  /redirect/302  /unreliable/0.05/0.01 (that part is answered 503, that part never)
"""

import argparse
import asyncio
import hashlib
import inspect
import json
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from dataclasses import dataclass, field

from .answers import Answer, by_path
from .ca import Certificate, CertificateAuthority
from .signature import verify_signature

MAXIMUM_HEAD = 65536


@dataclass
class Request:
    """One request as it came. `headers` keeps order and spelling; `header()` looks up whatever the case."""

    method: str
    target: str
    headers: list
    body: bytes
    arrived: float          # time.time()
    arrived_monotonic: float
    connection: int
    attempt_of_id: int      # how often this id has come, this time included
    status: object = None   # what was answered; None: nothing
    answered_monotonic: object = None
    signature_error: object = "not checked"
    _index: dict = field(default=None, repr=False)

    def header(self, name, default=None):
        if self._index is None:
            self._index = {}
            for key, value in self.headers:
                self._index.setdefault(key.lower(), value)
        return self._index.get(name.lower(), default)

    @property
    def id(self):
        return self.header("webhook-id", "")

    @property
    def key(self):
        return self.header("idempotency-key", "")

    @property
    def event_type(self):
        return self.header("outbox-event-type", "")

    @property
    def attempt(self):
        return int(self.header("outbox-attempt", "0"))

    @property
    def sequence(self):
        return int(self.header("outbox-sequence", "0"))

    @property
    def sha256(self):
        return hashlib.sha256(self.body).hexdigest()

    def json(self):
        return json.loads(self.body)


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with Content-Length bodies, one request after the other, pipelined ones too."""

    def __init__(self, receiver):
        self.receiver = receiver
        self.buffer = bytearray()
        self.transport = None
        self.number = 0
        self.busy = False
        self.pending = set()
        self.need = 0

    def connection_made(self, transport):
        self.transport = transport
        self.number = self.receiver.connections
        self.receiver.connections += 1
        self.receiver._open.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, _error):
        self.receiver._open.discard(self)
        for one in self.pending:
            one.cancel()

    def data_received(self, data):
        self.buffer += data
        if not self.busy and len(self.buffer) >= self.need:
            self._next()

    def _next(self):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAXIMUM_HEAD:
                self.transport.abort()
            return
        lines = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
        headers = []
        length = 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            value = value.strip()
            headers.append((name, value))
            if name.lower() == "content-length":
                length = int(value)
        self.need = end + 4 + length
        if len(self.buffer) < self.need:
            return
        body = bytes(self.buffer[end + 4:self.need])
        del self.buffer[:self.need]
        self.need = 0
        method, target = (lines[0].split(" ") + ["", ""])[:2]
        request = self.receiver._arrived(method, target, headers, body, self.number)
        answer = self.receiver._answer_for(request)
        if inspect.isawaitable(answer) or (isinstance(answer, Answer) and answer.delay > 0):
            self.busy = True
            self._start(self._finish_later(request, answer))
        else:
            self._send(request, answer)

    def _start(self, coroutine):
        one = asyncio.get_running_loop().create_task(coroutine)
        self.pending.add(one)
        one.add_done_callback(self.pending.discard)

    async def _finish_later(self, request, answer):
        if inspect.isawaitable(answer):
            answer = self.receiver._normal(await answer)
        if answer.delay > 0:
            await asyncio.sleep(answer.delay)
        self.busy = False
        self._send(request, answer)

    def _send(self, request, answer):
        if self.transport.is_closing():
            return
        if answer.action == "hang":
            self.busy = True
            return
        if answer.action == "reset":
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
            return
        if answer.action == "close":
            self.transport.close()
            return
        body = answer.body if isinstance(answer.body, bytes) else str(answer.body).encode()
        head = [f"HTTP/1.1 {answer.status} Answer", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.close_after:
            head.append("Connection: close")
        self.receiver._answered(request, answer.status)
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        if answer.close_after:
            self.transport.close()
        elif self.buffer:
            self._next()


class Receiver:
    """Runs in a thread of its own. `behaviour(request)` returns an Answer, a status, or an awaitable of either."""

    def __init__(self, behaviour=None, certificate=None, secrets=(), window=300.0, port=0, keep_bodies=True, host="127.0.0.1",
                 on_request=None, client_ca=None, remember=True):
        self.behaviour = behaviour or by_path
        self.secrets = list(secrets)
        self.window = window
        self.keep_bodies = keep_bodies
        self.remember = remember  # False: a receiver that runs for days keeps no list of what came
        self.connections = 0
        self.requests = []      # every request in order of arrival
        self._on_request = on_request
        self._counts = {}
        self._open = set()
        self._changed = threading.Condition()
        self._tls = None
        if certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate.chain_path, certificate.key_path)
            if client_ca:
                self._tls.load_verify_locations(client_ca)
                self._tls.verify_mode = ssl.CERT_REQUIRED
        self._loop = asyncio.new_event_loop()
        self._server = None
        started = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(host, port, started), daemon=True)
        self._thread.start()
        started.wait()
        if self._failure:
            raise self._failure
        self.port = self._server.sockets[0].getsockname()[1]

    def _run(self, host, port, started):
        asyncio.set_event_loop(self._loop)
        try:
            self._server = self._loop.run_until_complete(self._loop.create_server(
                lambda: _Connection(self), host, port, ssl=self._tls, backlog=1024))
        except OSError as error:
            self._failure = error
            started.set()
            return
        started.set()
        self._loop.run_forever()

    def url(self, path="/ok", host=None):
        return f"{'https' if self._tls else 'http'}://{host or ('localhost' if self._tls else '127.0.0.1')}:{self.port}{path}"

    def _arrived(self, method, target, headers, body, connection):
        request = Request(method, target, headers, body, time.time(), time.monotonic(), connection, 1)
        identifier = request.id
        request.attempt_of_id = self._counts.get(identifier, 0) + 1
        if self.secrets:
            request.signature_error = verify_signature(self.secrets, identifier, request.header("webhook-timestamp"), body,
                                                       request.header("webhook-signature"), self.window)
        with self._changed:
            self._counts[identifier] = request.attempt_of_id
            if self.remember:
                self.requests.append(request)
            self._changed.notify_all()
        return request

    @staticmethod
    def _normal(answer):
        if answer is None:
            return Answer(200)
        return Answer(answer) if isinstance(answer, int) else answer

    def _answer_for(self, request):
        try:
            answer = self.behaviour(request)
        except Exception as error:  # noqa: BLE001 - a broken behaviour must be seen in the test, not end the thread
            print(f"receiver: behaviour raised {error!r}", file=sys.stderr)
            return Answer(500, body=repr(error))
        if not inspect.isawaitable(answer):
            answer = self._normal(answer)
        if self._on_request:
            self._on_request(request, answer)
        if not self.keep_bodies:
            request.body = b""
        return answer

    def _answered(self, request, status):
        with self._changed:
            request.status = status
            request.answered_monotonic = time.monotonic()
            self._changed.notify_all()

    def snapshot(self):
        with self._changed:
            return list(self.requests)

    def ids(self, path=None):
        return [r.id for r in self.snapshot() if path is None or r.target.startswith(path)]

    def of(self, identifier):
        """All requests of one id, in order."""
        return [r for r in self.snapshot() if r.id == identifier]

    def accepted_ids(self):
        """Ids that were answered with 2xx at least once."""
        return {r.id for r in self.snapshot() if isinstance(r.status, int) and 200 <= r.status < 300}

    def clear(self):
        with self._changed:
            self.requests.clear()
            self._counts.clear()

    def wait_for(self, count=1, timeout=20.0, where=None):
        """Waits until `count` requests (that `where` accepts) have come; returns them."""
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                found = self.requests if where is None else [r for r in self.requests if where(r)]
                if len(found) >= count:
                    return list(found)
                if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise TimeoutError(f"{len(found)} of {count} requests within {timeout} s")

    def open_connections(self):
        return len(self._open)

    def close_connections(self):
        """Closes every kept-alive connection, as a receiver does when it restarts."""
        self._loop.call_soon_threadsafe(lambda: [c.transport.close() for c in list(self._open)])

    def stop(self):
        if self._loop.is_closed():
            return

        def end():
            self._server.close()
            for connection in list(self._open):
                connection.transport.abort()
            self._loop.call_later(0.02, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def main():
    parser = argparse.ArgumentParser(description="Receives, answers, and prints one JSON line per request.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate", help="PEM chain: with it the receiver speaks TLS")
    parser.add_argument("--key", help="PEM private key")
    parser.add_argument("--make-certificate", metavar="DIR", help="makes an authority (DIR/ca.pem) and a certificate there")
    parser.add_argument("--name", default="localhost", help="the name in that certificate")
    parser.add_argument("--secret", action="append", default=[], help="whsec_...: signatures are checked")
    parser.add_argument("--secret-file", action="append", default=[], help="the same, read from a file")
    options = parser.parse_args()
    secrets = options.secret + [open(path, encoding="utf-8").read().strip() for path in options.secret_file]
    certificate = None
    if options.certificate:
        certificate = Certificate(options.certificate, options.key)
    elif options.make_certificate:
        certificate = CertificateAuthority(options.make_certificate).issue(dns=(options.name, "localhost"),
                                                                           ends_in=365 * 86400.0)

    def show(request, answer):
        line = {"id": request.id, "key": request.key, "event_type": request.event_type, "attempt": request.attempt,
                "bytes": len(request.body), "sha256": request.sha256, "signature": request.signature_error or "verified",
                "answer": answer.action or answer.status, "arrived": request.arrived_monotonic}
        print(json.dumps(line), flush=True)

    receiver = Receiver(certificate=certificate, secrets=secrets, port=options.port, host=options.host, on_request=show,
                        keep_bodies=False, remember=False)
    print(json.dumps({"listening": receiver.url("/ok")}), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    receiver.stop()


if __name__ == "__main__":
    main()
