"""The gated MLP in fewer operators of plain PyTorch, without a compiler: one packed product for
gate and up, and the multiplication in place. TorchScript can compile it unchanged."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


class FusedMlp(nn.Module):
    """(..., dim) to (..., dim): a product, an activation, a multiplication in place, a product."""

    def __init__(self, module: mlp.Mlp, activation: str) -> None:
        super().__init__()
        self.packed = nn.Parameter(
            torch.cat([module.gate.weight, module.up.weight]), requires_grad=False
        )
        self.down = nn.Parameter(module.down.weight, requires_grad=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        gate, up = functional.linear(x, self.packed).chunk(2, dim=-1)
        if self.activation == "gelu-tanh":
            inner = functional.gelu(gate, approximate="tanh")
        elif self.activation == "gelu":
            inner = functional.gelu(gate)
        elif self.activation == "silu":
            inner = functional.silu(gate)
        else:
            inner = torch.relu(gate)
        return functional.linear(inner.mul_(up), self.down)


def build(shape: Shape) -> Workload:
    return mlp.workload(shape, "torch-fused", lambda module: FusedMlp(module, shape.activation))
