"""HTTP with limits on the time of calls and the size of answers.

Files are read by fsspec's client (aiohttp, from the extra `remote`), short calls use urllib.
Neither decodes answers: compressed data is decompressed like any file.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tracekit.errors import StorageError, TracekitError, reason_of

# Timeouts of a call: total, and without receiving a byte.
CALL_S = 600
SILENCE_S = 30
# Files are read block by block, so answers stay below this size.
MOST_ANSWERED_BYTES = 64 << 20
# The number of bytes read from the answer to a short call.
_SHORT_BYTES = 64 << 10


class Answer(NamedTuple):
    """The answer to a short call: its status, and the first line of its text or reason."""

    status: int
    says: str


def ask(url: str, path: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Answer:
    """Calls `path` on the server at `url`; a body is sent as JSON by POST.

    The whole call takes at most `timeout_s`, and only the start of the answer is read.

    Raises:
        TracekitError: when `url` is not a server's address.
        StorageError: when there is no answer in time.
    """
    require_address(url)
    results: list[Answer | Exception] = []

    def call() -> None:
        try:
            results.append(_answer(f"{url.rstrip('/')}/{path}", timeout_s, body))
        except (OSError, HTTPException, ValueError) as error:
            results.append(error)

    # A socket's timeout applies to each byte, so a slow sender would never time out.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not results:
        raise StorageError(f"{url}: cannot be reached: no answer within {timeout_s:g} s")
    (answer,) = results
    if isinstance(answer, Exception):
        reason = getattr(answer, "reason", None) or reason_of(answer)
        raise StorageError(f"{url}: cannot be reached: {reason}") from answer
    return answer


def _answer(url: str, timeout_s: float, body: Mapping[str, Any] | None) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        opened = urllib.request.urlopen(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        opened = error
    with opened:
        first_line = opened.read(_SHORT_BYTES).decode(errors="replace").strip().partition("\n")[0]
        return Answer(opened.status, first_line or opened.reason)


def require_address(url: str) -> None:
    """Raises TracekitError unless this is a server's address without a user name."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_address = is_address and url.isprintable() and " " not in url
    except ValueError:
        is_address = False
    if not is_address:
        raise TracekitError(f"{url}: is not the address of a server, such as http://localhost:8000")
    if "@" in parts.netloc:
        raise TracekitError(f"{url}: give the server's address without user name and password")


async def session(**settings: Any) -> Any:
    """An aiohttp session with these limits, for fsspec."""
    import aiohttp

    class Limited(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                body = bytearray()
                async for chunk in self.content.iter_any():
                    body += chunk
                    if len(body) > MOST_ANSWERED_BYTES:
                        self.close()
                        raise TracekitError(
                            f"{self.url}: the answer has more than {MOST_ANSWERED_BYTES >> 20} MB: "
                            "download the file first"
                        )
                self._body = bytes(body)
            return self._body

    return aiohttp.ClientSession(
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
        response_class=Limited,
        timeout=aiohttp.ClientTimeout(CALL_S, sock_connect=SILENCE_S, sock_read=SILENCE_S),
        **settings,
    )
