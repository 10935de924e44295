"""Variants of a workload that need no code change: experiments that test the verdict, and remedies
that the fix list may advise."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median_high
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.capture.usercode import find_function, find_step
from tracekit.capture.workload import Options, Runnable, check_compiler, parameters_of, prepare
from tracekit.errors import TracekitError, first_line
from tracekit.experiments.predicting import BATCH, COMPILE, GRAPH, TENSOR_CORES, WORKERS, Promises
from tracekit.experiments.timing import Step, interleaved

if TYPE_CHECKING:
    from tracekit.experiments.slowing import SlowedStep

UNCHANGED = "the unchanged run"
MORE, LESS, SLOWED, GRAPHED = "more work", "less work", "slow host", "graph"
APPLIED = (GRAPH, COMPILE, TENSOR_CORES, BATCH, WORKERS)
FEW_ROUNDS = 3
# In these workloads, all device work scales with the hidden size: half of one is half of the other.
_ALL_HIDDEN = ("linear", "train-step", "mlp-")
# Used if the list does not advise a number.
_TIMES = _WORKERS = 2
_BATCH_NAMES, _WORKERS_NAMES = ("batch", "batch_size"), ("num_workers", "workers")
_NO_CUDA = "CUDA graphs need a CUDA device"
_FIRST_WITH_TF32 = (8, 0)


class Variant(Struct, frozen=True):
    """A changed way to run the workload.

    `names` are the experiment's name, or the applied remedies' names. `build` makes the step, and
    raises if it cannot run here. The step has `samples` times as many samples as the unchanged one.
    """

    names: tuple[str, ...]
    what: str
    build: Callable[[], Step]
    samples: int = 1


class _Variants:
    """The common part of both lists of variants."""

    def __init__(self, plain: Runnable, options: Options) -> None:
        self.plain, self.options = plain, options
        self.target, self.device = plain.target, plain.device
        self.parameters = parameters_of(plain.target, options, plain.device)

    def _graph(self) -> Step:
        if self.device.type != "cuda":
            raise TracekitError(_NO_CUDA)
        from tracekit.workloads.graphs import captured

        try:
            step: Step = captured(self.plain.step)
        except Exception as error:
            reason = f"the step cannot be captured as a graph: {first_line(error)}"
            raise TracekitError(reason) from error
        return step


class ExperimentVariants(_Variants):
    """Double and halve the device's work through the sizes, slow the host by a known delay, and
    capture the step as a CUDA graph.

    `runs` are the workloads of other sizes that could be built, and `factors` how many times the
    device's work they have, if that is known. `compiled_before` is the number of graphs that were
    compiled before the unchanged run was built.
    """

    def __init__(self, plain: Runnable, options: Options, compiled_before: int) -> None:
        super().__init__(plain, options)
        self.runs: dict[str, Runnable] = {}
        self.factors: dict[str, float | None] = {}
        self._compiled_before = compiled_before

    def all(self) -> list[Variant]:
        self.slowed = slowed = self._slowed()
        return [
            self._resized(MORE, *self._more()),
            self._resized(LESS, *self._less()),
            Variant((SLOWED,), str(slowed), lambda: slowed.step),
            Variant((GRAPHED,), "as a CUDA graph", self._graph),
        ]

    def _more(self) -> tuple[dict[str, int], float | None]:
        """Twice the work: twice the batch, or, without a batch, larger matrices."""
        if "batch" in self.parameters:
            return {"batch": 2 * int(self.parameters["batch"])}, 2.0
        if "dim" in self.parameters:
            dim = int(self.parameters["dim"])
            larger = max(dim + 1, round(dim * 2 ** (1 / 3)))
            return {"dim": larger}, (larger / dim) ** 3
        return {}, None

    def _less(self) -> tuple[dict[str, int], float | None]:
        hidden = int(self.parameters.get("hidden", 0))
        if hidden < 2:
            return {}, None
        is_all_hidden = self.target.startswith(_ALL_HIDDEN)
        return {"hidden": hidden // 2}, hidden // 2 / hidden if is_all_hidden else None

    def _resized(self, name: str, sizes: dict[str, int], factor: float | None) -> Variant:
        self.factors[name] = factor

        def build() -> Step:
            if not sizes:
                raise TracekitError(
                    "the workload does not have a size that determines its amount of work"
                )
            options = replace(self.options, **sizes)
            self.runs[name] = prepare(self.target, options)
            return self.runs[name].step

        changes = ", ".join(f"{k} {self.parameters[k]} to {v}" for k, v in sizes.items())
        return Variant((name,), changes or name, build)

    def _slowed(self) -> SlowedStep:
        """Delays by the host's time for a step; by half of it on a CPU, which also computes."""
        from tracekit.experiments.slowing import compiled_graphs, slow_step

        few = interleaved({self.target: self.plain.step}, self.device, FEW_ROUNDS)[self.target]
        host_ns = median_high(few.host_ns)
        is_compiled = compiled_graphs() > self._compiled_before
        by_ns = host_ns // 2 if self.device.type == "cpu" else host_ns
        return slow_step(self.plain.step, by_ns, is_compiled)


