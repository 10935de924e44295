"""Serves one file to Perfetto's page, which runs in the browser and keeps what it reads there.

Perfetto opens a trace by its address, and its Content-Security-Policy allows one on this machine:
https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui,
https://github.com/google/perfetto/blob/main/tools/open_trace_in_ui.
"""

from __future__ import annotations

import math
import secrets
import shutil
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tracekit.errors import TracekitError

HOST, PORT = "127.0.0.1", 9001
UI = "https://ui.perfetto.dev"
BY_HAND = f"drag the file that `tracekit annotate TRACE -o FILE.json.gz` writes into {UI}"
_POLL_S = 0.05
# Idle connections are closed after this time.
_STALLED_S = 60


class TraceServer(ThreadingHTTPServer):
    """Serves `file` only on this machine, under an unguessable name, to pages from `UI`.

    The file may be written after the server is made, and before it serves.

    Raises:
        TracekitError: when the port is taken.
    """

    allow_reuse_address = True
    timeout = _POLL_S
    # A browser may keep a connection open without asking for anything.
    daemon_threads = True
    block_on_close = False

    def __init__(self, file: Path, port: int = PORT) -> None:
        self.file = file
        self.is_read = False
        # When a page last asked for the file; infinite while one reads it.
        self.asked_s = -math.inf
        self.path = f"/{secrets.token_urlsafe(16)}/{quote(file.name)}"
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise TracekitError(
                f"port {port} is in use, and Perfetto's page only reads from it: stop the program "
                "that uses it "
                f"(trace_processor, another `tracekit open`), or {BY_HAND}"
            ) from error

    @property
    def url(self) -> str:
        """The page that reads the file."""
        return f"{UI}/#!/?url=http://{HOST}:{self.server_port}{self.path}"

    def serve_once(self, patience_s: float = 600) -> None:
        """Serves until the page has read the whole file.

        Raises:
            TracekitError: when the page has not asked for it for `patience_s` seconds.
        """
        began_s = time.monotonic()
        while not self.is_read:
            if time.monotonic() - max(began_s, self.asked_s) > patience_s:
                raise TracekitError(
                    f"Perfetto's page has not asked for the trace in {patience_s:,g} s: open it "
                    f"again, or {BY_HAND}"
                )
            self.handle_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser may break off, and ask again."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: TraceServer
    timeout = _STALLED_S

    def do_GET(self) -> None:
        """Answers only GET, HEAD and OPTIONS requests for the file from `UI`."""
        host = self.headers.get("Host", "")
        # A page of another origin than the file's always sends its own; another program need not.
        is_ours = self.path == self.server.path and self.headers.get("Origin") == UI
        # A host name that resolves to this machine (DNS rebinding) is not its own name.
        if not is_ours or host.split(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        is_option = self.command == "OPTIONS"
        self.send_response(HTTPStatus.NO_CONTENT if is_option else HTTPStatus.OK)
        self.send_header("Access-Control-Allow-Origin", UI)
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if not is_option:
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(self.server.file.stat().st_size))
        self.end_headers()
        if self.command != "GET":
            return
        self.server.asked_s = math.inf
        try:
            with self.server.file.open("rb") as file:
                shutil.copyfileobj(file, self.wfile)
            self.server.is_read = True
        finally:
            self.server.asked_s = time.monotonic()

    do_HEAD = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the command tells the user everything needed."""
