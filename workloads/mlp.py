"""The gated MLP that the `mlp-*` workloads share: same weights, same answer.

down(act(gate(x)) * up(x)), without bias. With gelu it is GeGLU, with silu SwiGLU:
https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracekit.workloads.base import Shape, Workload

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": functional.relu,
}


class Mlp(nn.Module):
    """(..., dim) to (..., dim) through `hidden`, one operator at a time."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        dim, hidden = shape.dim, shape.hidden
        self.gate = nn.Linear(dim, hidden, bias=False, device="meta")
        self.up = nn.Linear(dim, hidden, bias=False, device="meta")
        self.down = nn.Linear(hidden, dim, bias=False, device="meta")
        self.activation = ACTIVATIONS[shape.activation]
        for seed, layer in enumerate((self.gate, self.up, self.down), start=1):
            size = layer.weight.shape
            weight = shape.random(*size, seed=seed, scale=size[1] ** -0.5)
            layer.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))

    def in_float32(self, x: Tensor) -> Tensor:
        """The same answer, every step computed in float32."""
        gate, up, down = (layer.weight.float() for layer in (self.gate, self.up, self.down))
        x = x.float()
        return (self.activation(x @ gate.T) * (x @ up.T)) @ down.T


def workload(
    shape: Shape,
    variant: str,
    forward: Callable[[Mlp], Callable[[Tensor], Tensor]] = lambda module: module,
    note: str | None = None,
) -> Workload:
    """The MLP, computed by the function that `forward` makes from it."""
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    module = Mlp(shape)
    run = forward(module)
    return Workload(torch.no_grad()(lambda: run(x)), lambda: module.in_float32(x), variant, note)


def eager(shape: Shape) -> Workload:
    """Unfused: gate, up, act, mul and down are one kernel each."""
    return workload(shape, "eager")
