"""act(gate) * up in one pass over memory, forward and backward.

Per element, forward takes two reads and one write, backward three reads and two writes. Gated
linear units: https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from tracekit.workloads.kernels.activations import activated, check, slope


@triton.jit
def _place(columns, BLOCK: tl.constexpr):
    # The grid has one axis, since the second is limited to 65535. Rows are 64-bit, since rows times
    # stride exceeds 2^31 elements in large batches.
    blocks = tl.cdiv(columns, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    column = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    return row, column


@triton.jit
def _forward_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    columns,
    gate_stride,
    up_stride,
    out_stride,
    ACTIVATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, column = _place(columns, BLOCK)
    inside = column < columns
    gate = tl.load(gate_ptr + row * gate_stride + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * up_stride + column, mask=inside, other=0.0).to(tl.float32)
    # Eager rounds the activation to the dtype before it multiplies; a single rounding at the end is
    # more exact.
    out = activated(gate, ACTIVATION) * up
    tl.store(out_ptr + row * out_stride + column, out, mask=inside)


@triton.jit
def _backward_kernel(
    gate_ptr,
    up_ptr,
    grad_ptr,
    gate_grad_ptr,
    up_grad_ptr,
    columns,
    gate_stride,
    up_stride,
    grad_stride,
    out_stride,
    ACTIVATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, column = _place(columns, BLOCK)
    inside = column < columns
    gate = tl.load(gate_ptr + row * gate_stride + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * up_stride + column, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + row * grad_stride + column, mask=inside, other=0.0).to(tl.float32)
    place = row * out_stride + column
    tl.store(gate_grad_ptr + place, grad * up * slope(gate, ACTIVATION), mask=inside)
    tl.store(up_grad_ptr + place, grad * activated(gate, ACTIVATION), mask=inside)


class _Glu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        columns = gate.shape[-1]
        out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        if out.numel():
            rows = [_rows(each, columns) for each in (gate, up)]
            grid, block = _grid(rows[0].shape[0], columns)
            with torch.cuda.device_of(gate):
                _forward_kernel[grid](
                    *rows, out, columns, *(each.stride(0) for each in rows), columns,
                    ACTIVATION=activation, BLOCK=block,
                )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return (*glu_backward(*ctx.saved_tensors, grad, ctx.activation), None)


def glu(gate: Tensor, up: Tensor, activation: str = "gelu-tanh") -> Tensor:
    """act(gate) * up, contiguous, in their dtype, computed in float32; differentiable.

    `gate` and `up` are (..., n), of the same shape and dtype (float32, float16 or bfloat16); rows
    may have any stride, as in the halves of a packed projection. `activation` is one of
    `activations.NAMES`.

    Raises:
        ValueError: for other dtypes or activations, or if shapes, dtypes or devices differ.
    """
    check(gate, activation)
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError("gate and up must have the same shape, dtype and device")
    return _Glu.apply(gate, up, activation)  # type: ignore[no-any-return, no-untyped-call]


def glu_backward(gate: Tensor, up: Tensor, grad: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradients of gate and up, from the gradient of act(gate) * up."""
    columns = gate.shape[-1]
    gate_grad, up_grad = (
        torch.empty_like(each, memory_format=torch.contiguous_format) for each in (gate, up)
    )
    if gate.numel():
        rows = [_rows(each, columns) for each in (gate, up, grad)]
        grid, block = _grid(rows[0].shape[0], columns)
        with torch.cuda.device_of(gate):
            _backward_kernel[grid](
                *rows, gate_grad, up_grad, columns, *(each.stride(0) for each in rows), columns,
                ACTIVATION=activation, BLOCK=block,
            )  # fmt: skip
    return gate_grad, up_grad


def _grid(rows: int, columns: int) -> tuple[tuple[int], int]:
    block = min(1024, triton.next_power_of_2(columns))
    return (rows * triton.cdiv(columns, block),), block


def _rows(x: Tensor, columns: int) -> Tensor:
    """`x` as (rows, columns) with adjacent columns; copied only if a view cannot do it."""
    rows = x.reshape(-1, columns)
    return rows if rows.stride(1) == 1 else rows.contiguous()
