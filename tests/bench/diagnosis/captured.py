"""Faults that this machine's CPU runs (tests/bench/pairs.py): recorded, then timed in turns without
the profiler and without the fault, to compare predictions with observations."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from tests.bench.diagnosis.score import Case
from tests.bench.pairs import PAIRS, STEPS, Maker, Pair, record
from tracekit.experiments.timing import Step, interleaved, step_ratio

CPU, ROUNDS = torch.device("cpu"), 5
# The machine's own noise: the difference between two timings of one program, as a share of a step.
NOISE = 0.03


def captured(is_wanted: Callable[[Case], bool], folder: Path) -> Iterator[tuple[Case, Path]]:
    """The wanted cases with the observations, and their traces in `folder`."""
    # Other programs on this machine disturb one thread less than several that wait for each other.
    torch.set_num_threads(1)
    for pair in PAIRS:
        if pair.case and is_wanted(pair.case):
            yield from _captured(pair, pair.case, folder)


def _captured(pair: Pair, case: Case, folder: Path) -> Iterator[tuple[Case, Path]]:
    if pair.remedy == "torch-compile" and not shutil.which("g++"):
        return
    trace = folder / f"{case.name.replace(': ', ' ')}.json"
    faulty, mended = pair.steps(Maker(CPU))
    record(faulty, trace, pair.with_stacks)
    write_matched_patterns(faulty, trace)
    if pair.only in (None, "cpu"):
        share = _observed(faulty, mended)
        saves = (share - NOISE, min(share + NOISE, 1.0))
        case = replace(case, why=f"{case.why} Observed: {share:.1%} less without.", saves=saves)
    yield case, trace


def _observed(faulty: Step, mended: Step) -> float:
    """The time that a step saves without the fault, as a share; batches that workers load ahead
    count less in several steps at once."""

    def several(step: Step) -> Step:
        return lambda: [step() for _ in range(STEPS)]

    times = interleaved({"before": several(faulty), "after": several(mended)}, CPU, ROUNDS)
    return 1 - step_ratio(times["before"], times["after"]).ratio


# PyTorch's own patterns of faults, with the change that each suggests.
PATTERNS = {
    "ExtraCUDACopyPattern": "tensors_on_device",
    "FP32MatMulPattern": "tensor_cores",
    "OptimizerSingleTensorPattern": "fused_optimizer",
    "SynchronizedDataLoaderPattern": "dataloader_workers",
    "GradNotSetToNonePattern": "zero_grad_to_none",
    "MatMulDimInFP16Pattern": "gemm_padding",
}


def write_matched_patterns(step: Step, trace: Path) -> None:
    """Writes beside a trace which patterns PyTorch's matcher finds; it needs a running profiler."""
    from torch.profiler import ProfilerActivity, profile

    matcher = importlib.import_module("torch.profiler._pattern_matcher")
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as found:
        for _ in range(3):
            step()
    names = [
        change
        for name, change in PATTERNS.items()
        if getattr(matcher, name)(found, False).matched_events()
    ]
    trace.with_suffix(".patterns").write_text(json.dumps(names))
