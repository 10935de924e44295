"""x @ gate.T and x @ up.T for one tile, side by side; shared by the kernels that fuse them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def projections(
    x_ptr,
    gate_ptr,
    up_ptr,
    row,
    column,
    rows,
    hidden,
    dim,
    x_stride,
    gate_stride,
    up_stride,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    DIM: tl.constexpr,
):
    gate = tl.zeros((ROWS, HIDDEN), dtype=tl.float32)
    up = tl.zeros((ROWS, HIDDEN), dtype=tl.float32)
    for start in range(0, dim, DIM):
        place = start + tl.arange(0, DIM)
        x = tl.load(
            x_ptr + row[:, None] * x_stride + place[None, :],
            mask=(row[:, None] < rows) & (place[None, :] < dim),
            other=0.0,
        )
        inside = (place[:, None] < dim) & (column[None, :] < hidden)
        gate_weight = tl.load(
            gate_ptr + column[None, :] * gate_stride + place[:, None], mask=inside, other=0.0
        )
        up_weight = tl.load(
            up_ptr + column[None, :] * up_stride + place[:, None], mask=inside, other=0.0
        )
        if EXACT:
            x = x.to(tl.float32)
            gate = tl.dot(x, gate_weight.to(tl.float32), gate, input_precision="ieee")
            up = tl.dot(x, up_weight.to(tl.float32), up, input_precision="ieee")
        else:
            gate = tl.dot(x, gate_weight, gate)
            up = tl.dot(x, up_weight, up)
    return gate, up
