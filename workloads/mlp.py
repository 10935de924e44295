"""Products of matrices, and the gated MLP of the `mlp-*` workloads by PyTorch's own kernels: eager,
compiled, as a CUDA graph, packed; all with the same weights and the same answer. And a training
step of it.

down(act(gate(x)) * up(x)), without bias. With gelu it is GeGLU, with silu SwiGLU:
https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.graphs import captured

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


def compiled(shape: Shape, mode: str = "default") -> Workload:
    """Under torch.compile for these sizes: Inductor fuses act and mul into one kernel. The first
    call compiles, and needs a C++ compiler on the CPU."""
    name = "torch.compile" if mode == "default" else f"torch.compile {mode}"
    return workload(shape, name, partial(torch.compile, dynamic=False, mode=mode))


reduce_overhead = partial(compiled, mode="reduce-overhead")
max_autotune = partial(compiled, mode="max-autotune")


def cudagraph(shape: Shape) -> Workload:
    """Eager, captured as a CUDA graph at the first call: five kernels, one launch.

    Raises:
        ValueError: without a CUDA device, which graphs need.
    """
    if shape.device.type != "cuda":
        raise ValueError("CUDA graphs need a CUDA device")

    def forward(module: Mlp) -> Callable[[Tensor], Tensor]:
        graph_of = cache(lambda x: captured(lambda: module(x)))
        return lambda x: graph_of(x)()

    return workload(shape, "cuda-graph", forward)


class FusedMlp(nn.Module):
    """(..., dim) to (..., dim): a product, an activation, a multiplication in place, a product.
    TorchScript can compile it unchanged."""

    def __init__(self, module: Mlp, activation: str) -> None:
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


def torch_fused(shape: Shape) -> Workload:
    """Fewer operators of plain PyTorch, without a compiler: one packed product for gate and up, and
    the multiplication in place."""
    return workload(shape, "torch-fused", lambda module: FusedMlp(module, shape.activation))


def train_step(shape: Shape) -> Workload:
    """A training step: forward, loss, backward, and AdamW's update. Each step continues training;
    the checked answer is the loss of the first step."""
    module = Mlp(shape)
    start = {name: value.detach().clone() for name, value in module.state_dict().items()}
    module.requires_grad_(True)
    # A CUDA graph can capture the update only if its step count is on the device.
    is_capturable = shape.device.type != "cpu"
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, capturable=is_capturable)
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    target = shape.random(shape.batch, shape.seq, shape.dim, seed=1)

    def step() -> Tensor:
        with torch.enable_grad():
            loss = (module(x) - target).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    def reference() -> Tensor:
        module.load_state_dict(start)
        with torch.no_grad():
            return (module.in_float32(x) - target.float()).square().mean()

    return Workload(step, reference, "eager")


# -- the smallest pieces of a model


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
    layer = nn.Linear(shape.dim, shape.hidden, device=shape.device, dtype=shape.dtype)
    with torch.no_grad():
        layer.weight.copy_(shape.random(shape.hidden, shape.dim, seed=1, scale=shape.dim**-0.5))
        layer.bias.copy_(shape.random(shape.hidden, seed=2))
    weight, bias = layer.weight.detach().float(), layer.bias.detach().float()
    return Workload(
        step=torch.no_grad()(lambda: layer(x)),
        reference=lambda: functional.linear(x.float(), weight, bias),
        variant="eager",
    )
