"""The gated MLP under torch.compile(mode="max-autotune")."""

from tracekit.workloads import mlp_compiled
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    return mlp_compiled.build(shape, "max-autotune")
