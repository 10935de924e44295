"""The page of a trace or a memory snapshot; and single charts for notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import altair
import polars as pl

from tracekit.advice.model import remedy_of
from tracekit.database import catalog
from tracekit.database.session import Session
from tracekit.errors import NoAttributeError, TracekitError
from tracekit.evidence.model import Window
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, without_empty
from tracekit.reporters.html.page import Part, View, part_of, told_view
from tracekit.reporters.html.sections import communication, flame, memory, timeline, work
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.parts import lists_of, next_of, shares_of
from tracekit.text import counted, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import WindowPart
from tracekit.verdict.regime import UNKNOWN

# The number of fixes on the first screen.
_ADVISED = 5
# Number of concurrent sections: one is drawn while the database answers for another. For a large
# trace, sections are made one by one to save memory.
_AT_ONCE = 2


def _folded(parts: Sequence[WindowPart]) -> list[WindowPart]:
    """The parts of a window, with those that take hardly anything as one."""
    few = charts.few({part.name: part.dur_ns for part in parts})
    rest = sum(part.dur_ns for part in parts if part.name in few)
    kept = [part for part in parts if part.name not in few]
    return [*kept, WindowPart(charts.FOLDED, UNKNOWN, rest)] if rest else kept


def trace_view(subject: Subject) -> View:
    """The verdict on a trace and all sections that have something to show; or, for a memory
    snapshot, the holders of memory."""
    if any(row["code"] == "memory_snapshot" for row in subject.findings):
        return _snapshot_view(Snapshot(subject.database, subject.trace_id))
    analysis = subject.analysis
    recurring = f"Savings of single changes, as a share {shares_of(analysis)}"
    facts = {
        "analysis": analysis,
        "parts": _folded(analysis.parts),
        "remedy_of": remedy_of,
        "found": {row["message"] for row in subject.findings},
        "source": f"{subject.command('analyze')} --json",
        "notes": subject.judgement.notes or ([] if analysis.advice else next_of(analysis)),
        "advised": [
            (heading, listed[:_ADVISED]) for heading, listed in lists_of(analysis.advice, recurring)
        ],
    }
    parts: list[Part] = []
    drawn = partial(part_of, subject, device_word=analysis.trace.device_word)
    at_once = 1 if subject.database.is_large else _AT_ONCE
    with ThreadPoolExecutor(at_once, "tracekit-sections") as threads:
        for part in threads.map(drawn, SECTIONS[:-1]):
            subject.figures += part.figures
            parts.append(part)
    # The last section lists the figures that each finding affects.
    parts += map(drawn, SECTIONS[-1:])
    return View(f"trace{subject.trace_id}", analysis.trace.path, "trace.html", facts, parts)


def health(subject: Subject) -> Figure | None:
    """The trace's caveats, each with the figures that it affects."""
    asking = ((figure.title, figure.question) for figure in subject.figures)
    doubts = {title: catalog.query(asked).doubts for title, asked in asking if asked}
    rows = []
    for row in subject.findings:
        touched = "; ".join(title for title, codes in doubts.items() if row["code"] in codes)
        if row["severity"] == "error":
            touched = "all figures"
        if row["severity"] != "missing":
            shown = {"severity": row["severity"], "found": row["message"], "events": row["count"]}
            rows.append(shown | {"figures_that_it_concerns": touched or None})
    if not rows:
        return None
    doubtful = sum(row["severity"] in ("error", "warning") for row in rows)
    number = "One finding makes" if doubtful == 1 else f"{doubtful} findings make"
    says = f"{number} numbers doubtful." if doubtful else "Nothing makes these numbers doubtful."
    if hints := len(rows) - doubtful:
        says += f" {counted(hints, 'hint')} on what a better recording would show."
    return Figure(
        says, without_empty(pl.DataFrame(rows)), control={"plain": True},
        title="What is doubtful", source=subject.source("health"),
    )  # fmt: skip


def missing(subject: Subject) -> Figure | None:
    """The data that was not recorded, and how to record it."""
    lacks = [row["message"] for row in subject.findings if row["severity"] == "missing"]
    if not lacks:
        return None
    says = (
        "The program may not have some of this at all. Brackets contain the profiler setting "
        "that records it, if there is one."
    )
    source, title = subject.source("missing"), "What was not recorded"
    rows = pl.DataFrame({"not_in_the_trace": lacks})
    return Figure(says, rows, control={"plain": True}, title=title, source=source)


# In the order of the page.
SECTIONS = (
    ("faster", "If something were faster", (timeline.faster,)),
    ("steps", "Steps", (timeline.steps,)),
    ("waits", "What the device waits for", (timeline.culprits,)),
    ("timeline", "Timeline", (timeline.timeline,)),
    ("flame", "Flame graph", (flame.flame,)),
    ("gaps", "Idle gaps", (timeline.gaps,)),
    ("kernels", "Kernels", (work.kernels, work.roofline)),
    ("host", "Host", (work.operators, work.python, work.delays, work.queue, work.synchronizations)),
    ("memory", "Memory",
     (memory.memory, memory.holders, memory.memory_sites, memory.memory_flame, memory.copies)),
    ("communication", "Communication",
     (communication.communication, communication.reasons, communication.bandwidth,
      communication.collectives)),
    ("counters", "Hardware counters", (work.counters,)),
    ("health", "Health", (health, missing)),
)  # fmt: skip
_FIGURES = {make.__name__: make for _, _, makers in SECTIONS for make in makers}


