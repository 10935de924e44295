"""Applications of WSGI, served on the loopback interface."""

import threading
from contextlib import contextmanager


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
