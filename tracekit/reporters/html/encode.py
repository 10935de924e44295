"""Rows as compact JSON, in which text from traces can do no harm."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tracekit.text import printable

if TYPE_CHECKING:
    import polars

# Longer text from a trace is cut in a page.
_LONGEST_TEXT = 200


def script_json(value: object) -> str:
    """JSON that can stand in a script element: no text in it can end the element.

    https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
    """
    text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def columns(rows: polars.DataFrame) -> dict[str, Any]:
    """The columns of a frame; a column of text is each text once, and a number for each row."""
    return {column.name: _values(column) for column in rows}


def safe(text: str) -> str:
    """Text from a trace as a page shows it: printable, and not too long."""
    text = printable(text)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _values(column: polars.Series) -> Any:
    values = column.to_list()
    if any(isinstance(each, str) for each in values):
        numbers: dict[str | None, int] = {}
        at = [numbers.setdefault(each, len(numbers)) for each in values]
        return {"texts": [None if t is None else safe(str(t)) for t in numbers], "at": at}
    return [_number(each) for each in values]


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return safe(", ".join(map(str, value)))
    return value
