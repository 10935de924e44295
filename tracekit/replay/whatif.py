"""How long a run would have taken if something had been faster: its graph replayed with changes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracekit.records import Record
from tracekit.replay.changes import Remedies, apply
from tracekit.replay.grammar import STEADY, Change, parse
from tracekit.replay.graph.arrays import Ints
from tracekit.replay.graph.build import build
from tracekit.replay.one_offs import OneOff, one_offs_of, without
from tracekit.replay.simulator import Run, Scale, Simulator
from tracekit.replay.windows import (
    Bounds,
    Marked,
    gpu_active,
    range_of,
    ranges_of,
    steps_of,
    typical,
    whole,
)
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    from tracekit.database.session import Session

SCHEMA = "tracekit/whatif/1"
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 2 << 20


@dataclass(frozen=True)
class StepLength:
    """A step's length as recorded and as predicted, from its begin to its completion."""

    name: str
    """The step's name."""
    window_ns: int
    predicted_ns: int


@dataclass(frozen=True)
class WhatIf(Record, form=SCHEMA):
    """A window of a run as recorded, and as predicted with the changes."""

    trace: str
    """The trace's path."""
    window: str
    """The window's name."""
    changes: list[str]
    window_ns: int
    predicted_ns: int
    speedup: float
    bound_by: dict[str, float]
    """The changed window's critical path by cause: shares of `predicted_ns`."""
    unknown_ns: int
    """The part of `predicted_ns` that is waits without an explanation in the trace. A replay keeps
    them as they were."""
    steps: list[StepLength]
    """The profiler's steps."""
    doubts: list[str]
    """Problems of the trace that make the prediction doubtful."""


class Replay:
    """The graph of one trace, which can be replayed with changes."""

    def __init__(
        self,
        database: Session,
        trace_id: int,
        thresholds: Thresholds | None = None,
        ranges: str | None = None,
    ) -> None:
        self.database = database
        self.trace_id = trace_id
        self.thresholds = thresholds or Thresholds()
        _return_freed_arrays()
        self.graph = database.once(
            ("graph", trace_id, self.thresholds), lambda: build(database, trace_id, self.thresholds)
        )
        self.steps: Marked = steps_of(database, trace_id, self.graph)
        self.ranges = None if ranges is None else ranges_of(database, trace_id, self.graph, ranges)
        """The annotated ranges that can be windows."""
        ends = whole(self.graph)
        watched = [ends.first_keys, ends.last_keys, self.steps.instants]
        if self.ranges is not None:
            watched.append(self.ranges.instants)
        self.watched: Ints = np.concatenate(watched)
        """The instants of the host whose times windows need."""
        self.remedies = Remedies(database, trace_id)

    @cached_property
    def simulator(self) -> Simulator:
        return Simulator(self.graph, self.watched)

    def measured(self) -> Run:
        """The replay without changes. It is large, so it is not cached."""
        return self.simulator.run()

    @cached_property
    def one_offs(self) -> list[OneOff]:
        """What happened once; the change `steady` takes it out."""
        return one_offs_of(self)

    def scale(self, *, steady: bool) -> Scale:
        """The scale of the replay without changes; if `steady`, of the one without one-offs."""
        return self._steady.copy() if steady else Scale.of(self.graph)

    @cached_property
    def _steady(self) -> Scale:
        return without(self.one_offs, self.graph)

    def run(self, *changes: str, steady: bool = False) -> Run:
        """The replay with these changes.

        Raises:
            TracekitError: a text is not a change, or matches nothing in the trace.
        """
        parsed = [parse(text, self.graph.causes) for text in changes]
        scale = self.scale(steady=steady or any(each.what == STEADY for each in parsed))
        for change in parsed:
            self._apply(change, scale)
        return self.simulator.run(scale)

    def change(self, scale: Scale, text: str) -> None:
        """Applies a change to a scale, after those that it holds already.

        Raises:
            TracekitError: the text is not a change, or matches nothing in the trace.
        """
        self._apply(parse(text, self.graph.causes), scale)

    def _apply(self, change: Change, scale: Scale) -> None:
        if change.what != STEADY:
            apply(change, scale, self.graph, self.database, self.trace_id, self.remedies)

    def typical_step(self) -> int | None:
        """The number of the profiler's step of median length, one-offs aside; None if no step gives
        the device work. Steps that hold hardly any one-offs come before those that do."""
        steps = self.steps
        if not steps.are_steps:
            return None
        recorded = steps.lengths(self.measured())
        lengths = steps.lengths(self.run(steady=True)) if self.one_offs else recorded
        working = [each for each in range(len(steps)) if lengths[each] > 0 and len(steps.ops(each))]
        most = 1 + self.thresholds.close_margin
        usual = [each for each in working if recorded[each] <= most * lengths[each]] or working
        return usual[typical([int(lengths[each]) for each in usual])] if usual else None

    def bounds(self, window: str | None = None, device_id: int | None = None) -> Bounds:
        """The GPU-active span of a device (by default the main one), or the whole trace."""
        graph = self.graph
        if window == "trace" or not graph.ops:
            return whole(graph)
        if device_id is None:
            device_id = self._main_device()
        return gpu_active(graph, device_id)

    def _main_device(self) -> int:
        query = "SELECT device_id FROM main_device WHERE trace_id = getvariable('trace')"
        return int(self.database.fetch(query, {"trace": self.trace_id})[1][0][0])


