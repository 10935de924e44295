"""Runs a workload under torch.profiler and writes a trace that says how far profiling slowed it."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError
from tracekit.files import written_whole
from tracekit.workloads import WORKLOADS

if TYPE_CHECKING:
    import torch

# The published A100 walkthrough's sizes on a GPU; on a CPU, a step of milliseconds.
_GPU_DEFAULTS: dict[str, int | str] = {
    "batch": 64, "seq": 128, "dim": 768, "hidden": 3072, "dtype": "bf16",
}  # fmt: skip
_CPU_DEFAULTS: dict[str, int | str] = {
    "batch": 4, "seq": 32, "dim": 256, "hidden": 1024, "dtype": "fp32",
}  # fmt: skip
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Options:
    """What to run and what to record; None takes the device's default."""

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


@dataclass(frozen=True)
class Captured:
    """A trace that was written, and the step's length with and without the profiler."""

    path: str
    profiled_step_ns: int
    unprofiled_step_ns: int
    note: str | None


def capture(target: str, output: str | Path, options: Options | None = None) -> Captured:
    """Profiles `target` and writes a Kineto trace, gzip-compressed, to `output`.

    `target` is a workload's name or `package.module:function`; a function is called once a step.
    Warm-up runs outside the profiler; then the same steps are timed without it and recorded with
    it, and both lengths go into the trace's metadata, under the key `tracekit`.

    Raises:
        TracekitError: when torch or the target is missing, the target fails or gives a wrong
            answer, or the output cannot be written.
    """
    torch = import_torch()
    options = options or Options()
    if options.warmup < 0 or options.active < 1:
        raise TracekitError(
            "capture needs at least one active step, and no fewer than 0 to warm up"
        )
    device = _device(torch, options.device)
    step, facts = _prepare(torch, target, options, device)
    synchronize = getattr(torch, device.type).synchronize if device.type != "cpu" else lambda: None
    with written_whole(output) as beside, tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "trace.json"
        try:
            for _ in range(options.warmup):
                step()
            unprofiled_ns = _time(step, options.active, synchronize)
            profiled_ns = _record(torch, step, options, device, synchronize, exported)
        except TracekitError:
            raise
        except Exception as error:
            raise TracekitError(f"{target}: failed while it ran: {first_line(error)}") from error
        facts |= {
            "profiled_step_ns": profiled_ns,
            "unprofiled_step_ns": unprofiled_ns,
            "active_steps": options.active,
            "warmup_steps": options.warmup,
            "torch": torch.__version__,
        }
        compress(exported, beside, facts)
    return Captured(str(output), profiled_ns, unprofiled_ns, facts.get("note"))


def import_torch() -> Any:
    """torch, told to log nothing; in one line, where it is missing."""
    # Kineto logs to standard error unless told not to, and reads this once.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    try:
        import torch
    except ImportError as error:
        raise TracekitError("capture needs PyTorch: pip install 'tracekit[capture]'") from error
    return torch


def _device(torch: Any, name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise TracekitError("no CUDA or ROCm device is to be seen; --device cpu runs on the CPU")
    return torch.device(name)


def _prepare(
    torch: Any, target: str, options: Options, device: torch.device
) -> tuple[Callable[[], object], dict[str, Any]]:
    """The step to run, and what the trace shall say about it."""
    if ":" in target:
        return _user_function(target), {"workload": target}
    if target not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise TracekitError(
            f"no workload is named {target!r}: use one of {known}, or module:function"
        )
    from tracekit.workloads.base import Shape, error_of

    defaults = _CPU_DEFAULTS if device.type == "cpu" else _GPU_DEFAULTS
    given = {k: v for k in defaults if (v := getattr(options, k)) is not None}
    sizes = defaults | given
    if min(v for v in sizes.values() if isinstance(v, int)) < 1:
        raise TracekitError("batch, seq, dim and hidden must be at least 1")
    dtype = getattr(torch, _DTYPES[str(sizes["dtype"])])
    shape = Shape(
        *(int(sizes[k]) for k in ("batch", "seq", "dim", "hidden")),
        dtype=dtype,
        device=device,
        activation=options.activation,
    )
    _check_compiler(target, device)
    try:
        entry = WORKLOADS[target]
        module = importlib.import_module(f"tracekit.workloads.{entry.module}")
        workload = getattr(module, entry.build)(shape)
        error, limit = error_of(workload, dtype)
    except Exception as failure:
        raise TracekitError(f"{target}: cannot run: {first_line(failure)}") from failure
    if not error <= limit:
        raise TracekitError(
            f"{target}: wrong answer: off by {error:.2g} of the largest value, {limit:.2g} allowed"
        )
    facts = {
        "workload": target,
        "variant": workload.variant,
        "parameters": {
            **{size: sizes[size] for size in (*WORKLOADS[target].sizes, "dtype")},
            **({"activation": options.activation} if "hidden" in entry.sizes else {}),
            "device": device.type,
        },
        "error": error,
        "error_limit": limit,
    }
    return workload.step, facts | ({"note": workload.note} if workload.note else {})


def _user_function(target: str) -> Callable[[], object]:
    module_name, _, name = target.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise TracekitError(
            f"{target}: cannot import {module_name}: {first_line(error)}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise TracekitError(f"{target}: {module_name} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def _check_compiler(target: str, device: torch.device) -> None:
    if target.startswith("mlp-compiled") and device.type == "cpu":
        compilers = [os.environ.get("CXX", ""), "g++", "clang++"]
        if not any(shutil.which(each) for each in compilers if each):
            raise TracekitError(f"{target}: torch.compile needs a C++ compiler (g++ or clang++)")


def _time(step: Callable[[], object], count: int, synchronize: Callable[[], None]) -> int:
    """Nanoseconds a step: the median of three runs of `count` steps, each awaited once."""
    rounds = []
    for _ in range(3):
        synchronize()
        began = time.perf_counter_ns()
        for _ in range(count):
            step()
        synchronize()
        rounds.append((time.perf_counter_ns() - began) // count)
    return int(statistics.median(rounds))


def _record(
    torch: Any,
    step: Callable[[], object],
    options: Options,
    device: torch.device,
    synchronize: Callable[[], None],
    exported: Path,
) -> int:
    """Profiles the active steps, writes the raw trace, and returns nanoseconds a step."""
    profiler = torch.profiler
    activities = [profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(profiler.ProfilerActivity.CUDA)
    began = ended = 0
    with profiler.profile(
        activities=activities,
        # The first profiled step pays for the profiler's own start: it is not recorded.
        schedule=profiler.schedule(wait=0, warmup=1, active=options.active, repeat=1),
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(exported)),
        record_shapes=options.shapes,
        with_stack=options.stacks,
        profile_memory=options.memory,
    ) as profile:
        for place in range(1 + options.active):
            if place == 1:
                synchronize()
                began = time.perf_counter_ns()
            with profiler.record_function("forward"):
                step()
            if place == options.active:
                synchronize()
                ended = time.perf_counter_ns()
            profile.step()
    return (ended - began) // options.active


def compress(exported: Path, output: Path, facts: dict[str, Any]) -> None:
    """Copies the trace with one more top-level key, without parsing it."""
    member = b'{"tracekit": ' + json.dumps(facts).encode() + b","
    with exported.open("rb") as source, gzip.open(output, "wb", compresslevel=6) as sink:
        head = source.read(4096).lstrip()
        sink.write(member + head.removeprefix(b"{"))
        shutil.copyfileobj(source, sink)


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
