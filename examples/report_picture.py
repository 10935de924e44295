"""Makes examples/report.png: the first screen of the report of a run on an H100.

    python -m examples.report_picture

Needs the extras `report` and `dev`, and Chromium.
"""

import tempfile
from pathlib import Path

import tracekit
from tests.kit.browser import browser, open_page
from tracekit.reporters.html.reports import write_any

# From the repository's root, so that the page names no other folder.
PICTURE = Path("examples/report.png")
RUN = Path("tests/data/h100/faults/attention-by-hand.json.gz")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, tracekit.load(RUN) as run:
        page = Path(folder) / "report.html"
        write_any(run, page)
        with (
            browser() as chromium,
            open_page(chromium, page, viewport={"width": 1280, "height": 1140}) as view,
        ):
            view.scroll_through()
            view.page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
