"""A trace's graph, which can be replayed with changes, and its windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.replay.changes import Remedies, apply
from tracekit.replay.grammar import STEADY, Change, parse, times
from tracekit.replay.graph.arrays import Ints, shorter, sums
from tracekit.replay.graph.build import build
from tracekit.replay.limits import limits_of
from tracekit.replay.model import WHOLE_TRACE, WindowId
from tracekit.replay.one_offs import OneOff, one_offs_of, without
from tracekit.replay.recorder import RecorderCost, estimated, fitted
from tracekit.replay.simulator import Run, Scale, Simulator
from tracekit.replay.windows import (
    MarkedWindows,
    ReplayedWindow,
    Windows,
    gpu_active,
    ranges_of,
    steps_of,
    typical,
    whole,
)


class Replay:
    """The graph of one trace, which can be replayed with changes."""

    def __init__(self, database: Session, trace_id: int, ranges: str | None = None) -> None:
        self.database = database
        self.trace_id = trace_id
        self.thresholds = database.thresholds
        self.graph, self.waits = database.memoized(
            ("graph", trace_id, self.thresholds), lambda: build(database, trace_id)
        )
        self.steps: MarkedWindows = steps_of(database, trace_id, self.graph)
        self.ranges = None if ranges is None else ranges_of(database, trace_id, self.graph, ranges)
        """The annotated ranges that may be windows."""
        self.windows: dict[str, Windows] = {
            "gpu_active": gpu_active(self.graph), "trace": whole(self.graph), "step": self.steps,
        } | ({} if self.ranges is None else {"range": self.ranges})  # fmt: skip
        """All windows by kind, in the order of `lengths`."""
        self.watched: Ints = np.concatenate([window.instants for window in self.windows.values()])
        """The host instants that windows need."""
        self.remedies = Remedies(database, trace_id)

    @property
    def host_waits(self) -> dict[str, NDArray[Any]]:
        """The columns of the table `host_wait`."""
        columns = self.waits.rows(self.graph.host, self.graph.device)
        return columns | {"trace_id": np.full(len(columns["pid"]), self.trace_id)}

    def waits_for_device(self, start_ns: int, end_ns: int) -> tuple[int, int, int, int]:
        """The host's waits for ops of the device between two times: their number, their length,
        that of the longest, and the event of its call (-1: none was recorded)."""
        waits = self.host_waits
        inside = np.minimum(waits["end_ns"], end_ns) - np.maximum(waits["start_ns"], start_ns)
        lengths = np.where(waits["waits_for"] == "device op", np.maximum(inside, 0), 0)
        if not lengths.any():
            return 0, 0, 0, -1
        at = int(lengths.argmax())
        event_id = int(np.ma.filled(waits["event_id"], -1)[at])
        return int((lengths > 0).sum()), int(lengths.sum()), int(lengths[at]), event_id

    @cached_property
    def simulator(self) -> Simulator:
        return Simulator(self.graph, self.watched)

    @cached_property
    def work_ns(self) -> dict[str, int]:
        """The work of all threads and devices, by cause."""
        host, device = self.graph.host, self.graph.device
        totals = host.totals() + sums(device.cause, device.ns, len(CAUSES))
        return {name: int(ns) for name, ns in zip(CAUSES, totals, strict=True) if ns}

    def measured(self) -> Run:
        """The replay without changes. It is large, so it is not cached."""
        return self.simulator.run()

    @cached_property
    def one_offs(self) -> list[OneOff]:
        """Events that happened once; the change `steady` leaves them out."""
        return one_offs_of(self.database, self.trace_id, self.graph, self.steps)

    @cached_property
    def steady(self) -> Scale:
        """The run without one-offs."""
        return without(self.one_offs, self.graph)

    @cached_property
    def recorder(self) -> RecorderCost:
        """The recorder's cost to the host, fitted to the verdict's window if it was measured."""
        (row,) = self.database.ask("recorder", trace=self.trace_id)
        profiled_ns, unprofiled_ns = row["profiled_ns"], row["unprofiled_ns"]
        estimate = estimated(row["cost_ns"] or 0, self.graph)
        if not profiled_ns or not unprofiled_ns:
            return estimate
        window_id = self.window_id()
        window = self.window(window_id)

        def length(cost: RecorderCost) -> int:
            return window.length(self.run(base=cost.removed_from(self.steady)))

        recorded_ns = length(RecorderCost())
        dilation = profiled_ns / unprofiled_ns
        if window_id.kind == "step" and dilation > 1:
            dilation = recorded_ns / unprofiled_ns
        # Recording never makes a run faster: steps just differ.
        return fitted(max(1.0, dilation), recorded_ns, estimate.pace, length)

    @cached_property
    def unrecorded(self) -> Scale:
        """The unrecorded run without one-offs, to which prices apply. If the recorder's cost is
        unknown or small, this is the recorded run without one-offs."""
        return self.recorder.removed_from(self.steady)

    def must_ns(self, window: ReplayedWindow) -> int:
        """The least time of a window on its slowest device, however it is fused; 0: unknown."""
        rows = limits_of(self.database, self.trace_id)
        if isinstance(window.of, MarkedWindows):
            group = int(window.of.group[window.number])
            rows = [row for row in rows if row["group_id"] == group]
        else:
            rows = [row for row in rows if row["kind"] == "gpu_active"]
            if window.of is self.windows["gpu_active"]:
                rows = [row for row in rows if row["device_id"] == self._devices[window.number]]
        return max((row["must_ns"] or 0 for row in rows), default=0)

    def scale(self, *changes: Change | str, base: Scale | None = None) -> Scale:
        """A scale with these changes, on top of `base`, by default of the run (without one-offs if
        a change says so).

        Raises:
            TracekitError: when a text is not a change, or matches nothing in the trace.
        """
        parsed = [parse(change) if isinstance(change, str) else change for change in changes]
        if base is None and any(each.what == STEADY for each in parsed):
            base = self.steady
        scale = base.copy() if base else Scale.of(self.graph)
        for each in parsed:
            if each.what != STEADY:
                apply(each, scale, self.graph, self.remedies, self._replays_ns)
        return scale

    def run(self, *changes: Change | str, base: Scale | None = None) -> Run:
        """The replay with this `scale`."""
        return self.simulator.run(self.scale(*changes, base=base))

    def halved(self, scale: Scale, lengths: Callable[[Run], Any]) -> tuple[Any, Any, Any]:
        """Lengths in the replay with a scale, and the further gains from halving each side's
        work."""
        before, host, device = (
            lengths(self.run(*half, base=scale))
            for half in ((), times(host=0.5), times(device=0.5))
        )
        return before, shorter(before, host).tolist(), shorter(before, device).tolist()

    def typical_step(self) -> int | None:
        """The number of the main step of median length, without one-offs; None: no step gives the
        device work, or no unmarked one is usual. Complete steps are preferred over truncated ones,
        and steps that one-offs hardly change over the others.
        """
        steps = self.steps
        if not len(steps) or (steps.is_loop and self._found_ns("queued_before", "started_late")):
            # The span shows for how long work from before the recording held the loop up.
            return None
        recorded = steps.lengths(self.measured())
        lengths = steps.lengths(self.run(STEADY)) if self.one_offs else recorded
        working = [each for each in range(len(steps)) if lengths[each] > 0 and len(steps.ops(each))]
        working = [each for each in working if steps.is_whole[each]] or working
        *others, last = working or [0]
        if others and 2 * len(steps.ops(last)) < min(len(steps.ops(other)) for other in others):
            # The recording ends early in it.
            working = others
        working = [each for each in working if steps.is_main[each]] or working
        most = 1 + self.thresholds.close_margin
        # A step after a slow one may find device work already queued, and be shorter than usual.
        usual = [
            each
            for each in working
            if lengths[each] / most <= recorded[each] <= most * lengths[each]
        ] or working
        if not usual:
            return None
        step = usual[typical([int(lengths[each]) for each in usual])]
        if not steps.are_marked:
            # Where the other steps are far longer, no step stands for all.
            of_all = lengths[working].sum()
            if len(working) * lengths[step] < self.thresholds.usual_share * of_all:
                return None
        return step

    @cached_property
    def _replays_ns(self) -> int:
        """The host's time to launch a CUDA graph in every step."""
        return int(len(self.steps) * self.thresholds.launch_floor_ns)

    def _found_ns(self, *codes: str) -> list[int]:
        """The times of findings on the recording."""
        rows = self.database.rows_of_trace(
            "SELECT trace_id, code, time_ns FROM recorder_finding", self.trace_id
        )
        return [ns for code, ns in rows if code in codes]

    @cached_property
    def _devices(self) -> list[int]:
        devices: list[int] = np.unique(self.graph.device.device_id).tolist()
        return devices

    @cached_property
    def index_of(self) -> dict[WindowId, int]:
        """The index of each window in `lengths`."""
        ids = [
            WindowId(kind, self._devices[number] if kind == "gpu_active" else number)
            for kind, windows in self.windows.items()
            for number in range(len(windows))
        ]
        return {window_id: index for index, window_id in enumerate(ids)}

    def lengths(self, run: Run) -> Ints:
        """The lengths of all windows in a replay, in ns."""
        return np.concatenate([window.lengths(run) for window in self.windows.values()])

    def window(self, window_id: WindowId) -> ReplayedWindow:
        """A window whose length and critical path any replay gives. Without GPU ops, `gpu_active`
        is the whole trace."""
        kind, number = window_id
        if kind == "trace" or (kind == "gpu_active" and not self.graph.ops):
            return ReplayedWindow(self.windows["trace"], 0)
        at = self._devices.index(number) if kind == "gpu_active" else number
        return ReplayedWindow(self.windows[kind], at)

    def window_id(self, window: str | None = None, at: int | None = None) -> WindowId:
        """The window that `gpu_active`, `trace` or the name of a step means; by default, the
        verdict's. For ranges, the one numbered `at`, or the one of median length."""
        if self.ranges is not None and window not in ("gpu_active", "trace"):
            lengths = self.ranges.lengths(self.run(STEADY)).tolist()
            return WindowId("range", typical(lengths, at))
        step = self.typical_step() if window is None and self.graph.ops else None
        if window not in (None, "gpu_active", "trace"):
            step = self.steps.names.index(window)
        if step is not None:
            return WindowId("step", step)
        is_trace = window == "trace" or not self.graph.ops
        return WHOLE_TRACE if is_trace else WindowId("gpu_active", self._main_device())

    def bounds(self, kind: str = "gpu_active") -> ReplayedWindow:
        """The GPU-active span of the main device, or the whole trace."""
        return self.window(self.window_id(kind))

    def _main_device(self) -> int:
        query = "SELECT device_id FROM main_device WHERE trace_id = getvariable('trace')"
        return int(self.database.fetch(query, {"trace": self.trace_id})[1][0][0])
