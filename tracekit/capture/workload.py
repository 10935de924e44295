"""Runs a workload under torch.profiler; the trace records how much the profiler slowed it."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from tracekit.capture.output import (
    NO_WORK,
    check_place,
    publish,
    rank_path,
    require_ending,
    save,
    sources,
)
from tracekit.capture.recorder import Recorder, import_torch
from tracekit.capture.usercode import find_step, name_errors, restored_streams
from tracekit.errors import TracekitError, first_line
from tracekit.files import require_no_input
from tracekit.stages import stage
from tracekit.text import ended, suggestion
from tracekit.workloads import WORKLOADS

if TYPE_CHECKING:
    import torch

# GPU sizes are from the published A100 walkthrough; CPU sizes give steps of milliseconds.
_GPU_DEFAULTS: dict[str, int | str] = {
    "batch": 64, "seq": 128, "dim": 768, "hidden": 3072, "dtype": "bf16",
}  # fmt: skip
_CPU_DEFAULTS: dict[str, int | str] = {
    "batch": 4, "seq": 32, "dim": 256, "hidden": 1024, "dtype": "fp32",
}  # fmt: skip
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Options(Struct, frozen=True):
    """Options for running and recording; None means the device's default."""

    batch: int | None = None
    seq: int | None = None
    dim: int | None = None
    hidden: int | None = None
    dtype: str | None = None
    activation: str = "gelu-tanh"
    device: str = "auto"
    warmup: int = 5
    active: int = 5
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """Facts about the run, such as its commit, that a lake stores as columns."""

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.active < 1:
            raise TracekitError(
                "capture needs at least one active step, and 0 or more warm-up steps"
            )
        sizes = (self.batch, self.seq, self.dim, self.hidden)
        if any(size is not None and size < 1 for size in sizes):
            raise TracekitError("batch, seq, dim and hidden must be at least 1")
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise TracekitError(
                f"there is no dtype {self.dtype!r}: use one of {', '.join(_DTYPES)}"
            )


class CannotRun(TracekitError):
    """A workload cannot run here; `reason` says why, without the workload's name."""

    def __init__(self, target: str, reason: str, what: str = "cannot run") -> None:
        self.reason = reason
        super().__init__(f"{target}: {what}: {reason}")


class WrongAnswer(CannotRun):
    """A workload's answer differs from the answer computed in float32."""


class Runnable(Struct, frozen=True):
    """A step to run, and the facts to write into its trace."""

    target: str
    device: torch.device
    step: Callable[[], object]
    facts: dict[str, Any]


class Captured(Struct, frozen=True):
    """A written trace, and the length of a step with and without the profiler, in ns."""

    path: str
    profiled_step_ns: int
    unprofiled_step_ns: int
    note: str | None


def capture(target: str, output: str | Path, options: Options | None = None) -> Captured:
    """Profiles `target` and writes a Kineto trace or a database to `output`, depending on its
    ending.

    `target` is a workload's name or `package.module:function`; a function is called once per step.
    The warm-up runs without the profiler. Then the same steps are timed without the profiler and
    recorded with it, and both lengths go into the trace's metadata, under the key `tracekit`. In a
    distributed run each rank writes its own file (t.rank3.json.gz).

    Raises:
        TracekitError: when torch or the target is missing, the target fails, gives a wrong answer,
            runs a profiler itself or runs no operator, or the output cannot be written.
    """
    options = options or Options()
    require_ending(output)
    path_of_rank = rank_path(Path(output), import_torch())
    # The code may change the working directory.
    path = path_of_rank.absolute()
    check_place(path)
    with restored_streams():
        with stage(f"preparing {target}"):
            runnable = prepare(target, options)
        # The code is imported, so its files are known.
        require_no_input(path, sources())
        recorder = _recorder(runnable, options)
        with _explain_failures(target), recorder.refusing_others():
            with stage("warming up"):
                for _ in range(options.warmup):
                    runnable.step()
            unprofiled_ns = _time(runnable.step, options.active, recorder.synchronize)
            given = {"unprofiled_step_ns": unprofiled_ns}
            facts = _profile_steps(runnable, options, recorder, given)
    with stage("writing"), publish(path) as beside:
        save(recorder, facts, beside, nothing=f"{target}: {NO_WORK}")
    return Captured(str(path_of_rank), facts["profiled_step_ns"], unprofiled_ns, facts.get("note"))


def record(runnable: Runnable, output: Path, options: Options, facts: dict[str, Any]) -> None:
    """Profiles the active steps of a warmed-up workload and writes the trace, with `facts` beside
    the workload's own.

    Raises:
        TracekitError: when a step fails, runs a profiler itself or runs no operator.
    """
    recorder = _recorder(runnable, options)
    with _explain_failures(runnable.target):
        facts = _profile_steps(runnable, options, recorder, facts)
    save(recorder, facts, output, nothing=f"{runnable.target}: {NO_WORK}")


