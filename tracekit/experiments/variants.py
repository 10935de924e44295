"""Ways to run a workload changed without an edit of its code, each with remedies applied, and what
the run's fix list promises of these."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tracekit.advice.catalogue import catalogue
from tracekit.advice.model import Advice, FixList
from tracekit.capture.usercode import find_function, find_step
from tracekit.capture.workload import (
    CannotRun,
    Options,
    Runnable,
    check_compiler,
    parameters_of,
    prepare,
)
from tracekit.database.session import Session
from tracekit.errors import first_line
from tracekit.experiments.timing import Step
from tracekit.replay.prices import Prices
from tracekit.replay.replay import Replay
from tracekit.text import percent
from tracekit.thresholds import Thresholds

# Where the list advises no number.
_TIMES = _WORKERS = 2
_BATCH_NAMES, _WORKERS_NAMES = ("batch", "batch_size"), ("num_workers", "workers")
_NO_CUDA = "CUDA graphs need a CUDA device"
_FIRST_WITH_TF32 = (8, 0)
GRAPH, COMPILE, TENSOR_CORES = "cuda-graph", "torch-compile", "tensor-cores"
BATCH, WORKERS = "larger-batch", "dataloader-workers"
# Of the formats that use tensor cores, the one that needs no edit of the program.
_TF32 = "tf32"


@dataclass(frozen=True)
class Variant:
    """A way to run the workload with remedies applied.

    `build` makes its step, and raises if it cannot run here. A step of it has `samples` times the
    samples of the unchanged one.
    """

    remedies: tuple[str, ...]
    what: str
    build: Callable[[], Step]
    samples: int = 1


class Variants:
    """The ways to run a workload changed without an edit of its code."""

    def __init__(self, plain: Runnable, options: Options, promises: Promises) -> None:
        self._plain, self._options, self._promises = plain, options, promises
        self._target, self._device = plain.target, plain.device
        self._parameters = parameters_of(plain.target, options, plain.device)
        is_users = ":" in plain.target
        self._function = find_function(plain.target) if is_users else None

    def all(self) -> list[Variant]:
        return [
            Variant((GRAPH,), "the step as a CUDA graph", self._graph),
            Variant((COMPILE,), "torch.compile", partial(self._compiled, "default")),
            Variant(
                (COMPILE, GRAPH),
                "torch.compile, mode reduce-overhead",
                partial(self._compiled, "reduce-overhead"),
            ),
            Variant((TENSOR_CORES,), "products in TF32", self._in_tf32),
            self._larger(),
            self._with_workers(),
        ]

    def _refused(self, reason: str) -> CannotRun:
        return CannotRun(self._target, reason)

    def _graph(self) -> Step:
        if self._device.type != "cuda":
            raise self._refused(_NO_CUDA)
        from tracekit.workloads.graphs import captured

        try:
            step: Step = captured(self._plain.step)
        except Exception as error:
            reason = f"the step cannot be captured as a graph: {first_line(error)}"
            raise self._refused(reason) from error
        return step

    def _compiled(self, mode: str) -> Step:
        """Raises if torch.compile runs the step as it is: it skips what it cannot trace."""
        import torch

        from tracekit.experiments.slowing import compiled_graphs

        is_graph = mode == "reduce-overhead"
        if is_graph and self._device.type != "cuda":
            raise self._refused(_NO_CUDA)
        check_compiler(self._target, self._device)
        before = compiled_graphs()
        compile_it = partial(torch.compile, mode=mode)
        step: Step = compile_it(self._plain.step)
        if self._function:
            step = find_step(self._target, compile_it)
        if is_graph:
            step = _beginning_anew(step)
        with warnings.catch_warnings():
            # They are about the user's code, which stays as it is.
            warnings.simplefilter("ignore")
            step()
        if compiled_graphs() == before:
            raise self._refused("torch.compile finds nothing in the step that it can compile")
        return step

    def _in_tf32(self) -> Step:
        import torch

        if self._device.type != "cuda":
            raise self._refused("TF32 needs a CUDA device")
        dtype = self._parameters.get("dtype", "fp32")
        if dtype != "fp32":
            raise self._refused(f"the products are in {dtype} already")
        if torch.get_float32_matmul_precision() != "highest":
            raise self._refused("products in TF32 are allowed already")
        is_nvidia = torch.version.hip is None
        if is_nvidia and torch.cuda.get_device_capability(self._device) < _FIRST_WITH_TF32:
            raise self._refused("the device has no TF32")
        return in_tf32(self._plain.step)

    def _larger(self) -> Variant:
        times = self._promises.times() or _TIMES
        if self._function:
            name, batch = parameter_of(self._function, _BATCH_NAMES)
        else:
            name, batch = "batch", self._parameters.get("batch")
        what = f"{times} times the batch"

        def build() -> Step:
            if self._function is None and batch is None:
                raise self._refused("the workload has no batch")
            if name is None or not _is_count(batch):
                raise self._refused(_no_parameter(_BATCH_NAMES, "with a number as its default"))
            if self._function:
                return find_step(self._target, partial(partial, **{name: times * batch}))
            return prepare(self._target, replace(self._options, batch=times * batch)).step

        if _is_count(batch):
            what = f"{name} {batch} to {times * batch}, for as many samples"
        return Variant((BATCH,), what, build, times)

    def _with_workers(self) -> Variant:
        """No more workers than there are cores to run them."""
        advised = self._promises.workers()
        workers = min(advised or _WORKERS, max(1, os.cpu_count() or 1))
        name, given = None, None
        if self._function:
            name, given = parameter_of(self._function, _WORKERS_NAMES)
        what = f"{name} {given} to {workers}" if name else "batches loaded by worker processes"

        def build() -> Step:
            if self._function is None:
                raise self._refused("the workload loads nothing")
            if name is None:
                raise self._refused(_no_parameter(_WORKERS_NAMES, "with a default"))
            if given == workers or (advised is None and _is_count(given)):
                raise self._refused(f"{given} workers load batches already")
            return find_step(self._target, partial(partial, **{name: workers}))

        return Variant((WORKERS,), what, build)


def parameter_of(function: Callable[..., object], names: tuple[str, ...]) -> tuple[str | None, Any]:
    """The first of `names` that is a parameter with a default, and the default."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return None, None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for name in names:
        found = parameters.get(name)
        if found and found.kind in by_name and found.default is not inspect.Parameter.empty:
            return name, found.default
    return None, None


