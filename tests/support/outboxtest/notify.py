"""The service manager's side of sd_notify(3): a datagram socket that remembers what the daemon said."""

import os
import socket
import tempfile
import threading
import time


class NotifySocket:
    """Hand `environment` to the daemon. `abstract=True` uses a name without a file."""

    def __init__(self, watchdog_seconds=None, abstract=False):
        self._directory = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if abstract:
            name = f"outboxd-notify-{os.getpid()}-{id(self)}"
            self._socket.bind("\0" + name)
            self.address = "@" + name
        else:
            self._directory = tempfile.TemporaryDirectory(prefix="outboxd-notify-")
            self.address = os.path.join(self._directory.name, "socket")
            self._socket.bind(self.address)
        self.environment = {"NOTIFY_SOCKET": self.address}
        if watchdog_seconds is not None:
            self.environment["WATCHDOG_USEC"] = str(int(watchdog_seconds * 1e6))
        # A closed socket does not wake a thread that waits in recv.
        self._socket.settimeout(0.2)
        self._received = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        while True:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            with self._changed:
                for line in data.decode("utf-8", "replace").splitlines():
                    self._received.append((time.monotonic(), line))
                self._changed.notify_all()

    def lines(self):
        """Pairs of arrival (monotonic seconds) and text, in order."""
        with self._changed:
            return list(self._received)

    def texts(self):
        return [text for _, text in self.lines()]

    def wait_for(self, start, timeout=20.0, count=1):
        """Waits for the `count`th line that begins with `start`; its pair, or TimeoutError."""
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                found = [pair for pair in self._received if pair[1].startswith(start)]
                if len(found) >= count:
                    return found[count - 1]
                if not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    raise TimeoutError(f"no {start!r} within {timeout} s; said: {[text for _, text in self._received]}")

    def close(self):
        self._socket.close()
        if self._directory:
            self._directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
