"""HTTP: how long a call may take, and how much it may answer.

Files are read by fsspec's client (aiohttp), which the extra `remote` brings; short calls by urllib.
No answer is decoded on the way: what is compressed is decompressed as any file is.
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

# A call ends after this time in all, or this time without a byte.
CALL_S = 600
SILENCE_S = 30
# A file is read block by block, so that no single answer is as long as this.
MOST_ANSWERED_BYTES = 64 << 20
# What is read of the answer to a short call.
_SHORT_BYTES = 64 << 10


class Answer(NamedTuple):
    """The answer to a short call: its status, and the first line of its text or its reason."""

    status: int
    says: str


def ask(url: str, path: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Answer:
    """Calls `path` of the server at `url`, with a body as JSON by POST.

    The whole call takes at most `timeout_s`, and only the beginning of the answer is read.

    Raises:
        TracekitError: when that is not the address of a server.
        StorageError: when there is no answer in this time.
    """
    require_address(url)
    found: list[Answer | Exception] = []

    def call() -> None:
        try:
            found.append(_answer(f"{url.rstrip('/')}/{path}", timeout_s, body))
        except (OSError, HTTPException, ValueError) as error:
            found.append(error)

    # The timeout of a socket is for each byte: a server that sends one now and then never ends.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not found:
        raise StorageError(f"{url}: cannot be reached: no answer within {timeout_s:g} s")
    (answer,) = found
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
        said = opened.read(_SHORT_BYTES).decode(errors="replace").strip().partition("\n")[0]
        return Answer(opened.status, said or opened.reason)


def require_address(url: str) -> None:
    """Raises TracekitError unless this is the address of a server, without a user."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_address = is_address and url.isprintable() and " " not in url
    except ValueError:
        is_address = False
    if not is_address:
        raise TracekitError(f"{url}: is not the address of a server, such as http://localhost:8000")
    if "@" in parts.netloc:
        raise TracekitError(f"{url}: give the server's address without a user and a password")


async def session(**settings: Any) -> Any:
    """A session of aiohttp within the limits, for fsspec."""
    import aiohttp

    class Limited(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                found = bytearray()
                async for chunk in self.content.iter_any():
                    found += chunk
                    if len(found) > MOST_ANSWERED_BYTES:
                        self.close()
                        raise TracekitError(
                            f"{self.url}: answers with more than {MOST_ANSWERED_BYTES >> 20} MB at "
                            "once: download it first"
                        )
                self._body = bytes(found)
            return self._body

    return aiohttp.ClientSession(
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
        response_class=Limited,
        timeout=aiohttp.ClientTimeout(CALL_S, sock_connect=SILENCE_S, sock_read=SILENCE_S),
        **settings,
    )
