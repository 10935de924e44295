"""Applications of WSGI, and servers that never end, on the loopback interface."""

import socket
import threading
from contextlib import contextmanager, suppress


def started(application):
    """A server, whose `url` is its address; `shutdown` and `server_close` end it."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_):
            pass

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    server.url = f"http://127.0.0.1:{server.port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@contextmanager
def served(application):
    """Serves it while the block runs; gives its address."""
    server = started(application)
    yield server.url
    server.shutdown()
    server.server_close()


# What a hostile server does after its head, or instead of it.
FAULTS = ("silent", "drips its head", "drips", "endless")
_MOST_BYTES, _MOST_S, _DRIP_S = 64 << 20, 60, 0.02


class Hostile:
    """A server that answers each call with one of FAULTS, until the client leaves, or for a minute.

    `ends` tells of each call whether the client left first."""

    def __init__(self, fault, head):
        self.fault, self.head = fault, head
        self.ends, self.calls, self.halted = [], [], threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.calls.append(threading.Thread(target=self.call, args=(client,), daemon=True))
                self.calls[-1].start()

    def call(self, client):
        with client:
            client.settimeout(_MOST_S)
            try:
                client.recv(65536)
                self.answer(client)
            except TimeoutError:
                self.ends.append(False)
            except OSError:
                self.ends.append(True)
            else:
                self.ends.append(self.fault == "silent")

    def answer(self, client):
        while self.fault == "silent" and client.recv(65536):
            pass
        if self.fault == "silent":
            return
        if self.fault != "drips its head":
            client.sendall(self.head)
        piece, wait_s = (b"x" * 65536, 0) if self.fault == "endless" else (b"X", _DRIP_S)
        for _ in range(int(_MOST_S / wait_s) if wait_s else _MOST_BYTES // len(piece)):
            client.sendall(piece)
            if self.halted.wait(wait_s):
                return

    def all_left(self):
        """Whether there were calls, and all clients have left."""
        for each in self.calls:
            each.join()
        return bool(self.ends) and all(self.ends)


@contextmanager
def hostile(fault, head=b"HTTP/1.1 200 OK\r\n\r\n"):
    server = Hostile(fault, head)
    yield server
    server.halted.set()
    server.listening.close()
