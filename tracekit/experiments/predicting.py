"""Predicts a changed run from a trace: a ratio of step lengths, with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.errors import TracekitError
from tracekit.experiments.agreement import Moved, ShareRange, part_of_device, part_of_host, rest_of
from tracekit.experiments.timing import Rounds, median
from tracekit.replay.whatif import Replay
from tracekit.run import Database
from tracekit.text import duration
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import UNKNOWN

# A ratio and its arithmetic, or None and the reason why there is no prediction.
Prediction = tuple[float | None, str]

_NO_FACTOR = "unknown: how the work grows with that size is not known"


@dataclass(frozen=True)
class Trial:
    """A recorded run, its rounds without the profiler, and the delay of the slowed run."""

    database: Database
    analysis: Analysis
    timed: Rounds
    delay_ns: int
    limits: Thresholds


class _Predictor:
    """What both predictors share.

    `step_ns` is the step without the profiler. `share` is the part of it (at most 1) that the
    recorded device work takes, or the work that stands for device work.
    """

    share: float

    def __init__(self, trial: Trial) -> None:
        self.step_ns, self.delay_ns = max(1, trial.timed.median_ns), trial.delay_ns
        self.limits = trial.limits

    def _of_device(
        self, more: Moved | None, at_most: float | None, grew: float | None
    ) -> ShareRange | None:
        if more is None or at_most is None:
            return None
        return part_of_device(more, at_most, grew, self.share, self.limits)


class OnDevice(_Predictor):
    """Predicts from a trace with GPU ops, by replaying it.

    The profiler slows the host, so each replay first speeds the host's work up to its pace without
    the profiler (`timed`). `delay_ns` is the time that the slowed host adds to a step.
    """

    sides = ("the device's work", "the host's work")

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        database, analysis = trial.database, trial.analysis
        trace_id = analysis.trace.trace_id
        (metrics,) = database.ask("run_metrics", trace=trace_id)
        steps = database.ask("step_host", trace=trace_id)
        count = max(1, len(steps))
        host_ns = median(trial.timed.host_ns)
        # The wait in every step; the wait for the end of the last step does not count.
        waiting_ns = min((row["waiting_ns"] for row in steps), default=0)
        self.host_ns = max(1, host_ns - waiting_ns)
        self.work_ns = int(metrics["kernel_ns"] // count)
        busy_ns = analysis.gpu.busy_ns if analysis.gpu else 0
        self.share = min(1.0, busy_ns / count / self.step_ns)
        recorded_ns = median([row["host_ns"] for row in steps]) if steps else host_ns
        self.dilation = max(1.0, recorded_ns / max(1, host_ns))
        self.replayed_ns: int | None = None
        self.reason = ""
        try:
            self._replay = Replay(database, trace_id, trial.limits)
            self.replayed_ns = self._length() // max(1, len(self._replay.steps))
        except TracekitError as error:
            self.reason = f"unknown: the trace cannot be replayed: {error}"

    def of_work(self, factor: float | None) -> Prediction:
        """Predicts a run with `factor` times the device's work."""
        if factor is None:
            return None, _NO_FACTOR
        return self._replayed(f"device*{factor:.4f}")

    def of_delay(self) -> Prediction:
        return self._replayed(f"host*{1 + self.delay_ns / self.host_ns:.4f}")

    def of_graph(self) -> Prediction:
        return self._replayed("cuda-graph")

    def parts(
        self, more: Moved | None, at_most: float | None, grew: float | None, slow: Moved | None
    ) -> tuple[ShareRange | None, ShareRange | None]:
        """The parts of a step that follow the device's work and the host's work."""
        host = None
        if slow and self.delay_ns:
            delay, work = self.delay_ns / self.step_ns, self.host_ns / self.step_ns
            host = part_of_host(slow, delay, min(1.0, work))
        return self._of_device(more, at_most, grew), host

    def _replayed(self, change: str) -> Prediction:
        if self.reason:
            return None, self.reason
        text = f"replayed with {change}"
        if self.dilation > 1.01:
            text += f", after host*{1 / self.dilation:.3g} for the profiler"
        return self._length(change) / max(1, self._length()), text

    def _length(self, *changes: str) -> int:
        run = self._replay.run(f"host*{1 / self.dilation:.6f}", *changes)
        if len(self._replay.steps):
            return int(self._replay.steps.lengths(run).sum())
        return self._replay.bounds().length(run)


class OnHost(_Predictor):
    """Predicts from a trace without GPU ops, where compute operators stand for the device's work
    (queries/host/cpu_time.sql).

    These operators run within the call, so their time, the rest and a delay add up. The profiler
    makes the rest look longer, and hardly changes the operators.
    """

    sides = ("compute operators", "the rest")
    host_ns: int | None = None
    replayed_ns: int | None = None

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        database, analysis = trial.database, trial.analysis
        rows = database.ask("cpu_time", trace=analysis.trace.trace_id)
        steps = [row["compute_ns"] for row in rows if row["kind"] == "step"]
        self.work_ns = median(steps) if steps else 0
        self.share = min(1.0, self.work_ns / self.step_ns)
        self.is_known = analysis.verdict.regime != UNKNOWN and self.work_ns > 0

    def of_work(self, factor: float | None) -> Prediction:
        if not self.is_known:
            return None, "unknown: the trace does not show which operators compute"
        if factor is None:
            return None, _NO_FACTOR
        computing = duration(self.share * self.step_ns)
        ratio = 1 + (factor - 1) * self.share
        return ratio, f"compute operators, {computing} a step, x {factor:.3g}"

    def of_delay(self) -> Prediction:
        return 1 + self.delay_ns / self.step_ns, "a CPU computes within the call: the delay adds"

    def of_graph(self) -> Prediction:
        return None, "unknown: there is no device work to launch"

    def parts(
        self, more: Moved | None, at_most: float | None, grew: float | None, slow: Moved | None
    ) -> tuple[ShareRange | None, ShareRange | None]:
        part = self._of_device(more, at_most, grew) if self.is_known else None
        return part, rest_of(part) if part else None
