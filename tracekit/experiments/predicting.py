"""Predicts a changed run from a trace, and decides whether experiments support the verdict.

A prediction is a ratio of step lengths, with its arithmetic.

A run is bound by the side whose work its length follows. The part of a step that follows a side's
work is the step's relative change over the work's relative change. Each part is known as a range;
if the two ranges overlap, the experiments are inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.experiments.timing import Rounds, median
from tracekit.replay.replay import Replay
from tracekit.text import duration, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN

# A ratio and its arithmetic, or None and the reason why there is no prediction.
Prediction = tuple[float | None, str]

_NO_FACTOR = "unknown: how the work grows with that size is not known"


@dataclass(frozen=True)
class Trial:
    """A recorded run, its rounds without the profiler, and the delay of the slowed run."""

    database: Session
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


@dataclass(frozen=True)
class Moved:
    """Step length of a changed run over the unchanged run's, by round: median and quartiles."""

    ratio: float
    """The median."""
    low: float
    """The lower quartile (times as long)"""
    high: float
    """The upper quartile (times as long)"""


@dataclass(frozen=True)
class ShareRange:
    """The part of a step that follows a side's work, as a range within 0 to 1."""

    low: float
    """At least."""
    high: float
    """At most."""

    def __str__(self) -> str:
        if self.high - self.low < 0.01:
            return share(self.high, 1)
        return f"{share(self.low, 1)} to {share(self.high, 1)}"


@dataclass(frozen=True)
class Judgement:
    """What the experiments say: `agrees` is None if they, or the verdict, are inconclusive."""

    regime: str
    """What the experiments say."""
    agrees: bool | None
    """Whether they support the verdict; null: it cannot be told."""
    device: ShareRange | None
    """The part of a step that follows the device's work."""
    host: ShareRange | None
    """The part of a step that follows the host's work."""
    why: list[str]
    """The reasons, as sentences."""


def part_of_device(
    moved: Moved, at_most: float, grew: float | None, recorded: float, limits: Thresholds
) -> ShareRange | None:
    """The part of a step that follows the device's work, from a run with more of that work.

    By construction the work grew at most `at_most` times. In the recording it grew `grew` times:
    less, because weights are read once for any batch, and the smallest kernels take no longer.
    `recorded` is the work's recorded share of the step, the most that can follow it. None if the
    step grew far more than the work did: then the experiment changed something else, too.
    """
    low = (moved.low - 1) / (at_most - 1)
    if low > limits.most_excess:
        return None
    high = recorded
    if grew is not None and grew >= 1 + limits.least_growth:
        high = min(high, (moved.high - 1) / (min(grew, at_most) - 1))
    low, high = _within(low), _within(high)
    return ShareRange(min(low, high), max(low, high))


def part_of_host(moved: Moved, delay: float, work: float) -> ShareRange:
    """The part of a step that follows the host's work, from a run slowed by a known delay.

    `delay` and `work` are the added time and the host's own time, as shares of the unchanged step.
    The same fraction of the host's work shows in the step as of the delay.
    """
    return ShareRange(*(_within(_within((r - 1) / delay) * work) for r in (moved.low, moved.high)))


def rest_of(part: ShareRange) -> ShareRange:
    """The rest of a step: the overhead on a CPU, where operators compute within the call."""
    return ShareRange(1 - part.high, 1 - part.low)


def judge(
    verdict: str,
    device: ShareRange | None,
    host: ShareRange | None,
    margin: float,
    sides: tuple[str, str] = ("the device's work", "the host's work"),
) -> Judgement:
    """The regime that the experiments show, and whether it is the verdict's.

    One side's whole range has to exceed the other's by `margin`. `sides` names the two sides in
    sentences.
    """
    if device is None or host is None:
        side = sides[0] if device is None else sides[1]
        why = [f"No experiment shows how much of the step follows {side} alone."]
        return Judgement(UNKNOWN, None, device, host, why)
    why = [f"{device} of the step follows {sides[0]}; {host} follows {sides[1]}."]
    regime = UNKNOWN
    if device.low > host.high + margin:
        regime = COMPUTE
    elif host.low > device.high + margin:
        regime = OVERHEAD
    else:
        why.append(f"They are less than {share(margin, 1)} apart: the experiments cannot tell.")
    if regime == UNKNOWN or verdict == UNKNOWN:
        if verdict == UNKNOWN:
            why.append("The verdict is unknown: there is nothing to confirm.")
        return Judgement(regime, None, device, host, why)
    return Judgement(regime, regime == verdict, device, host, why)


def _within(part: float) -> float:
    return min(1.0, max(0.0, part))
