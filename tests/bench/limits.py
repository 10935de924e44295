"""How much of the kernels' time is of known work, in each shared real trace, and how far its units
are from the device's limits. Writes tests/bench/LIMITS.md.

    python -m tests.bench.limits
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tracekit
from tests.conftest import SHARED_TRACES
from tracekit.errors import TracekitError
from tracekit.text import duration, percent

PAGE = Path(__file__).with_name("LIMITS.md")
# Loaded together: what one of them runs, the other tells.
BESIDE = (
    ("mi300x-sglang-graph-decode", "mi300x-sglang-mixed"),
    ("mi300x-vllm-decode", "mi300x-vllm-capture"),
)
HEAD = """\
# How much work is known

For each real trace of the tests, of its kernels' time without communication: the share whose FLOPs
and bytes are known exactly, or by a lower bound, and what the rest is. Then the unit that takes
most of the time; what the device needs for it at least, as it is launched (floor) and with
everything fused (must). [How the work is known](../../docs/explanation/work.md) has the models and
their sources. `python -m tests.bench.limits` writes this page.

| trace | kernel time | exact | bounded | unknown | longest unknown | unit | floor | must |
|---|---|---|---|---|---|---|---|---|
"""
UNKNOWN = r"""
    SELECT regexp_replace(k.name, '^void |\(anonymous namespace\)::|[<(].*$', '', 'g') AS name,
           sum(dur_ns)::BIGINT AS ns
    FROM kernels AS k ANTI JOIN op_limit USING (trace_id, event_id)
    WHERE class <> 'communication' AND trace_id = 1 GROUP BY ALL ORDER BY ns DESC LIMIT 3
"""
_NAME = 40


def rows() -> Iterator[str]:
    names = [path.name.removesuffix(".json.gz") for path in SHARED_TRACES.glob("*.json.gz")]
    for each in sorted([(name,) for name in names] + list(BESIDE)):
        try:
            run = tracekit.load([SHARED_TRACES / f"{name}.json.gz" for name in each])
        except TracekitError:
            continue
        with run:
            yield from _row(run, ", beside ".join(each))


def _row(run: tracekit.Database, name: str) -> Iterator[str]:
    """The row of the first trace of a database; none: it ran no kernels."""
    classes = [row for row in run.ask("modelled", trace=1) if row["class"] != "communication"]
    all_ns = sum(row["kernel_ns"] for row in classes)
    if not all_ns:
        return
    exact_ns = sum(row["exact_ns"] for row in classes)
    modelled_ns = sum(row["modelled_ns"] for row in classes)
    rest = [
        f"{kernel[:_NAME]} {percent(ns / all_ns)}"
        for kernel, ns in run.fetch(UNKNOWN)[1]
        if ns >= all_ns / 100
    ]
    units = [each for each in run.ask("units", trace=1) if each["level"] == 1]
    limits = {
        row["group_id"]: row
        for row in run.ask("window_limits", trace=1)
        if row["floor_ns"] is not None
    }
    main = max(units, key=lambda each: each["count"] * each["median_ns"], default=None)
    limit = main and limits.get(main["group_id"])
    unit = f"{main['kind']} {duration(main['median_ns'])}" if main else ""
    floors = [duration(limit[name]) if limit else "" for name in ("floor_ns", "must_ns")]
    shares = (exact_ns, modelled_ns - exact_ns, all_ns - modelled_ns)
    cells = [
        name, duration(all_ns),
        *(percent(ns / all_ns) for ns in shares), ", ".join(rest), unit, *floors,
    ]  # fmt: skip
    yield f"| {' | '.join(cells)} |"


def main() -> None:
    PAGE.write_text(HEAD + "\n".join(rows()) + "\n")
    print(PAGE)


if __name__ == "__main__":
    main()