class RemedyVariants(_Variants):
    """The remedies that need no change to the user's code."""

    def __init__(self, plain: Runnable, options: Options, promises: Promises) -> None:
        super().__init__(plain, options)
        self._promises = promises
        self._function = find_function(plain.target) if ":" in plain.target else None

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

    def _compiled(self, mode: str) -> Step:
        """Raises if torch.compile runs the step unchanged: it skips code that it cannot trace."""
        import torch

        from tracekit.experiments.slowing import compiled_graphs

        is_graph = mode == "reduce-overhead"
        if is_graph and self.device.type != "cuda":
            raise TracekitError(_NO_CUDA)
        check_compiler(self.target, self.device)
        before = compiled_graphs()
        compile_it = partial(torch.compile, mode=mode)
        step: Step = compile_it(self.plain.step)
        if self._function:
            step = find_step(self.target, compile_it)
        if is_graph:
            step = _beginning_anew(step)
        with warnings.catch_warnings():
            # They are about the user's code, which does not change.
            warnings.simplefilter("ignore")
            step()
        if compiled_graphs() == before:
            raise TracekitError("torch.compile cannot compile anything in the step")
        return step

    def _in_tf32(self) -> Step:
        import torch

        if self.device.type != "cuda":
            raise TracekitError("TF32 needs a CUDA device")
        dtype = self.parameters.get("dtype", "fp32")
        if dtype != "fp32":
            raise TracekitError(f"the products already use {dtype}")
        if torch.get_float32_matmul_precision() != "highest":
            raise TracekitError("TF32 products are already allowed")
        is_nvidia = torch.version.hip is None
        if is_nvidia and torch.cuda.get_device_capability(self.device) < _FIRST_WITH_TF32:
            raise TracekitError("the device has no TF32")
        return in_tf32()(self.plain.step)

    def _larger(self) -> Variant:
        times = self._promises.times() or _TIMES
        if self._function:
            name, batch = parameter_of(self._function, _BATCH_NAMES)
        else:
            name, batch = "batch", self.parameters.get("batch")
        what = f"{times} times the batch"

        def build() -> Step:
            if self._function is None and batch is None:
                raise TracekitError("the workload has no batch")
            if name is None or not _is_count(batch):
                raise TracekitError(_no_parameter(_BATCH_NAMES, "with a number as its default"))
            if self._function:
                return find_step(self.target, partial(partial, **{name: times * batch}))
            return prepare(self.target, replace(self.options, batch=times * batch)).step

        if _is_count(batch):
            what = f"{name} {batch} to {times * batch}, for as many samples"
        return Variant((BATCH,), what, build, times)

    def _with_workers(self) -> Variant:
        """At most one worker per core."""
        advised = self._promises.workers()
        workers = min(advised or _WORKERS, max(1, os.cpu_count() or 1))
        name, given = None, None
        if self._function:
            name, given = parameter_of(self._function, _WORKERS_NAMES)
        what = f"{name} {given} to {workers}" if name else "batches loaded by worker processes"

        def build() -> Step:
            if self._function is None:
                raise TracekitError("the workload does not load batches")
            if name is None:
                raise TracekitError(_no_parameter(_WORKERS_NAMES, "with a default"))
            if given == workers or (advised is None and _is_count(given)):
                raise TracekitError(f"{given} workers already load batches")
            return find_step(self.target, partial(partial, **{name: workers}))

        return Variant((WORKERS,), what, build)


def parameter_of(function: Callable[..., object], names: tuple[str, ...]) -> tuple[str | None, Any]:
    """The first of `names` that is a parameter with a default, and the default."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return None, None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in map(parameters.get, names):
        if (
            parameter
            and parameter.kind in by_name
            and parameter.default is not inspect.Parameter.empty
        ):
            return parameter.name, parameter.default
    return None, None


@contextmanager
def in_tf32() -> Iterator[None]:
    """Products of fp32 are in TF32 while the block, or a decorated step, runs."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
