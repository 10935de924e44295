"""The gated MLP as one Triton kernel, for batches of up to 64 rows."""

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.mlp_triton import Forward, fused


def build(shape: Shape) -> Workload:
    """Raises ValueError if the batch has more rows than one tile."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.block import Workspace, block

        weights = module.gate.weight, module.up.weight, module.down.weight
        workspace = Workspace.zeros(shape.dim, shape.device)
        return lambda x: block(x, *weights, shape.activation, workspace)

    return fused(shape, "triton-full", forward)
