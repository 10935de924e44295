"""The gated MLP under torch.compile: Inductor fuses act and mul into one kernel."""

from functools import partial

import torch

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape, mode: str = "default") -> Workload:
    """Compiled for these sizes; the first call compiles, and needs a C++ compiler on the CPU.

    `mode` is torch.compile's: default, reduce-overhead (CUDA graphs) or max-autotune.
    """
    name = "torch.compile" if mode == "default" else f"torch.compile {mode}"
    return mlp.workload(shape, name, partial(torch.compile, dynamic=False, mode=mode))