def in_tf32(step: Step) -> Step:
    """`step` with products of fp32 in TF32; other code keeps its precision."""
    import torch

    def allowed() -> object:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return step()
        finally:
            torch.set_float32_matmul_precision(before)

    return allowed


def _beginning_anew(step: Step) -> Step:
    """Lets each step overwrite the outputs of the one before:
    https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_cudagraph_trees.html
    """
    import torch

    def begun() -> object:
        torch.compiler.cudagraph_mark_step_begin()
        return step()

    return begun


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _no_parameter(names: tuple[str, ...], how: str) -> str:
    return f"the function has no parameter {' or '.join(names)} {how}"


@dataclass(frozen=True)
class Promise:
    """What remedies are said to save: a share of the window, and where the number is from.

    None: the list does not advise them.
    """

    share: float | None
    arithmetic: str

    def step_ns(self, unchanged_ns: int) -> int | None:
        """The promised length of a step that now takes `unchanged_ns`."""
        return None if self.share is None else round(unchanged_ns * (1 - self.share))


class Promises:
    """A fix list, asked about remedies that apply to the whole step, wherever it names them."""

    def __init__(
        self, fixes: FixList | None, reason: str, price: Callable[[Sequence[str]], float]
    ) -> None:
        """Args:
        fixes: the list; None: nothing can be advised, and `reason` says why.
        price: the share of the window that several changes save together.
        """
        self._fixes, self._reason, self._price = fixes, reason, price

    def of(self, *remedies: str) -> Promise:
        """What the remedies save together, at all places that the list names."""
        found = [each for remedy in remedies for each in self._advised(remedy)]
        if not found:
            return Promise(None, self._why_not(remedies))
        names = " and ".join(dict.fromkeys(each.remedy for each in found))
        if len(found) == 1:
            share = found[0].share or 0.0
            return Promise(share, f"{names} saves {percent(share)}, says the list")
        share = self._price([each.change for each in found if each.change])
        text = f"{names} at {len(found)} places" if len(found) > len(set(remedies)) else names
        return Promise(share, f"{text}, replayed together: {percent(share)} less")

    def times(self) -> int | None:
        """How many times larger the advised batch is; None: no batch is advised."""
        changes = [each.change or "" for each in self._advised(BATCH)]
        found = re.fullmatch(r"batch\*(\d+)", changes[0]) if changes else None
        return int(found[1]) if found else None

    def workers(self) -> int | None:
        """How many worker processes keep up; None: none are advised."""
        details = [each.detail or "" for each in self._advised(WORKERS)]
        needed = [int(found[0]) for each in details if (found := re.match(r"\d+", each))]
        return max(needed, default=None)

    def others(self, applied: Collection[str]) -> list[str]:
        """The remedies of the program's step that are not among those applied, most worth first."""
        known = catalogue()
        names = dict.fromkeys(each.remedy for each in self._list())
        return [each for each in names if each not in applied and not known[each].is_apart]

    def _list(self) -> list[Advice]:
        return [each for each in self._fixes.advice if not each.once] if self._fixes else []

    def _advised(self, remedy: str) -> list[Advice]:
        found = [each for each in self._list() if each.remedy == remedy]
        if remedy == TENSOR_CORES:
            return [each for each in found if (each.detail or "").startswith(_TF32)]
        return found

    def _why_not(self, remedies: Sequence[str]) -> str:
        if self._fixes is None:
            return f"not advised: {self._reason}"
        for each in self._fixes.unlooked:
            if set(remedies) <= set(each.remedies):
                return f"not looked for: {each.missing}"
        return "not advised"


def price_together(
    database: Session, trace_id: int, limits: Thresholds
) -> Callable[[Sequence[str]], float]:
    """Prices changes by one replay with all of them, as the list prices one: without one-offs, in
    the step of median length, or without steps in the GPU-active span."""

    def price(changes: Sequence[str]) -> float:
        replay = Replay(database, trace_id, limits)
        prices = Prices(replay, replay.window(*replay.place()))
        return prices.saved(*changes) / prices.window_ns if prices.window_ns else 0.0

    return price
