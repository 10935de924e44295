"""The whole gated MLP, down(act(gate(x)) * up(x)), in one kernel: for small batches.

Each program takes a range of the hidden features for all rows, and adds its contribution to the
output in float32, so no intermediate is written. The weights are read once, which is what limits a
small batch; beyond a few dozen rows a separate GEMM is faster.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from tracekit.workloads.kernels.activations import activated, check, exact
from tracekit.workloads.kernels.gate_up import gate_up
from tracekit.workloads.kernels.projections import projections

# The rows of the one tile, and so the largest batch that the kernel takes.
MOST_ROWS = 64
_HIDDEN, _DIM = 32, 64


@triton.jit
def _block_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    down_ptr,
    out_ptr,
    rows,
    hidden,
    dim,
    x_stride,
    gate_stride,
    up_stride,
    down_stride,
    ACTIVATION: tl.constexpr,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    DIM: tl.constexpr,
):
    # 64-bit: rows may be far apart, as the last tokens of long sequences are.
    row = tl.arange(0, ROWS).to(tl.int64)
    column = tl.program_id(0).to(tl.int64) * HIDDEN + tl.arange(0, HIDDEN)
    gate, up = projections(
        x_ptr, gate_ptr, up_ptr, row, column, rows, hidden, dim, x_stride, gate_stride, up_stride,
        EXACT, ROWS, HIDDEN, DIM,
    )  # fmt: skip
    # Round as the unfused form does when it writes this intermediate.
    inner = (activated(gate, ACTIVATION) * up).to(x_ptr.dtype.element_ty)
    for start in range(0, dim, DIM):
        place = (start + tl.arange(0, DIM)).to(tl.int64)
        down_weight = tl.load(
            down_ptr + place[None, :] * down_stride + column[:, None],
            mask=(place[None, :] < dim) & (column[:, None] < hidden),
            other=0.0,
        )
        if EXACT:
            part = tl.dot(inner.to(tl.float32), down_weight.to(tl.float32), input_precision="ieee")
        else:
            part = tl.dot(inner, down_weight)
        tl.atomic_add(
            out_ptr + row[:, None] * dim + place[None, :],
            part,
            mask=(row[:, None] < rows) & (place[None, :] < dim),
            sem="relaxed",
        )


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str
    ) -> Tensor:
        ctx.save_for_backward(x, gate, up, down)
        ctx.activation = activation
        hidden, dim = gate.shape
        flat = x.reshape(-1, dim)
        flat = flat if flat.stride(-1) == 1 else flat.contiguous()
        weights = [each if each.stride(-1) == 1 else each.contiguous() for each in (gate, up, down)]
        out = torch.zeros((flat.shape[0], dim), dtype=torch.float32, device=x.device)
        if out.numel() and hidden:
            with torch.cuda.device_of(x):
                _block_kernel[(triton.cdiv(hidden, _HIDDEN),)](
                    flat, *weights, out, flat.shape[0], hidden, dim, flat.stride(0),
                    *(each.stride(0) for each in weights), ACTIVATION=activation,
                    EXACT=exact(x), HIDDEN=_HIDDEN, DIM=_DIM,
                    ROWS=max(16, triton.next_power_of_2(flat.shape[0])),
                )  # fmt: skip
        return out.to(x.dtype).reshape(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        x, gate, up, down = (each.detach().requires_grad_() for each in ctx.saved_tensors)
        with torch.enable_grad():
            out = gate_up(x, gate, up, ctx.activation) @ down.T
        return (*torch.autograd.grad(out, (x, gate, up, down), grad), None)


def block(
    x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str = "gelu-tanh"
) -> Tensor:
    """down(act(gate(x)) * up(x)), accumulated in float32, in x's dtype; differentiable.

    `x` is (..., dim) with at most 64 rows in total, `gate` and `up` are (hidden, dim), `down` is
    (dim, hidden), all of the same dtype. The order of the additions differs from run to run, and so
    do the last bits of the result.

    Raises:
        ValueError: for other dtypes, devices, activations or shapes, or more rows.
    """
    check(x, activation)
    if gate.shape != up.shape or down.shape != gate.shape[::-1] or x.shape[-1] != gate.shape[1]:
        raise ValueError("gate and up must be (hidden, dim), down (dim, hidden), x (..., dim)")
    if len({(each.dtype, each.device) for each in (x, gate, up, down)}) > 1:
        raise ValueError("x and the weights must have the same dtype and device")
    if x.numel() // max(1, x.shape[-1]) > MOST_ROWS:
        raise ValueError(f"block takes at most {MOST_ROWS} rows; use gate_up for more")
    return _Block.apply(x, gate, up, down, activation)  # type: ignore[no-any-return, no-untyped-call]
