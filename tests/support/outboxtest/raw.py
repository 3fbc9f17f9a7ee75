"""A receiver made of plain sockets: a script per connection decides every byte and every close."""

import socket
import struct
import threading


class RawConnection:
    """One accepted connection, for a script: reads requests, writes bytes, ends as it is told."""

    def __init__(self, sock, number, on_request):
        self.sock = sock
        self.number = number
        self._buffer = b""
        self._on_request = on_request

    def _more(self):
        data = self.sock.recv(65536)
        self._buffer += data
        return bool(data)

    def first_byte(self):
        """Waits for the first byte of the next request; False when the client closed instead."""
        return bool(self._buffer) or self._more()

    def read_request(self):
        """A whole request: (head, body); None when the client closed instead."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(rest) < length:
            data = self.sock.recv(65536)
            if not data:
                return None
            rest += data
        self._buffer = rest[length:]
        self._on_request(self.number, head, rest[:length])
        return head, rest[:length]

    def write(self, data):
        self.sock.sendall(data)

    def answer(self, status=200, headers=b"", body=b""):
        self.write(b"HTTP/1.1 %d Answer\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body))

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


class RawReceiver:
    """`script(connection)` runs in a thread per connection; when it returns the connection is closed."""

    def __init__(self, script):
        self._script = script
        self._lock = threading.Condition()
        self.requests = []      # (connection number, head, body) in order of arrival
        self.connections = 0
        self.closed = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/raw"):
        return f"http://127.0.0.1:{self.port}{path}"

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                number = self.connections
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _serve(self, sock, number):
        connection = RawConnection(sock, number, self._note)
        try:
            self._script(connection)
        except OSError:
            pass
        finally:
            connection.close()
            with self._lock:
                self._open.discard(sock)
                self.closed += 1
                self._lock.notify_all()

    def _note(self, number, head, body):
        with self._lock:
            self.requests.append((number, head, body))
            self._lock.notify_all()

    def wait_for(self, condition, timeout=30.0):
        """Waits until `condition()`, asked at every request and every closed connection, is true."""
        with self._lock:
            if not self._lock.wait_for(condition, timeout):
                raise TimeoutError(f"{len(self.requests)} requests on {self.connections} connections within {timeout} s")

    def stop(self):
        self._listener.close()
        with self._lock:
            rest = list(self._open)
        for sock in rest:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
