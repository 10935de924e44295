"""The gated MLP as one C++ operator: one call from Python runs one packed product, act(gate) * up
in one CUDA kernel (with PyTorch's operators on a CPU), and one product.

It is compiled on first use; if that fails, PyTorch's operators take over.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.kernels.extension import why_not
from tracekit.workloads.mlp_triton import in_place


def build(shape: Shape) -> Workload:
    reason = why_not(shape.device)
    if reason is not None:
        return in_place(shape, reason, "one C++ operator")

    def forward(module: mlp.Mlp) -> Callable[[Tensor], Tensor]:
        gate_up = torch.cat([module.gate.weight, module.up.weight])
        down = module.down.weight
        operator = torch.ops.tracekit.gated_mlp.default
        return lambda x: operator(x, gate_up, down, shape.activation)

    return mlp.workload(shape, "cpp", forward)
