"""The GeGLU MLP under torch.compile: Inductor fuses gelu and mul into one kernel."""

import torch

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    """Compiled for these sizes; the first call compiles, and needs a C++ compiler on the CPU."""
    return mlp.workload(
        shape, "torch.compile", wrap=lambda module: torch.compile(module, dynamic=False)
    )
