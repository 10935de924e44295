"""Programs for the simulator: the atoms that a thread executes in order, and changes to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

US = 1_000
MS = 1_000_000

# Kernel names by cause. Every version of tracekit's patterns gives them the same class.
NAMES = {
    # The same kernel: without its shapes, a trace does not show that math limits it.
    "math": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "math-or-memory": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "memory-bandwidth": "void at::native::vectorized_elementwise_kernel<4, AddFunctor>",
    "latency": "void at::native::unrolled_elementwise_kernel<FillFunctor>",
    "communication": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "copy": "Memcpy HtoD (Pageable -> Device)",
}


@dataclass(frozen=True)
class Work:
    """Host work of a cause: dispatch inside an operator, python outside all slices."""

    ns: int
    cause: str = "python"


@dataclass(frozen=True)
class Slice:
    """A slice that encloses other atoms: an operator, an annotation or a Python frame."""

    name: str
    category: str
    atoms: tuple[Any, ...]
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A runtime call that takes time and does not affect the device."""

    name: str
    ns: int
    cause: str


@dataclass(frozen=True)
class Op:
    """A GPU op with a different name from its cause's usual one, with arguments (`grid`, `bytes`
    ...)."""

    cause: str
    ns: int
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """A launch call and the work that it puts on a stream: one op, or the ops of a graph, which may
    run on streams of its own (`lanes`) in turn."""

    ns: int
    kernels: tuple[tuple[str, int] | Op, ...]  # cause, length
    stream: int = 7
    name: str = "cudaLaunchKernel"
    lanes: tuple[int, ...] = ()


@dataclass(frozen=True)
class BlockingCopy:
    """A copy that its call prepares, queues and waits for."""

    staging_ns: int
    ns: int
    stream: int = 7
    name: str = NAMES["copy"]
    bytes: int | None = None


@dataclass(frozen=True)
class Sync:
    """A wait for one stream, or for the device."""

    own_ns: int
    stream: int | None = None


@dataclass(frozen=True)
class Poll:
    """A wait for one stream in a loop that is not recorded; a turn takes up to `turn_ns`. It ends
    `early_ns` before the work does if it reads a value that the last kernel writes."""

    own_ns: int
    turn_ns: int
    stream: int = 7
    early_ns: int = 0


@dataclass(frozen=True)
class StreamWait:
    """An event recorded on one stream and waited for by another."""

    ns: int
    record: int
    wait: int


@dataclass(frozen=True)
class Fetch:
    """A batch from a process that takes `load_ns` for each batch and prefetches up to `ahead`."""

    own_ns: int
    load_ns: int
    ahead: int = 2


@dataclass(frozen=True)
class HandOver:
    """Atoms that another thread runs while this one stands still."""

    atoms: tuple[Any, ...]


@dataclass(frozen=True)
class Border:
    """An end of CUDA graphs: one graph ends before it, another may begin after it."""


@dataclass(frozen=True)
class Freed:
    """From here on, a graph saves the host's work (`free`), or no longer does."""

    free: bool


def operator(
    name: str,
    before_ns: int,
    *atoms: Any,
    after_ns: int = 0,
    shapes: list[list[int]] | None = None,
    types: list[str] | None = None,
) -> Slice:
    """An operator that dispatches for `before_ns`, runs `atoms`, then dispatches for `after_ns`.

    `shapes` are recorded as the dimensions of its inputs, `types` as their types, by default float.
    """
    tail = (Work(after_ns, "dispatch"),) if after_ns else ()
    args: dict[str, Any] = {}
    if shapes is not None:
        args = {"Input Dims": shapes, "Input type": types or ["float"] * len(shapes)}
    return Slice(name, "cpu_op", (Work(before_ns, "dispatch"), *atoms, *tail), args)


def line(name: str, *atoms: Any) -> Slice:
    """A call of a Python function that is named as Kineto does: `train.py(42): step`."""
    return Slice(name, "python_function", atoms)


def step(number: int, *atoms: Any) -> Slice:
    """A profiler step."""
    return Slice(f"ProfilerStep#{number}", "user_annotation", atoms)


@dataclass(frozen=True)
class Change:
    """Factors on the times of a run, in the syntax of tracekit's changes."""

    host: float = 1.0
    device: float = 1.0
    causes: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, float] = field(default_factory=dict)
    cuda_graph: bool = False

    @staticmethod
    def parse(*texts: str) -> Change:
        change = Change()
        for text in texts:
            what, _, factor = text.rpartition("*")
            if text == "cuda-graph":
                change = replace(change, cuda_graph=True)
            elif what in ("host", "device"):
                change = replace(change, **{what: getattr(change, what) * float(factor)})
            elif what.startswith("kernel:"):
                named = change.kernels | {what.removeprefix("kernel:"): float(factor)}
                change = replace(change, kernels=named)
            else:
                change = replace(change, causes=change.causes | {what: float(factor)})
        return change

    def host_ns(self, cause: str, ns: int) -> int:
        return round(ns * self.host * self.causes.get(cause, 1.0))

    def op_ns(self, cause: str, ns: int) -> int:
        name = NAMES[cause].lower()
        for pattern, factor in self.kernels.items():
            if pattern in name:
                ns = round(ns * factor)
        return round(ns * self.device * self.causes.get(cause, 1.0))

    def waits(self, cause: str) -> bool:
        return self.causes.get(cause, 1.0) > 0
