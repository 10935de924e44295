"""Changes a workload, and compares each changed run with its prediction.

The unchanged run and its variants take turns without the profiler. `probe` tests the verdict by
experiments; `probe_advice` applies remedies that need no edit of the user's code. A prediction is
a ratio: the length of the replay with the change, over the unchanged replay's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tracekit.capture.recorder import import_torch
from tracekit.capture.workload import CannotRun, Options, Runnable, parameters_of, prepare, record
from tracekit.errors import TracekitError, first_line
from tracekit.evidence.model import Trace
from tracekit.examine import examine
from tracekit.experiments import variants
from tracekit.experiments.predicting import (
    Judgement,
    OnDevice,
    OnHost,
    Prediction,
    judge,
    promises_of,
)
from tracekit.experiments.timing import (
    ROUNDS,
    Rounds,
    StepFailed,
    StepRatio,
    interleaved,
    step_ratio,
)
from tracekit.experiments.variants import GRAPHED, LESS, MORE, SLOWED, UNCHANGED, Variant
from tracekit.files import temporary_folder
from tracekit.opening import load
from tracekit.records import Record
from tracekit.thresholds import Thresholds
from tracekit.verdicts import verdicts


class Measurement(Struct, frozen=True, kw_only=True):
    """One changed run, and its step as measured without the profiler."""

    what: str
    """What was changed."""
    reason: str | None = None
    """Why it was not run."""
    arithmetic: str | None = None
    """The arithmetic of the prediction, or why there is none."""
    measured_ns: int | None = None
    """The step as measured."""
    moved: StepRatio | None = None
    error: float | None = None
    """Predicted over measured time, minus 1."""


class Experiment(Measurement, frozen=True, kw_only=True):
    """One changed run: the change, the prediction and the measurement.

    `given_*` repeats the prediction with the device work recorded in the changed run
    (`work_factor` times the unchanged run's) instead of the expected device work.
    """

    name: str
    """The experiment's name."""
    predicted_ns: int | None = None
    """The step as predicted."""
    work_factor: float | None = None
    """The recorded device work of the changed run over the unchanged one's."""
    given_ns: int | None = None
    """The prediction with that device work."""
    given_error: float | None = None
    """`given_ns` divided by the measured time, minus 1."""


class Applied(Measurement, frozen=True, kw_only=True):
    """A remedy applied to the workload: what the fix list promises, and what was measured.

    With a larger batch, times are for the same number of samples as in the unchanged step.
    """

    remedies: list[str]
    """Their names."""
    promised_ns: int | None = None
    """The step as the fix list promises it."""


class ProbedRun(Record, frozen=True, kw_only=True):
    """A workload's unchanged run."""

    workload: str
    variant: str | None
    parameters: dict[str, int | str]
    device: str
    step_ns: int
    """The median step without the profiler."""
    spread: float
    dilation: float
    """The length of a step with the profiler, in the recorded trace, as a multiple of that
    without."""


class Probe(ProbedRun, frozen=True, kw_only=True):
    """A workload's verdict, the experiments, and whether they support the verdict."""

    form: ClassVar[str] = "tracekit/probe/1"

    regime: str
    """What bounds the run, by its trace."""
    bottleneck: str | None
    confidence: str
    host_ns: int | None
    """The host's own time in a step."""
    work_ns: int
    """The recorded device time per step; on a CPU, the time of compute operators."""
    replayed_ns: int | None
    """The unchanged step, replayed without the profiler's cost to the host; None on a CPU."""
    experiments: list[Experiment]
    """The changes, predictions and measurements."""
    judgement: Judgement


class AppliedAdvice(ProbedRun, frozen=True, kw_only=True):
    """A workload's step, and its remedies that need no edit: promised and measured times."""

    form: ClassVar[str] = "tracekit/probe-advice/1"

    advice: list[Applied]
    """The remedies applied, with promised and measured times."""
    others: list[str]
    """Further advice, which needs an edit of the program."""


class VariantRounds(Struct, frozen=True):
    """The rounds of the unchanged run and of its variants, and why some variants did not run."""

    rounds: Mapping[str, Rounds]
    reasons: Mapping[str, str]

    def compare(self, variant: Variant, prediction: Prediction) -> dict[str, Any]:
        """The fields of Measurement, and the predicted step, for the same number of samples."""
        unchanged, changed = self.rounds[UNCHANGED], self.rounds.get(variant.what)
        predicted_ns = prediction.step_ns(unchanged.median_ns)
        found: dict[str, Any] = {
            "what": variant.what, "reason": self.reasons.get(variant.what),
            "arithmetic": prediction.arithmetic, "predicted_ns": predicted_ns, "error": None,
        }  # fmt: skip
        if changed is None:
            return found
        equal = Rounds([round(ns / variant.samples) for ns in changed.step_ns], [])
        found |= {"measured_ns": equal.median_ns, "moved": step_ratio(unchanged, equal)}
        if predicted_ns is not None and equal.median_ns:
            found["error"] = predicted_ns / equal.median_ns - 1
        return found


def take_turns(
    plain: Runnable, variants: Iterable[Variant], rounds: int, say: Callable[[str], object] = str
) -> VariantRounds:
    """Times the unchanged run and its variants in turns. A variant that cannot run, or that fails
    while it is timed, gets a reason.

    Raises:
        TracekitError: when the unchanged run fails.
    """
    steps, reasons = {UNCHANGED: plain.step}, {}
    for each in variants:
        say(f"{plain.target}: {each.what}")
        try:
            steps[each.what] = each.build()
        except CannotRun as error:
            reasons[each.what] = error.reason
        except Exception as error:
            reasons[each.what] = first_line(error)

    def note(error: StepFailed) -> None:
        reasons[error.name] = f"failed while it ran: {error.reason}"
        if error.name == UNCHANGED:
            raise TracekitError(f"{plain.target}: {reasons[UNCHANGED]}") from error

    say(f"{plain.target}: timing the runs in turns")
    return VariantRounds(interleaved(steps, plain.device, rounds, note), reasons)


class _Lab:
    """A workload to probe: its unchanged run, and how it is captured."""

    def __init__(
        self, target: str, options: Options, rounds: int, say: Callable[[str], object]
    ) -> None:
        if rounds < 1:
            raise TracekitError("a probe needs at least one round")
        import_torch()
        from tracekit.experiments.slowing import forget_compiled

        self.options, self.say = options, say
        self.compiled_before = forget_compiled()
        self.say(f"{target}: building")
        self.plain = prepare(target, options)

    def capture(self, run: Runnable, what: str, path: Path, timed: Rounds) -> None:
        self.say(f"{self.plain.target}: capturing {what}")
        record(run, path, self.options, {"unprofiled_step_ns": timed.median_ns})

    def about(self, unchanged: Rounds, trace: Trace) -> dict[str, Any]:
        """The fields of ProbedRun."""
        profiled_ns = (trace.capture or {})["profiled_step_ns"]
        return {
            "workload": self.plain.target,
            "variant": self.plain.facts.get("variant"),
            "parameters": parameters_of(self.plain.target, self.options, self.plain.device),
            "device": ", ".join(trace.devices) or "CPU",
            "step_ns": unchanged.median_ns,
            "spread": unchanged.spread,
            "dilation": profiled_ns / max(1, unchanged.median_ns),
        }


def probe(
    target: str,
    options: Options | None = None,
    *,
    rounds: int = ROUNDS,
    thresholds: Thresholds | None = None,
    say: Callable[[str], object] = str,
) -> Probe:
    """Captures `target`, changes it, and compares the measurements with predictions from its trace;
    `say` hears what is done.

    The experiments double and halve the device work through the sizes, slow the host by a known
    delay, and capture the step as a CUDA graph. An experiment that cannot run states the reason.

    Raises:
        TracekitError: when the unchanged workload cannot run.
    """
    options = options or Options()
    lab = _Lab(target, options, rounds, say)
    tests = variants.ExperimentVariants(lab.plain, options, lab.compiled_before)
    tried = {each.names[0]: each for each in tests.all()}
    turns = take_turns(lab.plain, tried.values(), rounds, say)
    predictors: dict[str, OnDevice | OnHost] = {}
    with temporary_folder() as folder, ExitStack() as opened:
        for name, run in {UNCHANGED: lab.plain, **tests.runs}.items():
            what = tried[name].what if name in tried else UNCHANGED
            if what not in turns.rounds:
                continue
            path = folder / f"{len(predictors)}.json.gz"
            timed = turns.rounds[what]
            lab.capture(run, what, path, timed)
            database = opened.enter_context(load(path))
            opened.enter_context(database.judging(thresholds))
            judged_run = verdicts(database, database.only(None))[0]
            kind = OnDevice if judged_run.gpu is not None else OnHost
            predictors[name] = kind(database, judged_run, timed, tests.slowed.delay_ns)
            if name == UNCHANGED:
                analysis = judged_run
        say(f"{target}: replaying")
        plain = predictors[UNCHANGED]
        grew = {
            name: each.work_ns / plain.work_ns for name, each in predictors.items() if plain.work_ns
        }
        slowed = plain.of_delay()
        if tests.slowed.note:
            slowed = slowed._replace(arithmetic=f"{slowed.arithmetic} ({tests.slowed.note})")
        expected = {
            MORE: plain.of_work(tests.factors[MORE]),
            LESS: plain.of_work(tests.factors[LESS]),
            SLOWED: slowed,
            GRAPHED: plain.of_graph(),
        }
        experiments = []
        for name, each in tried.items():
            if reason := turns.reasons.get(each.what):
                experiments.append(Experiment(name=name, what=each.what, reason=reason))
                continue
            found, factor = turns.compare(each, expected[name]), grew.get(name)
            given = turns.compare(each, plain.of_work(factor)) if factor else {}
            found |= {"given_ns": given.get("predicted_ns"), "given_error": given.get("error")}
            experiments.append(Experiment(**found, name=name, work_factor=factor))
        moved = {each.name: each.moved for each in experiments}
        parts = plain.parts(moved[MORE], tests.factors[MORE], grew.get(MORE), moved[SLOWED])
    verdict = analysis.verdict
    judged = judge(verdict.regime, *parts, plain.thresholds.close_margin, plain.sides)
    about = lab.about(turns.rounds[UNCHANGED], analysis.trace)
    if judged.agrees is False and about["dilation"] > 1.1:
        on_profiled = (
            f"The profiler made a step {about['dilation']:.2g} times as long; the verdict is on "
            "that run."
        )
        judged = replace(judged, why=[*judged.why, on_profiled])
    return Probe(
        **about,
        regime=verdict.regime,
        bottleneck=verdict.bottleneck,
        confidence=verdict.confidence,
        host_ns=plain.host_ns,
        work_ns=plain.work_ns,
        replayed_ns=plain.replayed_ns,
        experiments=experiments,
        judgement=judged,
    )


def probe_advice(
    target: str,
    options: Options | None = None,
    *,
    rounds: int = ROUNDS,
    thresholds: Thresholds | None = None,
    say: Callable[[str], object] = str,
) -> AppliedAdvice:
    """Captures `target`, asks what to change, and measures the changes that need no edit; `say`
    hears what is done.

    They are the step as a CUDA graph, torch.compile in two modes, TF32, a larger batch, and worker
    processes, where the user's function has a parameter for them. A change that cannot run states
    the reason.

    Raises:
        TracekitError: when the unchanged workload cannot run.
    """
    options = options or Options()
    lab = _Lab(target, options, rounds, say)
    few = interleaved({target: lab.plain.step}, lab.plain.device, variants.FEW_ROUNDS)[target]
    with temporary_folder() as folder:
        path = folder / "unchanged.json.gz"
        lab.capture(lab.plain, UNCHANGED, path, few)
        with load(path) as database, database.judging(thresholds):
            say(f"{target}: asking what to change")
            (trace_id,) = database.trace_ids()
            found = examine(database, trace_id, keep_replays=True)
            promises = promises_of(found)
            remedies = variants.RemedyVariants(lab.plain, options, promises).all()
            promised = [promises.of(*each.names) for each in remedies]
    turns = take_turns(lab.plain, remedies, rounds, say)
    applied = []
    for each, prediction in zip(remedies, promised, strict=True):
        fields = turns.compare(each, prediction)
        promised_ns = fields.pop("predicted_ns")
        applied.append(Applied(**fields, remedies=list(each.names), promised_ns=promised_ns))
    return AppliedAdvice(
        **lab.about(turns.rounds[UNCHANGED], found.analysis.trace),
        advice=applied,
        others=promises.others(variants.APPLIED),
    )
