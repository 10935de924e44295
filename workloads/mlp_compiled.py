"""The gated MLP under torch.compile: Inductor fuses act and mul into one kernel."""

from functools import partial

import torch

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape, mode: str = "default") -> Workload:
    """Compiled for these sizes; the first call compiles, and needs a C++ compiler on the CPU."""
    name = "torch.compile" if mode == "default" else f"torch.compile {mode}"
    return mlp.workload(shape, name, partial(torch.compile, dynamic=False, mode=mode))


def reduce_overhead(shape: Shape) -> Workload:
    """The same, compiled into CUDA graphs."""
    return build(shape, "reduce-overhead")


def max_autotune(shape: Shape) -> Workload:
    """The same, compiled with tuned products."""
    return build(shape, "max-autotune")
