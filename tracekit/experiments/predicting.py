"""Predicts changed runs, from a trace and from a fix list, and decides whether experiments support
the verdict.

A prediction is a ratio of step lengths, with its arithmetic.

A run is bound by the side whose work its length follows. The part of a step that follows a side's
work is the step's relative change over the work's relative change. Each part is known as a range;
if the two ranges overlap, the experiments are inconclusive.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from statistics import median_high
from typing import NamedTuple

from msgspec import Struct

from tracekit.advice.model import Advice, FixList
from tracekit.database.remedies import all_remedies, applied_as
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.examine import Examination
from tracekit.experiments.timing import Rounds, StepRatio
from tracekit.replay.prices import Prices
from tracekit.replay.replay import Replay
from tracekit.text import duration, percent, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN

# The remedies that a probe applies: their headers say how.
GRAPH, COMPILE, TENSOR_CORES, BATCH, WORKERS = map(
    applied_as, ("graph", "compile", "tf32", "batch", "workers")
)
# The only format with tensor cores that needs no edit of the program.
_TF32 = "tf32"


class Prediction(NamedTuple):
    """The predicted step over the unchanged one; None: no prediction, and `arithmetic` says why."""

    ratio: float | None
    arithmetic: str

    def step_ns(self, unchanged_ns: int) -> int | None:
        """The predicted length of a step that now takes `unchanged_ns`."""
        return None if self.ratio is None else round(unchanged_ns * self.ratio)


_NO_FACTOR = Prediction(None, "unknown: how the work grows with that size is not known")


class _Predictor(ABC):
    """Predicts changed runs from the trace of the unchanged one.

    `timed` are its rounds without the profiler, and `step_ns` their median; a slowed host adds
    `delay_ns` to a step. `share` is the part of the step (at most 1) that the recorded device work
    takes, or the work that stands for device work.
    """

    sides: tuple[str, str]
    work_ns: int
    share: float
    is_known = True
    host_ns: int | None = None
    replayed_ns: int | None = None

    def __init__(self, database: Session, analysis: Analysis, timed: Rounds, delay_ns: int) -> None:
        self.step_ns, self.delay_ns = max(1, timed.median_ns), delay_ns
        self.thresholds = database.thresholds
        self._read(database, analysis, timed)

    @abstractmethod
    def _read(self, database: Session, analysis: Analysis, timed: Rounds) -> None: ...

    def parts(
        self,
        more: StepRatio | None,
        at_most: float | None,
        grew: float | None,
        slow: StepRatio | None,
    ) -> tuple[ShareRange | None, ShareRange | None]:
        """The parts of a step that follow the device's work and the host's work."""
        device = None
        if self.is_known and more and at_most is not None:
            device = part_of_device(more, at_most, grew, self.share, self.thresholds)
        return device, self._of_host(device, slow)

    def _of_host(self, device: ShareRange | None, slow: StepRatio | None) -> ShareRange | None:
        return rest_of(device) if device else None


class OnDevice(_Predictor):
    """Predicts from a trace with GPU ops, by replaying the verdict's window as the fix list does:
    without one-offs and without what recording cost the host."""

    sides = ("the device's work", "the host's work")
    host_ns: int

    def _read(self, database: Session, analysis: Analysis, timed: Rounds) -> None:
        trace_id = analysis.trace.trace_id
        (metrics,) = database.ask("run_metrics", trace=trace_id)
        steps = database.ask("step_host", trace=trace_id)
        count = max(1, len(steps))
        # The wait in every step; the wait for the end of the last step does not count.
        waiting_ns = min((row["waiting_ns"] for row in steps), default=0)
        self.host_ns = max(1, median_high(timed.host_ns) - waiting_ns)
        self.work_ns = int(metrics["kernel_ns"] // count)
        busy_ns = analysis.gpu.busy_ns if analysis.gpu else 0
        self.share = min(1.0, busy_ns / count / self.step_ns)
        self._reason = ""
        try:
            replay = Replay(database, trace_id)
            self._prices = Prices(replay, replay.window(replay.window_id()))
            self.replayed_ns = self._prices.window_ns
        except TracekitError as error:
            self._reason = f"unknown: the trace cannot be replayed: {error}"

    def of_work(self, factor: float | None) -> Prediction:
        """Predicts a run with `factor` times the device's work."""
        return _NO_FACTOR if factor is None else self._replayed(f"device*{factor:.4f}")

    def of_delay(self) -> Prediction:
        return self._replayed(f"host*{1 + self.delay_ns / self.host_ns:.4f}")

    def of_graph(self) -> Prediction:
        return self._replayed("cuda-graph")

    def _of_host(self, device: ShareRange | None, slow: StepRatio | None) -> ShareRange | None:
        if not slow or not self.delay_ns:
            return None
        delay, work = self.delay_ns / self.step_ns, self.host_ns / self.step_ns
        return part_of_host(slow, delay, min(1.0, work))

    def _replayed(self, change: str) -> Prediction:
        if self._reason:
            return Prediction(None, self._reason)
        return Prediction(1 - self._prices.price(change).share, f"replayed with {change}")


