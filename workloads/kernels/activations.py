"""The activations of the fused kernels and their slopes, all in float32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tracekit.workloads.kernels.tuning import INTERPRETED

NAMES = ("gelu-tanh", "gelu", "silu", "relu")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(x: Tensor, activation: str) -> None:
    """Raises ValueError for a dtype or an activation that the kernels do not support."""
    if x.dtype not in DTYPES:
        raise ValueError(f"the kernels compute float32, float16 and bfloat16, not {x.dtype}")
    if activation not in NAMES:
        raise ValueError(f"no activation is named {activation!r}: use one of {', '.join(NAMES)}")


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


@triton.jit
def slope(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu-tanh":
        s = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        # Beyond 20, s is 1 or 0 and the second term is 0, however large x squared is.
        c = tl.minimum(tl.maximum(x, -20.0), 20.0)
        result = s + c * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 3.0 * 0.044715 * c * c)
    elif ACTIVATION == "gelu":
        c = tl.minimum(tl.maximum(x, -20.0), 20.0)
        density = 0.3989422804014327 * tl.exp(-0.5 * c * c)
        result = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + c * density
    elif ACTIVATION == "silu":
        s = tl.sigmoid(x)
        c = tl.minimum(tl.maximum(x, -100.0), 100.0)
        result = s + c * s * (1.0 - s)
    else:
        result = tl.where(x > 0.0, 1.0, 0.0)
    return result
