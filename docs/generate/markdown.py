"""Markdown from plain text: the text is shown literally."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")
_QUOTED = re.compile(r"`([^`\n]+)`")
_ADDRESS = re.compile(r"https?://[^\s)>,;]+[^\s)>,;.:]")


def plain(text: str) -> str:
    """Text without any markup, on one line."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


def prose(text: str) -> str:
    """A sentence from the code, in which `this` is code and addresses are links."""
    found = re.split(f"({_QUOTED.pattern}|{_ADDRESS.pattern})", text)
    # Each match is followed by its inner group: the text between backticks, or nothing.
    parts = []
    for place, part in enumerate(found):
        if place % 3 == 0:
            parts.append(_kept_blanks(part))
        elif place % 3 == 1:
            parts.append(code(part[1:-1]) if part.startswith("`") else f"<{part}>")
    return "".join(parts).strip()


def _kept_blanks(text: str) -> str:
    inner = plain(text)
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and inner else ""
    return before + inner + after


def code(text: str) -> str:
    """Text as inline code, also in a cell of a table."""
    shown = html.escape(" ".join(text.split()), quote=False)
    return f"<code>{_SPECIAL.sub(lambda found: f'&#{ord(found[1])};', shown)}</code>"


def fence(text: str, language: str = "") -> str:
    """A block of code."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.strip(chr(10))}\n{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown; empty without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def page(*parts: str) -> str:
    """Parts of a page, one below the other; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