class OnHost(_Predictor):
    """Predicts from a trace without GPU ops, where compute operators stand for the device's work
    (queries/host/cpu_time.sql).

    These operators run within the call, so their time, the rest and a delay add up. The profiler
    makes the rest longer, and hardly changes the operators.
    """

    sides = ("compute operators", "the rest")

    def _read(self, database: Session, analysis: Analysis, timed: Rounds) -> None:
        rows = database.ask("cpu_time", trace=analysis.trace.trace_id)
        steps = [row["compute_ns"] for row in rows if row["kind"] == "step"]
        self.work_ns = median_high(steps) if steps else 0
        self.share = min(1.0, self.work_ns / self.step_ns)
        self.is_known = analysis.verdict.regime != UNKNOWN and self.work_ns > 0

    def of_work(self, factor: float | None) -> Prediction:
        if not self.is_known:
            return Prediction(None, "unknown: the trace does not show which operators compute")
        if factor is None:
            return _NO_FACTOR
        computing = duration(self.share * self.step_ns)
        ratio = 1 + (factor - 1) * self.share
        return Prediction(ratio, f"compute operators, {computing} a step, x {factor:.3g}")

    def of_delay(self) -> Prediction:
        ratio = 1 + self.delay_ns / self.step_ns
        return Prediction(ratio, "a CPU computes within the call: the delay adds")

    def of_graph(self) -> Prediction:
        return Prediction(None, "unknown: there is no device work to launch")


class ShareRange(Struct, frozen=True):
    """The part of a step that follows a side's work, as a range within 0 to 1."""

    low: float
    """At least."""
    high: float
    """At most."""

    def __str__(self) -> str:
        if self.high - self.low < 0.01:
            return share(self.high, 1)
        return f"{share(self.low, 1)} to {share(self.high, 1)}"


class Judgement(Struct, frozen=True):
    """The experiments' conclusion: `agrees` is None if they, or the verdict, are inconclusive."""

    regime: str
    """The experiments' conclusion."""
    agrees: bool | None
    """Whether they support the verdict; null: unknown."""
    device: ShareRange | None
    """The part of a step that follows the device's work."""
    host: ShareRange | None
    """The part of a step that follows the host's work."""
    why: list[str]
    """The reasons, as sentences."""


def part_of_device(
    moved: StepRatio, at_most: float, grew: float | None, recorded: float, thresholds: Thresholds
) -> ShareRange | None:
    """The part of a step that follows the device's work, from a run with more of that work.

    By the experiment's design, the work grew at most `at_most` times. In the recording it grew only
    `grew` times, because weights are read once for any batch, and the smallest kernels take no
    longer. `recorded` is the work's recorded share of the step, the most that can follow it. None
    if the step grew far more than the work did: then the experiment changed something else, too.
    """
    low = (moved.low - 1) / (at_most - 1)
    if low > thresholds.most_excess:
        return None
    high = recorded
    if grew is not None and grew >= 1 + thresholds.least_growth:
        high = min(high, (moved.high - 1) / (min(grew, at_most) - 1))
    low, high = _within(low), _within(high)
    return ShareRange(min(low, high), max(low, high))


def part_of_host(moved: StepRatio, delay: float, work: float) -> ShareRange:
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


class Promises(Struct, frozen=True):
    """The savings of remedies by the run's fix list, at all call sites that it names."""

    fixes: FixList | None
    reason: str
    """Why there is no list."""
    price: Callable[[Sequence[str]], float]
    """The share of the window that several changes save together."""

    def of(self, *remedies: str) -> Prediction:
        """The step with the remedies at all call sites that the list names."""
        found = [each for remedy in remedies for each in self._advised(remedy)]
        if not found:
            return Prediction(None, self._why_not(remedies))
        names = " and ".join(dict.fromkeys(each.remedy for each in found))
        if len(found) == 1:
            saved = found[0].share or 0.0
            return Prediction(1 - saved, f"{names} saves {percent(saved)}, says the list")
        saved = self.price([each.change for each in found if each.change])
        text = f"{names} at {len(found)} places" if len(found) > len(set(remedies)) else names
        return Prediction(1 - saved, f"{text}, replayed together: {percent(saved)} less")

    def times(self) -> int | None:
        """The factor of the advised batch; None: no batch is advised."""
        changes = [each.change or "" for each in self._advised(BATCH)]
        found = re.fullmatch(r"batch\*(\d+)", changes[0]) if changes else None
        return int(found[1]) if found else None

    def workers(self) -> int | None:
        """The number of worker processes that keep up; None: none are advised."""
        details = [each.detail or "" for each in self._advised(WORKERS)]
        needed = [int(found[0]) for each in details if (found := re.match(r"\d+", each))]
        return max(needed, default=None)

    def others(self, applied: Collection[str]) -> list[str]:
        """The other remedies for the program's step, the highest saving first."""
        known = all_remedies()
        names = dict.fromkeys(each.remedy for each in self._list())
        return [each for each in names if each not in applied and not known[each].is_apart]

    def _list(self) -> list[Advice]:
        return [each for each in self.fixes.advice if not each.once] if self.fixes else []

    def _advised(self, remedy: str) -> list[Advice]:
        found = [each for each in self._list() if each.remedy == remedy]
        if remedy == TENSOR_CORES:
            return [each for each in found if (each.detail or "").startswith(_TF32)]
        return found

    def _why_not(self, remedies: Sequence[str]) -> str:
        if self.fixes is None:
            return f"not advised: {self.reason}"
        for each in self.fixes.unlooked:
            if set(remedies) <= set(each.remedies):
                return f"not looked for: {each.missing}"
        return "not advised"


def promises_of(found: Examination) -> Promises:
    """The promises of a run's fix list; several changes are priced by one replay with all of them.
    The examination holds the replays."""

    def price(changes: Sequence[str]) -> float:
        if found.gains is None:
            return 0.0
        replay = found.gains.replay
        return Prices(replay, replay.window(found.window_id)).price(*changes).share

    return Promises(found.fixes, "; ".join(found.analysis.verdict.why), price)
