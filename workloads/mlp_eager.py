"""The gated MLP, unfused: gate, up, act, mul and down are one kernel each."""

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    return mlp.workload(shape, "eager")
