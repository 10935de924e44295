"""The gated MLP under torch.compile(mode="reduce-overhead")."""

from tracekit.workloads import mlp_compiled
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    return mlp_compiled.build(shape, "reduce-overhead")
