"""A headless Chromium for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
            figure.scroll_into_view_if_needed()
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
    """The page at `path`; options of Playwright's `new_context` set its size and colours."""
    context = running.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
    try:
        found = Opened(context.new_page())
        found.open(path)
        yield found
    finally:
        context.close()