def _recorder(runnable: Runnable, options: Options) -> Recorder:
    return Recorder(
        gpu=runnable.device.type == "cuda",
        shapes=options.shapes,
        stacks=options.stacks,
        memory=options.memory,
        steps=options.active,
    )


def _profile_steps(
    runnable: Runnable, options: Options, recorder: Recorder, facts: dict[str, Any]
) -> dict[str, Any]:
    """Runs the steps under the profiler; returns the facts for the trace's metadata."""
    with recorder:
        for _ in range(1 + options.active):
            with import_torch().profiler.record_function("forward"):
                runnable.step()
            recorder.step()
    labels = {"labels": dict(options.labels)} if options.labels else {}
    given = {"warmup_steps": options.warmup} | labels | facts
    return runnable.facts | recorder.facts() | given


@contextmanager
def _explain_failures(target: str) -> Iterator[None]:
    with name_errors(target):
        try:
            yield
        except TracekitError:
            raise
        except Exception as error:
            raise TracekitError(f"failed while it ran: {first_line(error)}") from error


def find_device(name: str) -> torch.device:
    """The device that auto, cuda or cpu stands for.

    Raises:
        TracekitError: when the device or torch is missing.
    """
    torch = import_torch()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise TracekitError("found no CUDA or ROCm device; --device cpu runs on the CPU")
    return torch.device(name)


def parameters_of(target: str, options: Options, device: torch.device) -> dict[str, int | str]:
    """The sizes and settings that a workload runs with; empty for a user's function.

    Raises:
        TracekitError: when the workload does not exist.
    """
    if ":" in target:
        return {}
    if target not in WORKLOADS:
        similar = suggestion(target, WORKLOADS) or "; `tracekit workloads` lists them"
        raise TracekitError(
            f"there is no workload named {target!r}{ended(similar)} Your own are script.py or "
            "module:function"
        )
    sizes = _sizes(target, options, device)
    names = WORKLOADS[target].sizes
    parameters = {size: sizes[size] for size in (*names, "dtype")}
    if "hidden" in names:
        parameters["activation"] = options.activation
    return parameters | {"device": device.type}


def _sizes(target: str, options: Options, device: torch.device) -> dict[str, int | str]:
    entry, on_cpu = WORKLOADS[target], device.type == "cpu"
    usual, workload_defaults = (
        (_CPU_DEFAULTS, entry.on_cpu) if on_cpu else (_GPU_DEFAULTS, entry.on_gpu)
    )
    defaults = usual | dict(workload_defaults)
    return defaults | {k: v for k in defaults if (v := getattr(options, k)) is not None}


def prepare(target: str, options: Options) -> Runnable:
    """Builds a workload and checks its answer, or finds the user's function.

    Raises:
        CannotRun: when the workload cannot run here.
        WrongAnswer: when its answer differs from the float32 answer by more than the tolerance.
        TracekitError: when torch or the target is missing.
    """
    device = find_device(options.device)
    parameters = parameters_of(target, options, device)
    if ":" in target:
        return Runnable(target, device, find_step(target), {"workload": target})
    torch = import_torch()
    from tracekit.workloads.base import Shape, error_of

    sizes = _sizes(target, options, device)
    dtype = getattr(torch, _DTYPES[str(sizes["dtype"])])
    shape = Shape(
        *(int(sizes[k]) for k in ("batch", "seq", "dim", "hidden")),
        dtype=dtype,
        device=device,
        activation=options.activation,
    )
    if target.startswith("mlp-compiled"):
        check_compiler(target, device)
    try:
        workload = WORKLOADS[target].build(shape)
        error, limit = error_of(workload, dtype)
    except Exception as failure:
        # A workload that cannot run raises ValueError with a sentence.
        is_workloads_own = isinstance(failure, ValueError)
        raise CannotRun(
            target, str(failure) if is_workloads_own else first_line(failure)
        ) from failure
    if not error <= limit:
        reason = f"off by {error:.2g} of the largest value; {limit:.2g} is allowed"
        raise WrongAnswer(target, reason, "wrong answer")
    facts = {
        "workload": target,
        "variant": workload.variant,
        "parameters": parameters,
        "error": error,
        "error_limit": limit,
    }
    noted = {"note": workload.note} if workload.note else {}
    return Runnable(target, device, workload.step, facts | noted)


def check_compiler(target: str, device: torch.device) -> None:
    """Raises CannotRun if torch.compile needs a C++ compiler and there is none."""
    if device.type == "cpu":
        compilers = [os.environ.get("CXX", ""), "g++", "clang++"]
        if not any(shutil.which(compiler) for compiler in compilers if compiler):
            raise CannotRun(target, "torch.compile needs a C++ compiler (g++ or clang++)")


def _time(step: Callable[[], object], count: int, synchronize: Callable[[], None]) -> int:
    """Nanoseconds per step: the median of three runs of `count` steps, one wait per run."""
    rounds = []
    for _ in range(3):
        synchronize()
        began = time.perf_counter_ns()
        for _ in range(count):
            step()
        synchronize()
        rounds.append((time.perf_counter_ns() - began) // count)
    return int(statistics.median(rounds))
