"""The pages that are files of the repository, and how their links are turned into the site's."""

from __future__ import annotations

import re
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

# The site's page for a file. A link to a file that is neither a page nor an example is an error.
_CHOSEN = {
    "README.md": "index.md",
    "docs/tutorial/tour.md": "tutorial/tour.md",
    "examples/walkthrough.md": "tutorial/walkthrough.md",
    "examples/diagnosis.md": "tutorial/diagnosis.md",
    "docs/howto/install.md": "howto/install.md",
    "docs/howto/profile.md": "howto/profile.md",
    "docs/howto/other-profilers.md": "howto/other-profilers.md",
    "docs/howto/gpu.md": "howto/gpu.md",
    "docs/howto/server.md": "howto/server.md",
    "docs/howto/graphs.md": "howto/graphs.md",
    "docs/howto/remote.md": "howto/remote.md",
    "docs/howto/memory.md": "howto/memory.md",
    "examples/lake.md": "howto/lake.md",
    "examples/cluster.md": "howto/cluster.md",
    "examples/plugin/README.md": "howto/plugins.md",
    "workloads/README.md": "howto/workloads.md",
    "queries/README.md": "reference/vocabulary.md",
    "docs/explanation/definitions.md": "explanation/definitions.md",
    "docs/explanation/units.md": "explanation/units.md",
    "docs/explanation/settings.md": "explanation/settings.md",
    "docs/explanation/work.md": "explanation/work.md",
    "docs/explanation/verdict.md": "explanation/verdict.md",
    "docs/explanation/replay.md": "explanation/replay.md",
    "docs/explanation/stability.md": "explanation/stability.md",
    "docs/explanation/formats.md": "explanation/formats.md",
    "docs/explanation/limits.md": "explanation/limits.md",
    "docs/explanation/performance.md": "explanation/performance.md",
    "tests/bench/VERDICTS.md": "explanation/verdicts.md",
    "tests/bench/NOTES.md": "explanation/measurements.md",
    "tests/bench/LIMITS.md": "explanation/known-work.md",
    "SECURITY.md": "explanation/security.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
}
# Other pages of examples/ are how-to guides.
PAGES = _CHOSEN | {
    file: f"howto/{path.stem}.md"
    for path in sorted((ROOT / "examples").glob("*.md"))
    if (file := f"examples/{path.name}") not in _CHOSEN
}
# Files other than pages that pages show or link to: pictures and programs.
_BESIDE = {
    path.relative_to(ROOT).as_posix(): f"files/{path.name}"
    for path in sorted((ROOT / "examples").iterdir())
    if path.is_file() and path.suffix != ".md"
}

_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def relinked(text: str, file: str) -> str:
    """A file's text, with links between files as links between pages.

    Raises:
        ValueError: a link's file is not on the site.
    """
    home = PAGES[file]

    def turned(link: re.Match[str]) -> str:
        target, mark, anchor = link[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        if target.endswith(".md") and (generated := _generated(home, target)):
            return f"{link[1]}{generated}{mark}{anchor}{link[3]}"
        path = normpath(PurePosixPath(file).parent / target)
        page = PAGES.get(path) or _BESIDE.get(path)
        if page is None:
            raise ValueError(f"{file}: {target} is not a page of the site")
        return f"{link[1]}{relpath(page, PurePosixPath(home).parent)}{mark}{anchor}{link[3]}"

    parts, last = [], 0
    for block in _FENCE.finditer(text):
        parts += [_LINK.sub(turned, text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*parts, _LINK.sub(turned, text[last:])])


def _generated(home: str, target: str) -> str | None:
    """A link to a page that is made from the code, which no file of the repository is."""
    path = normpath(PurePosixPath(home).parent / target)
    made = path.startswith(("reference/", "howto/remedies/", "explanation/thresholds"))
    return target if made and path not in PAGES.values() else None


def copied() -> dict[str, str]:
    """The pages that are files, by their path on the site."""
    from docs.generate.pictures import illustrated

    return {page: illustrated(relinked(read(file), file)) for file, page in PAGES.items()}


def linked_files() -> dict[str, bytes]:
    """The files of examples/ that are not pages, by their path on the site."""
    return {place: (ROOT / file).read_bytes() for file, place in _BESIDE.items()}


def guides() -> list[str]:
    """The pages of how-to guides that are files."""
    return [page for page in PAGES.values() if page.startswith("howto/")]
