"""A verdict as rows of the tables verdict, evidence, one_off, advice and host_wait
(queries/schema/tables.sql)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from tracekit.database import catalog, packaged
from tracekit.evidence.model import Period, Window
from tracekit.records import parsed, record
from tracekit.verdict.model import Analysis

if TYPE_CHECKING:
    from tracekit.replay.replay import Replay

# By table: rows, or columns.
Rows = dict[str, list[dict[str, Any]] | dict[str, Any]]
# For each part of an analysis: the subject of its numbers, and the question that defines them.
_DEFINED = {
    "gpu": ("window", "partition"),
    "idle": ("window", "partition"),
    "causes": ("window", "idle_causes"),
    "launch": ("trace", "launch_stats"),
    "host": ("window", "cpu_time"),
    "gains": ("window", "replay"),
}
# The denominators of launch shares.
_OF_LAUNCHES = {
    "launch.graph_share": "GPU ops",
    "launch.compiled_share": "kernels that can be fused",
}
_REPLAYED = "the window's replayed length without one-offs"


# The packages and modules of tracekit that a verdict depends on, besides the tables.
_RULES = (
    "advice", "evidence", "replay", "verdict", "causes.py", "database/remedies.py", "examine.py",
    "thresholds.py",
)  # fmt: skip


@cache
def rules() -> str:
    """A digest of the Python and SQL behind verdicts; a verdict with another digest is
    recomputed."""
    root = Path(__file__).parents[1]
    files = [
        file
        for rule in _RULES
        for file in sorted((root / rule).rglob("*.py") if "." not in rule else [root / rule])
    ]
    texts = (*packaged.texts().items(), *catalog.texts_of_plugins().items())
    digest = hashlib.sha256(repr(sorted(texts)).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def judged_by(context: str = "") -> str:
    """The inputs of a verdict besides its trace: the rules, and their `context`."""
    return f"{rules()}-{context}" if context else rules()


class WaitRows(dict[int, dict[str, Any]]):
    """The columns of the table host_wait by trace_id, for the replays that it is called with."""

    def __call__(self, replay: Replay) -> None:
        self[replay.trace_id] = replay.host_waits


def rows_of(analysis: Analysis, context: str = "", waits: dict[str, Any] | None = None) -> Rows:
    """The rows by table. The main verdict's `analysis` is the object that `analyze --json`
    prints; `waits` are the columns of the table host_wait."""
    trace_id = analysis.trace.trace_id
    advice = []
    for number, fix in enumerate(analysis.advice, 1):
        row = to_builtins(fix)
        place = row.pop("where")
        # The title names the plugin.
        del row["needs"], row["doubts"], row["places"], row["plugin"]
        advice.append({"number": number, "place": place} | row)
    tables = {
        "verdict": [row | {"judged_by": judged_by(context)} for row in _verdicts(analysis)],
        "evidence": list(_evidence(analysis)),
        "one_off": [to_builtins(one_off) for one_off in analysis.one_offs],
        "advice": advice,
    }
    rows: Rows = {
        table: [{"trace_id": trace_id} | row for row in listed] for table, listed in tables.items()
    }
    return rows if waits is None else rows | {"host_wait": waits}


def merged(several: Iterable[Rows]) -> Rows:
    """The rows of several verdicts together: writing them takes as long as those of one."""
    columns: list[dict[str, Any]] = []
    together: Rows = {}
    for rows in several:
        for table, added in rows.items():
            if isinstance(added, dict):
                columns.append(added)
            else:
                together.setdefault(table, []).extend(added)  # type: ignore[union-attr]
    if columns:
        from numpy import ma

        join: Any = ma.concatenate
        together["host_wait"] = {name: join([e[name] for e in columns]) for name in columns[0]}
    return together


def _verdicts(analysis: Analysis) -> Iterator[dict[str, Any]]:
    verdict = analysis.verdict
    best = next((fix for fix in analysis.advice if fix.share is not None), None)
    main = analysis.judged.window
    yield _window(main) | {
        "is_main": True,
        "group_id": analysis.judged.group,
        "regime": verdict.regime,
        "bottleneck": verdict.bottleneck,
        "margin": verdict.margin,
        "confidence": verdict.confidence,
        "sentence": verdict.headline,
        "saves_ns": best and best.saves_ns,
        "analysis": json.loads(json.dumps(analysis.as_dict(), default=str)),
    }
    for other in _others(analysis):
        judged = {"is_main": False, "regime": other.regime, "bottleneck": other.bottleneck}
        judged["group_id"] = other.group
        yield _window(other.window) | judged


def _others(analysis: Analysis) -> list[Period]:
    """All windows and steps except the judged one."""
    main = analysis.judged.window
    return [each for each in (*analysis.windows, *analysis.steps) if each.window != main]


def _window(window: Window) -> dict[str, Any]:
    return {name: value for name, value in to_builtins(window).items() if name != "span_ns"}


def _evidence(analysis: Analysis) -> Iterator[dict[str, Any]]:
    main = analysis.judged.window
    yield from _numbers(main, {"launch": analysis.launch})
    for name, value in analysis.verdict.shares.items():
        yield _number(main, f"shares.{name}", value, "gpu", "the window's length")
    for period in [analysis.judged, *_others(analysis)]:
        parts = {name: getattr(period, name) for name in ("gpu", "idle", "host", "gains")}
        yield from _numbers(period.window, parts)


def _numbers(window: Window, parts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for part, found in parts.items():
        for name, value in (to_builtins(found) if found is not None else {}).items():
            if name in ("device_id", "work_ns"):
                continue
            inner = value if isinstance(value, dict) else {"": value}
            for key, number in inner.items():
                if isinstance(number, int | float):
                    full = f"{part}.{name}.{key}".rstrip(".")
                    of = _REPLAYED if part == "gains" else None
                    yield _number(window, full, number, name if name == "causes" else part, of)


def _number(
    window: Window, name: str, value: float, part: str, denominator: str | None
) -> dict[str, Any]:
    if name.endswith("_ns") or part == "causes":
        unit, denominator = "ns", None
    elif denominator or name in _OF_LAUNCHES:
        unit, denominator = "fraction", denominator or _OF_LAUNCHES[name]
    else:
        unit, denominator = "count", None
    scope, question = _DEFINED[part]
    return {
        "kind": window.kind,
        "window_name": window.name,
        "name": name,
        "value": value,
        "unit": unit,
        "denominator": denominator,
        "scope": scope,
        "question": question,
    }


def read(text: object) -> Analysis:
    """The analysis in a row of the table verdict.

    Raises:
        ValueError: when the text was not written by this version.
    """
    if not isinstance(text, str):
        raise ValueError("no text")
    value = parsed(text)
    analysis = record(Analysis, value)
    if "parts" in value:
        return analysis
    # Another version wrote the analysis without these fields.
    from tracekit.verdict.parts import with_parts

    return with_parts(analysis)