_OF_SNAPSHOT = (
    ("oom", "Out of memory", (memory.out_of_memory,)),
    ("time", "Memory over time", (memory.memory,)),
    ("roles", "What held the peak", (memory.memory_roles, memory.memory_growth)),
    ("peak", "The peak", (memory.memory_flame, memory.memory_sites, memory.largest_allocations)),
    ("end", "When the snapshot was taken", (memory.memory_left,)),
    ("segments", "Segments", (memory.fragmentation, memory.memory_segments)),
)


class Snapshot(Subject):
    """A memory snapshot, as the figures of its page ask for it."""

    @cached_property
    def window(self) -> Window:
        """The recorded actions."""
        at_ns = self.rows("memory_timeline")["at_ns"]
        first, last = (0, 0) if at_ns.is_empty() else (at_ns.min(), at_ns.max())
        assert isinstance(first, int) and isinstance(last, int)
        return Window("trace", "the recording", first, last, last - first)

    def sentences(self) -> list[str]:
        """The verdict's reasons and what to try; without these, sentences on the memory of each
        device: in use, reserved, and at its peak."""
        verdict = self.analysis.verdict
        if self.analysis.memory is not None:
            return [*verdict.why, *verdict.try_next[:-1], *self._pools()]
        return self._pools()

    def _pools(self) -> list[str]:
        pools = self.rows("fragmentation").group_by("device_id", maintain_order=True).agg(
            pl.sum("segment_bytes", "used_bytes", "rounding_bytes")
        )  # fmt: skip
        sentences = [
            f"Device {row['device_id']}: {size(row['used_bytes'] - row['rounding_bytes'])} in use "
            f"and {size(row['segment_bytes'])} reserved when the snapshot was taken."
            for row in pools.to_dicts()
        ]
        for row in self.rows("memory_peak", top=1).to_dicts():
            sentences.append(
                f"Device {row['device_id']}: at most {size(row['peak_bytes'])} in use while "
                f"recording, of {size(row['reserved_bytes'])} reserved."
            )
        if not self.window.span_ns:
            sentences.append(
                "No actions were recorded (torch.cuda.memory._record_memory_history): the page "
                "shows what was in use when the snapshot was taken."
            )
        return sentences


def _snapshot_view(subject: Snapshot) -> View:
    sql = "SELECT path, metadata FROM trace WHERE trace_id = getvariable('trace')"
    ((path, metadata),) = subject.database.fetch(sql, {"trace": subject.trace_id})[1]
    allocator = json.loads(metadata).get("memory_snapshot", {}).get("allocator_settings") or {}
    settings = allocator.get("PYTORCH_CUDA_ALLOC_CONF")
    about = f"PYTORCH_CUDA_ALLOC_CONF={settings}" if settings else ""
    parts = [part_of(subject, section) for section in _OF_SNAPSHOT]
    name, said = f"trace{subject.trace_id}", subject.sentences()
    headline = subject.analysis.headline if subject.analysis.memory else "Memory snapshot"
    return told_view(name, path, headline, about, said, parts)


class Plots:
    """The Altair charts of a trace's page: one method for each figure.

    The chart holds its rows and can be restyled: `run.plot.timeline().properties(height=400)`. All
    take `trace` (a trace_id), `window` and `thresholds`, as `Database.verdict` does.
    """

    def __init__(self, database: Session) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Callable[..., altair.TopLevelMixin]:
        if name not in _FIGURES:
            raise NoAttributeError(
                f"there is no figure {name!r}; the figures are: {', '.join(_FIGURES)}"
            )

        def plot(
            trace: int | None = None,
            window: str | None = None,
            thresholds: Thresholds | None = None,
        ) -> altair.TopLevelMixin:
            database = self._database
            with database.judging(thresholds):
                figure = _FIGURES[name](Subject(database, database.only(trace), window))
            if figure is None:
                raise TracekitError(f"{database.name}: the trace has no data for {name}")
            if figure.chart is None:
                raise TracekitError(
                    f"{name} is a table, not a chart; `{figure.source}` prints its rows"
                )
            chart: Any = figure.chart
            # Altair refuses frames of more than 5,000 rows, but not their values.
            chart.data = altair.InlineData(values=figure.rows.to_dicts())
            return figure.chart

        plot.__name__ = name
        plot.__doc__ = _FIGURES[name].__doc__
        return plot

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *_FIGURES])

    def __repr__(self) -> str:
        return f"charts: {', '.join(f'.{name}()' for name in _FIGURES)}"
