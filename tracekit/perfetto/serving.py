"""Serves one file to Perfetto's page, which runs in the browser and keeps what it reads there.

Perfetto opens a trace by its address, and its Content-Security-Policy allows one on this machine:
https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui,
https://github.com/google/perfetto/blob/main/tools/open_trace_in_ui.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tracekit.errors import TracekitError

HOST, PORT = "127.0.0.1", 9001
UI = "https://ui.perfetto.dev"
_POLL_S = 0.05


class TraceServer(ThreadingHTTPServer):
    """Serves `file` on this machine alone, under a name that cannot be guessed, to pages of `UI`.

    Raises:
        TracekitError: when the port is taken.
    """

    allow_reuse_address = True
    # A browser may keep a connection open without asking for anything.
    daemon_threads = True
    block_on_close = False

    def __init__(self, file: Path, port: int = PORT) -> None:
        self.file = file
        self.path = f"/{secrets.token_urlsafe(16)}/{quote(file.name)}"
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise TracekitError(
                f"port {port} is taken, and Perfetto's page reads from no other: stop what uses it "
                "(trace_processor, another `tracekit open`)"
            ) from error

    @property
    def url(self) -> str:
        """The page that reads the file."""
        return f"{UI}/#!/?url=http://{HOST}:{self.server_port}{self.path}"

    def serve_once(self) -> None:
        """Answers until the page has read the whole file."""
        self.serve_forever(_POLL_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser may break off, and ask again."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: TraceServer

    def do_GET(self) -> None:
        if self._answers(HTTPStatus.OK):
            with self.server.file.open("rb") as file:
                shutil.copyfileobj(file, self.wfile)
            self.server.shutdown()

    def do_HEAD(self) -> None:
        self._answers(HTTPStatus.OK)

    def do_OPTIONS(self) -> None:
        self._answers(HTTPStatus.NO_CONTENT)

    def _answers(self, status: HTTPStatus) -> bool:
        """Writes the head of the answer; False for any file but the one, and any page but one."""
        host = self.headers.get("Host", "")
        asked_by = self.headers.get("Origin", UI)
        is_ours = self.path == self.server.path and asked_by == UI
        # A name that leads here (DNS rebinding) is not this machine's.
        if not is_ours or host.split(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return False
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", UI)
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status is HTTPStatus.OK:
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(self.server.file.stat().st_size))
        self.end_headers()
        return True

    def log_message(self, format: str, *args: object) -> None:
        """The command says what the user needs to know."""
