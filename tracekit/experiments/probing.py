"""Tests a verdict by experiment: changes the workload, and compares with the trace's predictions.

The unchanged run and the changed ones take turns without the profiler. A prediction is a ratio: the
length of the replay with the change that stands for the experiment, over the unchanged replay's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tracekit.capture.workload import (
    CannotRun,
    Options,
    Runnable,
    import_torch,
    parameters_of,
    prepare,
    record,
)
from tracekit.database.session import Session
from tracekit.errors import TracekitError, first_line
from tracekit.examine import verdicts
from tracekit.experiments.predicting import Judgement, Moved, OnDevice, OnHost, Trial, judge
from tracekit.experiments.timing import ROUNDS, Rounds, interleaved, median
from tracekit.opening import load
from tracekit.records import Record
from tracekit.text import duration
from tracekit.thresholds import Thresholds

SCHEMA = "tracekit/probe/1"

UNCHANGED, MORE, LESS = "unchanged", "more work", "less work"
SLOWED, GRAPH = "slow host", "graph"
FEW_ROUNDS = 3
# In these workloads all device work scales with the hidden size: half of one is half of the other.
_ALL_HIDDEN = ("linear", "train-step", "mlp-")


class ProbeProgress(Protocol):
    """Receives a description of the current work."""

    def at(self, what: str) -> object:
        """Work on `what` begins."""


@dataclass(frozen=True)
class Experiment:
    """One changed run: the change, the prediction and the measurement.

    Times are of a step without the profiler. `error` is predicted over measured time, minus 1.
    `given_*` repeats the prediction with the device work recorded in the changed run
    (`work_factor` times the unchanged run's) instead of the expected device work.
    """

    name: str
    """The experiment's name."""
    what: str
    """What was changed."""
    reason: str | None = None
    """Why the experiment was not run."""
    arithmetic: str | None = None
    """The arithmetic of the prediction, or why there is no prediction."""
    predicted_ns: int | None = None
    """The step as predicted."""
    measured_ns: int | None = None
    """The step as measured."""
    moved: Moved | None = None
    error: float | None = None
    """Predicted over measured time, minus 1."""
    work_factor: float | None = None
    """The recorded device work of the changed run over the unchanged one's."""
    given_ns: int | None = None
    """The prediction with that device work."""
    given_error: float | None = None
    """That prediction over the measured time, minus 1."""


@dataclass(frozen=True)
class Probe(Record, form=SCHEMA):
    """A workload's verdict, the experiments, and whether they support the verdict."""

    workload: str
    variant: str | None
    parameters: dict[str, int | str]
    device: str
    regime: str
    """What the trace says bounds the run."""
    bottleneck: str | None
    confidence: str
    step_ns: int
    """The median step without the profiler."""
    spread: float
    host_ns: int | None
    """The host's own time in a step."""
    dilation: float
    """How many times as long a step takes with the profiler."""
    work_ns: int
    """The recorded device time per step; on a CPU, the time of compute operators."""
    replayed_ns: int | None
    """The unchanged step, replayed without the profiler's cost to the host; None on a CPU."""
    experiments: list[Experiment]
    """What was changed, predicted and measured."""
    judgement: Judgement


def probe(
    target: str,
    options: Options | None = None,
    *,
    rounds: int = ROUNDS,
    thresholds: Thresholds | None = None,
    progress: ProbeProgress | None = None,
) -> Probe:
    """Captures `target`, changes it, and compares what happens with what its trace predicts.

    The experiments double and halve the device work through the sizes, slow the host by a known
    delay, and capture the step as a CUDA graph. An experiment that cannot run states the reason.

    Raises:
        TracekitError: when the unchanged workload cannot run, or a changed one fails while it is
            timed.
    """
    options, limits = options or Options(), thresholds or Thresholds()
    if rounds < 1:
        raise TracekitError("a probe needs at least one round")
    say = progress.at if progress else str
    import_torch()
    from tracekit.experiments.slowing import forget_compiled

    compiled_before = forget_compiled()
    say(f"{target}: building")
    lab = _Lab(prepare(target, options), options, compiled_before)
    lab.build(say)
    say(f"{target}: timing the runs in turns")
    timed = interleaved(lab.steps(), lab.plain.device, rounds)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        traces = {}
        for name in (UNCHANGED, MORE, LESS):
            if run := lab.runs.get(name):
                say(f"{target}: capturing {lab.what[name]}")
                facts = {"unprofiled_step_ns": timed[name].median_ns}
                record(run, Path(folder) / f"{name}.json.gz", options, facts)
                traces[name] = opened.enter_context(load(Path(folder) / f"{name}.json.gz"))
        say(f"{target}: replaying")
        return _held_together(lab, timed, traces, limits)


class _Lab:
    """The unchanged run and its changed versions.

    `compiled_before` is the number of graphs that were compiled before the unchanged run was built.
    """

    def __init__(self, plain: Runnable, options: Options, compiled_before: int) -> None:
        self.plain, self.options, self.compiled_before = plain, options, compiled_before
        self.parameters = parameters_of(plain.target, options, plain.device)
        self.runs: dict[str, Runnable] = {UNCHANGED: plain}
        self.changed: dict[str, Callable[[], object]] = {}
        self.reasons: dict[str, str] = {}
        self.what = {UNCHANGED: "the unchanged run", GRAPH: "as a CUDA graph"}
        self.factors: dict[str, float | None] = {}
        self.delay_ns = 0
        self.note: str | None = None

    def steps(self) -> dict[str, Callable[[], object]]:
        return {name: run.step for name, run in self.runs.items()} | self.changed

    def build(self, say: Callable[[str], object]) -> None:
        for name, sizes, factor in (self._more(), self._less()):
            self.factors[name] = factor
            changes = ", ".join(f"{k} {self.parameters[k]} to {v}" for k, v in sizes.items())
            self.what[name] = changes or name
            if not sizes:
                self.reasons[name] = "no size of the workload sets how much work it does"
                continue
            say(f"{self.plain.target}: {changes}")
            try:
                self.runs[name] = prepare(self.plain.target, replace(self.options, **sizes))
            except CannotRun as error:
                self.reasons[name] = error.reason
        self._slow()
        self._graph()

    def _more(self) -> tuple[str, dict[str, Any], float | None]:
        """Twice the work: twice the batch, or, without a batch, larger matrices."""
        if "batch" in self.parameters:
            return MORE, {"batch": 2 * int(self.parameters["batch"])}, 2.0
        if "dim" in self.parameters:
            dim = int(self.parameters["dim"])
            larger = max(dim + 1, round(dim * 2 ** (1 / 3)))
            return MORE, {"dim": larger}, (larger / dim) ** 3
        return MORE, {}, None

    def _less(self) -> tuple[str, dict[str, Any], float | None]:
        hidden = int(self.parameters.get("hidden", 0))
        if hidden < 2:
            return LESS, {}, None
        known = self.plain.target.startswith(_ALL_HIDDEN)
        return LESS, {"hidden": hidden // 2}, hidden // 2 / hidden if known else None

    def _slow(self) -> None:
        """Delays by the host's time for a step; by half of it on a CPU, which also computes."""
        from tracekit.experiments.slowing import compiled_graphs, slowed

        few = interleaved({self.plain.target: self.plain.step}, self.plain.device, FEW_ROUNDS)
        host_ns = median(few[self.plain.target].host_ns)
        on_cpu = self.plain.device.type == "cpu"
        is_compiled = compiled_graphs() > self.compiled_before
        slow = slowed(self.plain.step, host_ns // 2 if on_cpu else host_ns, is_compiled)
        self.changed[SLOWED] = slow.step
        self.delay_ns = slow.delay_ns
        waits = "wait" if slow.pieces == 1 else "waits"
        self.what[SLOWED] = f"host {duration(slow.delay_ns)} slower, in {slow.pieces} {waits}"
        self.note = slow.note

    def _graph(self) -> None:
        if self.plain.device.type != "cuda":
            self.reasons[GRAPH] = "CUDA graphs need a CUDA device"
            return
        from tracekit.workloads.graphs import captured

        try:
            self.changed[GRAPH] = captured(self.plain.step)
        except Exception as error:
            self.reasons[GRAPH] = f"the step cannot be captured as a graph: {first_line(error)}"


def _held_together(
    lab: _Lab, timed: Mapping[str, Rounds], traces: Mapping[str, Session], limits: Thresholds
) -> Probe:
    predictors = {}
    for name, database in traces.items():
        found = verdicts(database, database.only(None), thresholds=limits)[0]
        kind = OnDevice if found.gpu is not None else OnHost
        predictors[name] = kind(Trial(database, found, timed[name], lab.delay_ns, limits))
        if name == UNCHANGED:
            analysis = found
    plain = predictors[UNCHANGED]
    grew = {
        name: each.work_ns / plain.work_ns for name, each in predictors.items() if plain.work_ns
    }
    experiments = [
        _experiment(name, lab, timed, grew.get(name), plain) for name in (MORE, LESS, SLOWED, GRAPH)
    ]
    ratios = {each.name: each.moved for each in experiments}
    device, host = plain.parts(ratios[MORE], lab.factors[MORE], grew.get(MORE), ratios[SLOWED])
    judged = judge(analysis.verdict.regime, device, host, limits.close_margin, plain.sides)
    step_ns = timed[UNCHANGED].median_ns
    dilation = (analysis.trace.capture or {})["profiled_step_ns"] / max(1, step_ns)
    if judged.agrees is False and dilation > 1.1:
        judged.why.append(
            f"The profiler made a step {dilation:.2g} times as long; the verdict is on that run."
        )
    return Probe(
        workload=lab.plain.target,
        variant=lab.plain.facts.get("variant"),
        parameters=lab.parameters,
        device=", ".join(analysis.trace.devices) or "CPU",
        regime=analysis.verdict.regime,
        bottleneck=analysis.verdict.bottleneck,
        confidence=analysis.verdict.confidence,
        step_ns=step_ns,
        spread=timed[UNCHANGED].spread,
        host_ns=plain.host_ns,
        dilation=dilation,
        work_ns=plain.work_ns,
        replayed_ns=plain.replayed_ns,
        experiments=experiments,
        judgement=judged,
    )


def _experiment(
    name: str,
    lab: _Lab,
    timed: Mapping[str, Rounds],
    grew: float | None,
    plain: OnDevice | OnHost,
) -> Experiment:
    """A changed run beside its prediction from the unchanged run's trace."""
    if name in lab.reasons:
        return Experiment(name, lab.what[name], lab.reasons[name])
    given = None
    if name == SLOWED:
        ratio, arithmetic = plain.of_delay()
        arithmetic += f" ({lab.note})" if lab.note else ""
    elif name == GRAPH:
        ratio, arithmetic = plain.of_graph()
    else:
        ratio, arithmetic = plain.of_work(lab.factors[name])
        given = plain.of_work(grew)[0] if grew else None
    base_ns, measured_ns = timed[UNCHANGED].median_ns, timed[name].median_ns

    def beside(predicted: float | None) -> tuple[int | None, float | None]:
        if predicted is None or not measured_ns:
            return None, None
        return round(predicted * base_ns), predicted * base_ns / measured_ns - 1

    predicted_ns, error = beside(ratio)
    given_ns, given_error = beside(given)
    return Experiment(
        name=name,
        what=lab.what[name],
        arithmetic=arithmetic,
        predicted_ns=predicted_ns,
        measured_ns=measured_ns,
        moved=moved(timed[UNCHANGED], timed[name]),
        error=error,
        work_factor=grew,
        given_ns=given_ns,
        given_error=given_error,
    )


def moved(before: Rounds, after: Rounds) -> Moved:
    """The ratio round by round, so that a slow spell of the machine affects both."""
    pairs = zip(after.step_ns, before.step_ns, strict=True)
    ratios = sorted(a / max(1, b) for a, b in pairs)
    count = len(ratios)
    return Moved(ratios[count // 2], ratios[count // 4], ratios[3 * count // 4])
