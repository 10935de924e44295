"""The activations of the fused kernels, in float32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tracekit.workloads.kernels.tuning import INTERPRETED
from tracekit.workloads.mlp import ACTIVATIONS

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(x: Tensor, activation: str) -> None:
    """Raises ValueError for a dtype or an activation that the kernels do not support."""
    if x.dtype not in DTYPES:
        raise ValueError(f"the kernels compute float32, float16 and bfloat16, not {x.dtype}")
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"no activation is named {activation!r}: use one of {known}")


def gated(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """act(gate) * up by PyTorch's operators, in float32 and rounded once."""
    return (ACTIVATIONS[activation](gate.float()) * up.float()).to(gate.dtype)


def exact(x: Tensor) -> bool:
    """Whether products are computed in float32: x is float32, or Triton's interpreter runs, which
    cannot multiply bfloat16."""
    return x.dtype == torch.float32 or INTERPRETED


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    # gelu: https://arxiv.org/abs/1606.08415. Its tanh form is x * sigmoid(2 u) with
    # u = sqrt(2 / pi) * (x + 0.044715 x^3), since (1 + tanh(u)) / 2 = sigmoid(2 u).
    if ACTIVATION == "gelu-tanh":
        result = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "gelu":
        result = x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "silu":
        result = x * tl.sigmoid(x)
    else:
        result = tl.maximum(x, 0.0)
    return result
