"""act(x @ gate.T) * (x @ up.T) in one kernel: both projections, with the activation as epilogue.

The kernel never writes the two intermediates (rows x hidden) of the unfused form.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from tracekit.workloads.kernels.activations import activated, check, exact
from tracekit.workloads.kernels.glu import glu_backward
from tracekit.workloads.kernels.projections import projections

# Tiles of rows, hidden and features, with warps and stages. The list is short to keep the search
# short. The search skips tiles that exceed the device's shared memory; the last tile always fits.
_CONFIGS = [
    triton.Config({"ROWS": rows, "HIDDEN": hidden, "DIM": dim}, num_warps=warps, num_stages=stages)
    for rows, hidden, dim, warps, stages in (
        (128, 64, 32, 4, 4),
        (128, 128, 32, 8, 3),
        (64, 64, 64, 4, 3),
        (32, 64, 64, 4, 4),
        (16, 64, 128, 4, 3),
        (16, 32, 64, 4, 3),
    )
]


def _fitting(configs: list[triton.Config], named: dict[str, Any], **_: Any) -> list[triton.Config]:
    """The tiles that are not mostly masked: for few rows, the small tiles."""
    rows = max(16, triton.next_power_of_2(named["rows"]))
    return [each for each in configs if each.kwargs["ROWS"] <= rows] or configs[-1:]


@triton.autotune(
    # The interpreter cannot time tiles, so it gets one.
    configs=_CONFIGS[-1:] if triton.knobs.runtime.interpret else _CONFIGS,
    # Tunes again for each power of two of rows, and for each layer size.
    key=["rows_bucket", "hidden", "dim", "ACTIVATION"],
    prune_configs_by={"early_config_prune": _fitting},
    cache_results=True,
)
@triton.jit
def _gate_up_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
    rows_bucket,
    hidden,
    dim,
    x_stride,
    gate_stride,
    up_stride,
    ACTIVATION: tl.constexpr,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    DIM: tl.constexpr,
):
    # Programs that share rows of x run near each other, so they read x from the cache.
    tiles = tl.cdiv(hidden, HIDDEN)
    row = (tl.program_id(0) // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = (tl.program_id(0) % tiles).to(tl.int64) * HIDDEN + tl.arange(0, HIDDEN)
    gate, up = projections(
        x_ptr, gate_ptr, up_ptr, row, column, rows, hidden, dim, x_stride, gate_stride, up_stride,
        EXACT, ROWS, HIDDEN, DIM,
    )  # fmt: skip
    tl.store(
        out_ptr + row[:, None] * hidden + column[None, :],
        activated(gate, ACTIVATION) * up,
        mask=(row[:, None] < rows) & (column[None, :] < hidden),
    )


class _GateUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        ctx.save_for_backward(x, gate, up)
        ctx.activation = activation
        hidden, dim = gate.shape
        flat = _adjacent(x.reshape(-1, dim))
        weights = _adjacent(gate), _adjacent(up)
        out = torch.empty((flat.shape[0], hidden), dtype=x.dtype, device=x.device)
        if out.numel():
            rows = flat.shape[0]

            def grid(meta: dict[str, int]) -> tuple[int]:
                return (triton.cdiv(rows, meta["ROWS"]) * triton.cdiv(hidden, meta["HIDDEN"]),)

            with torch.cuda.device_of(x):
                _gate_up_kernel[grid](
                    flat, *weights, out, rows, triton.next_power_of_2(rows), hidden, dim,
                    flat.stride(0), *(each.stride(0) for each in weights),
                    ACTIVATION=activation, EXACT=exact(x),
                )  # fmt: skip
        return out.reshape(*x.shape[:-1], hidden)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        # The vendor's GEMMs are faster here; the intermediates are recomputed.
        x, gate, up = ctx.saved_tensors
        flat, grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        gate_grad, up_grad = glu_backward(flat @ gate.T, flat @ up.T, grad, ctx.activation)
        x_grad = torch.addmm(gate_grad @ gate, up_grad, up).reshape(x.shape)
        return x_grad, gate_grad.T @ flat, up_grad.T @ flat, None


def gate_up(x: Tensor, gate: Tensor, up: Tensor, activation: str = "gelu-tanh") -> Tensor:
    """act(x @ gate.T) * (x @ up.T), accumulated in float32, in x's dtype; differentiable.

    `x` is (..., dim), `gate` and `up` are (hidden, dim), all of the same dtype (float32, float16 or
    bfloat16); rows may have any stride. float32 is multiplied in float32, not TF32.

    Raises:
        ValueError: for other dtypes, devices, activations or shapes.
    """
    check(x, activation)
    if gate.shape != up.shape or gate.dim() != 2 or x.shape[-1] != gate.shape[1]:
        raise ValueError("gate and up must be (hidden, dim), x (..., dim)")
    if not x.dtype == gate.dtype == up.dtype or not x.device == gate.device == up.device:
        raise ValueError("x, gate and up must have the same dtype and device")
    return _GateUp.apply(x, gate, up, activation)  # type: ignore[no-any-return, no-untyped-call]


def _adjacent(x: Tensor) -> Tensor:
    """`x` with adjacent columns; copied only if they are not adjacent."""
    return x if x.stride(-1) == 1 else x.contiguous()
