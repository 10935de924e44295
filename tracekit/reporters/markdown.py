"""A comparison of two runs as GitHub's Markdown, for a comment on a pull request.

https://github.github.com/gfm
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracekit.compare.diff import Diff, Rows
from tracekit.text import duration, figure_of, printable

# GitHub refuses a longer comment.
MOST_CHARACTERS = 65_536
_NAME_CHARACTERS = 120
# `$` begins a formula: https://docs.github.com/get-started/writing-on-github.
_LIVE = "\\`*_{}[]<>&|~@#:.$"


def render(found: Diff, top: int) -> str:
    """The comparison, at most MOST_CHARACTERS long: with fewer rows where names are long."""
    while True:
        text = "\n".join(_lines(found, top)) + "\n"
        if len(text) <= MOST_CHARACTERS or top == 0:
            return text
        top //= 2


def _lines(found: Diff, top: int) -> Iterator[str]:
    yield f"### {found.title}"
    yield ""
    yield f"a: {_code(found.a)}, b: {_code(found.b)}"
    yield ""
    if found.summary:
        yield from _table(
            ("", "a", "b", "change", "b / a"),
            (
                (
                    row["metric"].removesuffix("_ns").removesuffix("_bytes"),
                    *(figure_of(row[name], row["metric"]) for name in ("a", "b", "change")),
                    "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
                )
                for row in found.summary
            ),
        )
    else:
        yield "One of the runs has no GPU ops, so they have no figures to compare."
    changed = [row for row in found.waterfall if row["change_ns"]]
    if changed:
        yield from ("", f"**From a to b: {_code(found.waterfall[0]['window'])}**", "")
        yield from _table(
            ("part", "change", "length so far"),
            (
                (_code(row["part"]), _signed(row["change_ns"]), duration(row["until_ns"]))
                for row in changed
            ),
        )
    for title, rows, key, count in (
        ("Kernels, GPU time per step", found.kernels, "kernel", "count"),
        ("Operators, per step", found.operators, "operator", "count"),
        ("Modules, per step", found.modules, "module", "calls"),
    ):
        yield from _changes(title, rows, key, count, top)
    if found.doubts:
        yield from ("", "**Caveats**", "")
    for row in found.doubts:
        yield f"- {row['severity']}: trace {row['trace_id']}: {_escaped(row['message'])}"


def _changes(title: str, rows: Rows, key: str, count: str, top: int) -> Iterator[str]:
    changed = [row for row in rows if row["change_ns"] or row.get("change", "same") != "same"]
    if not changed or not top:
        return
    yield from ("", f"<details><summary>{title}</summary>", "")
    yield from _table(
        ("change", f"{count} a", f"{count} b", key),
        (
            (
                _signed(row["change_ns"]),
                *(f"{row[f'{side}_{count}']:,.1f}".removesuffix(".0") for side in ("a", "b")),
                _code(row[key]),
            )
            for row in changed[:top]
        ),
    )
    yield from ("", "</details>")


def _table(columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "|".join("---" for _ in columns) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + duration(ns)


def _code(text: object) -> str:
    """Text from a trace: in <code>, GitHub links no name and no address."""
    shown = printable(str(text))
    if len(shown) > _NAME_CHARACTERS:
        shown = shown[: _NAME_CHARACTERS - 1] + "…"
    return f"<code>{_escaped(shown)}</code>"


def _escaped(text: str) -> str:
    """Text that means nothing in Markdown or HTML, and that is no address and no name of a user."""
    plain = "".join(f"&#{ord(each)};" if each in _LIVE else each for each in text)
    return " ".join(plain.split())
