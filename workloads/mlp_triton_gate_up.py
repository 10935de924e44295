"""The gated MLP with both projections and the activation in one Triton kernel, then a GEMM."""

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.mlp_triton import Forward, fused


def build(shape: Shape) -> Workload:
    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.gate_up import gate_up

        weights = module.gate.weight, module.up.weight
        return lambda x: module.down(gate_up(x, *weights, shape.activation))

    return fused(shape, "triton-gate-up", forward)