def _return_freed_arrays() -> None:
    """Makes glibc return the memory of freed arrays to the system; by default it may keep that of
    arrays of up to 32 MiB. https://man7.org/linux/man-pages/man3/mallopt.3.html"""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def what_if(
    database: Session,
    changes: Sequence[str],
    trace_id: int,
    window: str | None = None,
    thresholds: Thresholds | None = None,
) -> WhatIf:
    """How long a window would have taken with changes such as `host*0.5`.

    `tracekit.replay.grammar.HELP` lists the changes. `window` is `gpu_active`, `trace`, the name of
    a step, or the name of annotated ranges: then the one of median length, or with `NAME@2` the
    second. The default is the verdict's: the step of median length, or without steps the GPU-active
    span. Lengths are in ns.

    Raises:
        TracekitError: a text is not a change or matches nothing in the trace, the trace has no such
            window, or it has no events with a time.
    """
    judging = thresholds or Thresholds()
    with database.judging(judging):
        return _what_if(database, changes, trace_id, window, judging)


def _what_if(
    database: Session,
    changes: Sequence[str],
    trace_id: int,
    window: str | None,
    thresholds: Thresholds,
) -> WhatIf:
    meant = None if window is None else range_of(database, trace_id, window)
    ranges, at = meant or (None, None)
    replay = Replay(database, trace_id, thresholds, ranges)
    before, after = replay.measured(), replay.run(*changes)
    steps = replay.steps
    old, new = steps.lengths(before), steps.lengths(after)
    number = replay.typical_step() if window is None and replay.graph.ops else None
    if window in ("gpu_active", "trace") or (window is None and number is None):
        bounds = replay.bounds(window)
        name, window_ns, predicted_ns = bounds.name, bounds.length(before), bounds.length(after)
        path = bounds.path(after)
    elif replay.ranges is None:
        if number is None:
            number = steps.names.index(window or "")
        name, window_ns, predicted_ns = steps.names[number], int(old[number]), int(new[number])
        path = steps.path(after, number)
    else:
        lengths = replay.ranges.lengths(before)
        number = typical(replay.ranges.lengths(replay.run(steady=True)).tolist(), at)
        name, window_ns = replay.ranges.names[number], int(lengths[number])
        predicted_ns = int(replay.ranges.lengths(after)[number])
        path = replay.ranges.path(after, number)
    totals = path.by_cause
    return WhatIf(
        trace=database.ask("overview", trace=trace_id)[0]["path"],
        window=name,
        changes=list(changes),
        window_ns=window_ns,
        predicted_ns=predicted_ns,
        speedup=window_ns / predicted_ns if predicted_ns else 1.0,
        bound_by={each: ns / predicted_ns for each, ns in totals.items()} if predicted_ns else {},
        unknown_ns=totals.get("unknown", 0),
        steps=[
            StepLength(each, int(a), int(b))
            for each, a, b in zip(steps.names, old, new, strict=True)
        ],
        doubts=[
            f"{row['severity']}: {row['message']}"
            for row in database.doubts("device_work", trace_id)
            if row["severity"] in ("error", "warning")
        ],
    )
