"""The GeGLU MLP that the `mlp-*` workloads share: same weights, same answer.

down(gelu_tanh(gate(x)) * up(x)), without bias. GeGLU: https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracekit.workloads.base import Shape, Workload

Activation = Callable[[Tensor, Tensor], Tensor]


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """gelu_tanh(gate) * up as two operators, with the intermediate written out and read again."""
    return functional.gelu(gate, approximate="tanh") * up


class Mlp(nn.Module):
    """(..., dim) to (..., dim) through `hidden`; `activation` takes gate and up."""

    def __init__(self, shape: Shape, activation: Activation = geglu) -> None:
        super().__init__()
        dim, hidden = shape.dim, shape.hidden
        self.gate = nn.Linear(dim, hidden, bias=False, device="meta")
        self.up = nn.Linear(dim, hidden, bias=False, device="meta")
        self.down = nn.Linear(hidden, dim, bias=False, device="meta")
        self.activation = activation
        for seed, layer in enumerate((self.gate, self.up, self.down), start=1):
            size = layer.weight.shape
            weight = shape.random(*size, seed=seed, scale=size[1] ** -0.5)
            layer.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x), self.up(x)))

    def in_float32(self, x: Tensor) -> Tensor:
        """The same answer, every step computed in float32."""
        gate, up, down = (layer.weight.float() for layer in (self.gate, self.up, self.down))
        x = x.float()
        return geglu(x @ gate.T, x @ up.T) @ down.T


def workload(
    shape: Shape,
    variant: str,
    activation: Activation = geglu,
    wrap: Callable[[nn.Module], Callable[[Tensor], Tensor]] = lambda module: module,
    note: str | None = None,
) -> Workload:
    """The MLP with an activation of its own, or wrapped as a whole."""
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    module = Mlp(shape, activation)
    run = wrap(module)
    return Workload(torch.no_grad()(lambda: run(x)), lambda: module.in_float32(x), variant, note)
