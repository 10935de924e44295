"""Programs for the simulator: what a thread does, one thing after another, and changes to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

US = 1_000
MS = 1_000_000

# Kernel names whose class every version of tracekit's patterns agrees on, by cause.
NAMES = {
    "math": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "memory-bandwidth": "void at::native::vectorized_elementwise_kernel<4, AddFunctor>",
    "latency": "void at::native::unrolled_elementwise_kernel<FillFunctor>",
    "communication": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "copy": "Memcpy HtoD (Pageable -> Device)",
}


@dataclass(frozen=True)
class Work:
    """Host work of a cause; inside an operator it is dispatch, outside everything python."""

    ns: int
    cause: str = "python"


@dataclass(frozen=True)
class Slice:
    """What encloses other atoms: an operator, an annotation, a Python frame."""

    name: str
    category: str
    atoms: tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """A runtime call that takes its time and does nothing to the device."""

    name: str
    ns: int
    cause: str


@dataclass(frozen=True)
class Launch:
    """A launch call and what it puts on a stream: one op, or the ops of a graph."""

    ns: int
    kernels: tuple[tuple[str, int], ...]  # cause, length
    stream: int = 7
    name: str = "cudaLaunchKernel"


@dataclass(frozen=True)
class BlockingCopy:
    """A copy that is prepared by its call, queued, and waited for."""

    staging_ns: int
    ns: int
    stream: int = 7


@dataclass(frozen=True)
class Sync:
    """A wait for one stream, or for the device."""

    own_ns: int
    stream: int | None = None


@dataclass(frozen=True)
class StreamWait:
    """An event recorded on one stream and waited for by another."""

    ns: int
    record: int
    wait: int


@dataclass(frozen=True)
class Fetch:
    """A batch from another process, which takes `load_ns` for each and keeps `ahead` of them."""

    own_ns: int
    load_ns: int
    ahead: int = 2


@dataclass(frozen=True)
class HandOver:
    """Atoms that another thread runs while this one stands still."""

    atoms: tuple[Any, ...]


@dataclass(frozen=True)
class Border:
    """Where a graph cannot go on: it ends before and another begins after."""


@dataclass(frozen=True)
class Freed:
    """From here on a graph saves the host its work, or no more."""

    free: bool


def operator(name: str, before_ns: int, *atoms: Any, after_ns: int = 0) -> Slice:
    """An operator that dispatches, and does `atoms`."""
    tail = (Work(after_ns, "dispatch"),) if after_ns else ()
    return Slice(name, "cpu_op", (Work(before_ns, "dispatch"), *atoms, *tail))


def step(number: int, *atoms: Any) -> Slice:
    """A profiler step."""
    return Slice(f"ProfilerStep#{number}", "user_annotation", atoms)


@dataclass(frozen=True)
class Change:
    """How many times as long things take; the same words as tracekit's."""

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
