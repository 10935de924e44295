"""The smallest pieces of a model: a product of matrices, and one nn.Linear."""

import torch

from tracekit.workloads.base import Shape, Workload


def matmul_add(shape: Shape) -> Workload:
    """`a @ b + c` on square matrices of size `dim`: two operators. Small matrices are
    overhead-bound, large ones compute-bound."""
    n = shape.dim
    a, b, c = (shape.random(n, n, seed=seed) for seed in range(3))
    return Workload(
        step=lambda: a @ b + c,
        reference=lambda: a.float() @ b.float() + c.float(),
        variant="eager",
    )


def linear(shape: Shape) -> Workload:
    """(batch, seq, dim) to (batch, seq, hidden), with bias."""
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    layer = torch.nn.Linear(shape.dim, shape.hidden, device=shape.device, dtype=shape.dtype)
    with torch.no_grad():
        layer.weight.copy_(shape.random(shape.hidden, shape.dim, seed=1, scale=shape.dim**-0.5))
        layer.bias.copy_(shape.random(shape.hidden, seed=2))
    weight, bias = layer.weight.detach().float(), layer.bias.detach().float()
    return Workload(
        step=torch.no_grad()(lambda: layer(x)),
        reference=lambda: torch.nn.functional.linear(x.float(), weight, bias),
        variant="eager",
    )
