"""A TCP proxy that can delay, freeze, cut and refuse: the network's bad days on one machine."""

import select
import socket
import struct
import threading
import time


class Proxy:
    """Stands in front of 127.0.0.1:`target`; `port` is where clients connect. Modes can be changed at any time."""

    def __init__(self, target, host="127.0.0.1", port=0):
        self.target = (host, target)
        self.delay = 0.0            # seconds that each piece waits on its way to the server
        self.accepted = 0
        self.forwarded = 0          # bytes, both ways
        self._frozen = threading.Event()
        self._refusing = False
        self._stopping = False
        self._pairs = set()
        self._lock = threading.Lock()
        self._listener = self._listen(port)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _listen(self, port):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        return listener

    def _accept(self):
        while not self._stopping:
            ready, _, _ = select.select([self._listener], [], [], 0.2)
            if not ready:
                continue
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            self.accepted += 1
            if self._refusing:
                self._reset(client)
                continue
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    @staticmethod
    def _reset(sock):
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        sock.close()

    def _relay(self, client):
        try:
            server = socket.create_connection(self.target, timeout=5)
            server.settimeout(None)
        except OSError:
            self._reset(client)
            return
        pair = (client, server)
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.add(pair)
        try:
            while not self._stopping:
                if self._frozen.is_set():
                    # Bytes stay in the kernel: the peers see an open connection that says nothing.
                    time.sleep(0.02)
                    continue
                ready, _, _ = select.select(pair, [], [], 0.1)
                if self._frozen.is_set():
                    continue
                for sock in ready:
                    data = sock.recv(65536)
                    if not data:
                        return
                    if self.delay and sock is client:
                        time.sleep(self.delay)
                    (server if sock is client else client).sendall(data)
                    self.forwarded += len(data)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._pairs.discard(pair)
            for sock in pair:
                sock.close()

    def freeze(self):
        """Half-open: nothing is relayed any more, nothing is closed, new connections are taken and stay silent."""
        self._frozen.set()

    def thaw(self):
        self._frozen.clear()

    def cut(self):
        """Resets every connection; new ones are taken."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for sock in pair:
                try:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def refuse(self, on=True):
        """New connections are reset at once."""
        self._refusing = on

    def open_connections(self):
        with self._lock:
            return len(self._pairs)

    def stop(self):
        self._stopping = True
        self._thread.join()
        self._listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
