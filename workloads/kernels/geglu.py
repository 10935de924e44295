"""gelu_tanh(gate) * up in one pass over memory: two reads and one write an element."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def _geglu_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    columns,
    gate_stride,
    up_stride,
    out_stride,
    BLOCK: tl.constexpr,
):
    # 64-bit: rows times stride exceeds 2^31 elements in large batches.
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    gate = tl.load(gate_ptr + row * gate_stride + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * up_stride + column, mask=inside, other=0.0).to(tl.float32)
    # gelu_tanh(x) = x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 x^3), and
    # (1 + tanh(u)) / 2 = sigmoid(2 u): https://arxiv.org/abs/1606.08415
    gelu = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    # Eager rounds gelu to the dtype before it multiplies; one rounding at the end is closer.
    tl.store(out_ptr + row * out_stride + column, gelu * up, mask=inside)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """gelu_tanh(gate) * up, contiguous, in their dtype, computed in float32.

    `gate` and `up` are (..., n), of one shape and dtype (float32, float16 or bfloat16); rows may
    be any distance apart, as in the halves of a packed projection.

    Raises:
        ValueError: for other dtypes, or shapes or devices that differ.
    """
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError("gate and up must have the same shape, dtype and device")
    if gate.dtype not in _DTYPES:
        raise ValueError(f"geglu computes float32, float16 and bfloat16, not {gate.dtype}")
    columns = gate.shape[-1]
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if out.numel() == 0:
        return out
    gate_rows, up_rows = _rows(gate, columns), _rows(up, columns)
    block = min(1024, triton.next_power_of_2(columns))
    grid = (gate_rows.shape[0], triton.cdiv(columns, block))
    _geglu_kernel[grid](
        gate_rows,
        up_rows,
        out,
        columns,
        gate_rows.stride(0),
        up_rows.stride(0),
        columns,
        BLOCK=block,
    )
    return out


def _rows(x: Tensor, columns: int) -> Tensor:
    """`x` as (rows, columns) with adjacent columns; copied only where no view can be that."""
    rows = x.reshape(-1, columns)
    return rows if rows.stride(1) == 1 else rows.contiguous()
