"""A training step of the gated MLP: forward, loss, backward, and AdamW's update."""

import torch
from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    """Each step continues training; the checked answer is the loss of the first step."""
    module = mlp.Mlp(shape)
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
