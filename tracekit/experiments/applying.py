"""Applies the remedies that need no edit of the user's code, and measures what each one saves.

The unchanged run and the changed ones take turns without the profiler. Beside each measurement
stands what the run's fix list promises (tracekit/advice).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tracekit.capture.workload import (
    CannotRun,
    Options,
    Runnable,
    import_torch,
    parameters_of,
    prepare,
    record,
)
from tracekit.errors import TracekitError, first_line
from tracekit.examine import examine
from tracekit.experiments.predicting import Moved
from tracekit.experiments.probing import FEW_ROUNDS, UNCHANGED, ProbeProgress, moved
from tracekit.experiments.timing import ROUNDS, Rounds, Step, StepFailed, interleaved
from tracekit.experiments.variants import (
    BATCH,
    COMPILE,
    GRAPH,
    TENSOR_CORES,
    WORKERS,
    Promise,
    Promises,
    Variant,
    Variants,
    price_together,
)
from tracekit.opening import load
from tracekit.records import Record
from tracekit.thresholds import Thresholds

SCHEMA = "tracekit/probe-advice/1"
APPLIED = (GRAPH, COMPILE, TENSOR_CORES, BATCH, WORKERS)


@dataclass(frozen=True)
class Applied:
    """A remedy applied to the workload: what the fix list promises, and what was measured.

    Times are of a step without the profiler; of a larger batch, of as many samples as the unchanged
    step has. `error` is promised over measured time, minus 1.
    """

    remedies: list[str]
    """Their names."""
    what: str
    """What was applied."""
    reason: str | None = None
    """Why it was not run."""
    arithmetic: str | None = None
    """Where the promise is from, or why there is none."""
    promised_ns: int | None = None
    """The step as the fix list promises it."""
    measured_ns: int | None = None
    """The step as measured."""
    moved: Moved | None = None
    error: float | None = None
    """Promised over measured time, minus 1."""


@dataclass(frozen=True)
class AppliedAdvice(Record, form=SCHEMA):
    """A workload's step, and its remedies that need no edit, promised beside measured."""

    workload: str
    variant: str | None
    parameters: dict[str, int | str]
    device: str
    step_ns: int
    """The median step without the profiler."""
    spread: float
    dilation: float
    """How many times as long a step takes with the profiler, whose trace the promises are from."""
    advice: list[Applied]
    """What was applied, promised and measured."""
    others: list[str]
    """What the list also advises, which needs an edit of the program."""


def probe_advice(
    target: str,
    options: Options | None = None,
    *,
    rounds: int = ROUNDS,
    thresholds: Thresholds | None = None,
    progress: ProbeProgress | None = None,
) -> AppliedAdvice:
    """Captures `target`, asks what to change, and measures the changes that need no edit.

    They are: the step as a CUDA graph, torch.compile in two modes, TF32, a larger batch, and worker
    processes, where the user's function has a parameter for them. A change that cannot run states
    the reason.

    Raises:
        TracekitError: when the unchanged workload cannot run.
    """
    options, limits = options or Options(), thresholds or Thresholds()
    if rounds < 1:
        raise TracekitError("a probe needs at least one round")
    say = progress.at if progress else str
    import_torch()
    from tracekit.experiments.slowing import forget_compiled

    forget_compiled()
    say(f"{target}: building")
    plain = prepare(target, options)
    few = interleaved({target: plain.step}, plain.device, FEW_ROUNDS)[target]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unchanged.json.gz"
        say(f"{target}: capturing the unchanged run")
        facts = record(plain, path, options, {"unprofiled_step_ns": few.median_ns})
        with load(path) as database:
            say(f"{target}: asking what to change")
            (trace_id,) = database.trace_ids()
            found = examine(database, trace_id, thresholds=limits)
            analysis, fixes = found.analysis, found.fixes
            why = "; ".join(analysis.verdict.why)
            promises = Promises(fixes, why, price_together(database, trace_id, limits))
            variants = Variants(plain, options, promises).all()
            promised = [promises.of(*each.remedies) for each in variants]
    steps, reasons = _built(variants, plain, say)
    say(f"{target}: timing the runs in turns")
    timed = _in_turns(steps, plain, rounds, reasons)
    unchanged = timed[UNCHANGED]
    return AppliedAdvice(
        workload=target,
        variant=plain.facts.get("variant"),
        parameters=parameters_of(target, options, plain.device),
        device=", ".join(analysis.trace.devices) or "CPU",
        step_ns=unchanged.median_ns,
        spread=unchanged.spread,
        dilation=facts["profiled_step_ns"] / max(1, unchanged.median_ns),
        advice=[
            beside(each, promise, unchanged, timed.get(each.what), reasons.get(each.what))
            for each, promise in zip(variants, promised, strict=True)
        ],
        others=promises.others(APPLIED),
    )


def beside(
    variant: Variant,
    promise: Promise,
    unchanged: Rounds,
    changed: Rounds | None,
    reason: str | None,
) -> Applied:
    """What is promised of a variant beside what was measured, for the same number of samples."""
    promised_ns = promise.step_ns(unchanged.median_ns)
    found = Applied(list(variant.remedies), variant.what, reason, promise.arithmetic, promised_ns)
    if changed is None:
        return found
    equal = Rounds([round(ns / variant.samples) for ns in changed.step_ns], [])
    measured_ns = equal.median_ns
    return replace(
        found,
        measured_ns=measured_ns,
        moved=moved(unchanged, equal),
        error=promised_ns / measured_ns - 1 if promised_ns is not None and measured_ns else None,
    )


def _built(
    variants: list[Variant], plain: Runnable, say: Callable[[str], object]
) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps that can run, and the reasons why the others cannot."""
    steps, reasons = {UNCHANGED: plain.step}, {}
    for each in variants:
        say(f"{plain.target}: {each.what}")
        try:
            steps[each.what] = each.build()
        except CannotRun as error:
            reasons[each.what] = error.reason
        except TracekitError as error:
            reasons[each.what] = str(error)
        except Exception as error:
            reasons[each.what] = first_line(error)
    return steps, reasons


def _in_turns(
    steps: dict[str, Step], plain: Runnable, rounds: int, reasons: dict[str, str]
) -> Mapping[str, Rounds]:
    """Times the steps, without those that fail while they are timed: these get a reason."""
    while True:
        try:
            return interleaved(steps, plain.device, rounds)
        except StepFailed as error:
            if error.name == UNCHANGED:
                raise TracekitError(
                    f"{plain.target}: failed while it ran: {error.reason}"
                ) from error
            reasons[error.name] = f"failed while it ran: {error.reason}"
            steps = {name: step for name, step in steps.items() if name != error.name}
