"""The whole gated MLP, down(act(gate(x)) * up(x)), in one kernel: for small batches.

Each program takes a range of the hidden features for all rows, and adds its contribution to sums
in float32, so no intermediate is written. The program that finishes last rounds the sums to the
output and clears them for the next call: no fill before and no cast after. The weights are read
once, which is what limits a small batch; beyond a few dozen rows a separate GEMM is faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tracekit.workloads.kernels.activations import activated, check, exact
from tracekit.workloads.kernels.gate_up import gate_up, projections
from tracekit.workloads.kernels.operators import adjacent, operator, with_gradients
from tracekit.workloads.kernels.tuning import fastest

# The rows of the one tile, and so the largest batch that the kernel takes.
MOST_ROWS = 64
# The hidden features that a program computes, and the features that it reads at a time. The last
# configuration fits every device.
_CONFIGS = [
    triton.Config({"HIDDEN": hidden, "DIM": dim}, num_warps=4, num_stages=stages)
    for hidden, dim, stages in ((32, 128, 3), (16, 128, 3), (16, 64, 4), (32, 64, 2))
]


@triton.jit
def _gated_mlp_gemm_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    down_ptr,
    sums_ptr,
    finished_ptr,
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
    first = tl.program_id(0).to(tl.int64) * HIDDEN
    gate, up = projections(
        x_ptr, gate_ptr, up_ptr, row, first, rows, hidden, dim, x_stride, gate_stride, up_stride,
        EXACT, ROWS, HIDDEN, DIM,
    )  # fmt: skip
    column = first + tl.arange(0, HIDDEN)
    inner = activated(gate, ACTIVATION) * up
    for start in range(0, dim, DIM):
        place = (start + tl.arange(0, DIM)).to(tl.int64)
        down_weight = tl.load(
            down_ptr + place[None, :] * down_stride + column[:, None],
            mask=(place[None, :] < dim) & (column[:, None] < hidden),
            other=0.0,
        )
        if EXACT:
            part = tl.dot(inner, down_weight.to(tl.float32), input_precision="ieee")
        else:
            # Rounded as the unfused form does when it writes this intermediate.
            part = tl.dot(inner.to(x_ptr.dtype.element_ty), down_weight)
        tl.atomic_add(
            sums_ptr + row[:, None] * dim + place[None, :],
            part,
            mask=(row[:, None] < rows) & (place[None, :] < dim),
            sem="relaxed",
        )
    # All threads' additions come before the count: https://docs.nvidia.com/cuda/parallel-thread-execution
    # (memory consistency model, release patterns). The count is of programs.
    tl.debug_barrier()
    if tl.atomic_add(finished_ptr, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        for start in range(0, dim, DIM):
            place = (start + tl.arange(0, DIM)).to(tl.int64)
            inside = (row[:, None] < rows) & (place[None, :] < dim)
            at = row[:, None] * dim + place[None, :]
            # From the L2 cache, where additions happen.
            total = tl.load(sums_ptr + at, mask=inside, other=0.0, cache_modifier=".cg")
            # Another thread may clear a sum than the one that reads it.
            tl.debug_barrier()
            tl.store(out_ptr + at, total, mask=inside)
            tl.store(sums_ptr + at, tl.zeros((ROWS, DIM), dtype=tl.float32), mask=inside)
        tl.store(finished_ptr, 0)


@dataclass(frozen=True)
class Workspace:
    """The sums of a call, and how many of its programs have finished; all zero between calls.

    Two calls must not use one workspace at once, on two streams or in two graphs.
    """

    sums: Tensor
    finished: Tensor

    @classmethod
    def zeros(cls, dim: int, device: torch.device) -> Workspace:
        """A workspace for products of up to 64 rows with `dim` features."""
        memory = torch.zeros(MOST_ROWS * dim + 1, dtype=torch.float32, device=device)
        return cls(memory[:-1], memory[-1:].view(torch.int32))


# The chosen tile, by the arguments that the search depends on.
_CHOSEN: dict[tuple[object, ...], dict[str, Any]] = {}


@operator(
    "block(Tensor x, Tensor gate, Tensor up, Tensor down, Tensor(a!) sums, Tensor(b!) finished, "
    "str activation) -> Tensor",
    lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format),
)
def _operator(
    x: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    sums: Tensor,
    finished: Tensor,
    activation: str,
) -> Tensor:
    hidden, dim = gate.shape
    flat = adjacent(x.reshape(-1, dim))
    rows = flat.shape[0]
    weights = adjacent(gate), adjacent(up), adjacent(down)
    if not hidden:
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    out = torch.empty((rows, dim), dtype=x.dtype, device=x.device)
    if out.numel():
        most = max(16, triton.next_power_of_2(rows))

        def launch(tile: dict[str, Any]) -> None:
            _gated_mlp_gemm_kernel[(triton.cdiv(hidden, tile["HIDDEN"]),)](
                flat, *weights, sums, finished, out, rows, hidden, dim, flat.stride(0),
                *(each.stride(0) for each in weights), ACTIVATION=activation, EXACT=exact(x),
                ROWS=most, **tile,
            )  # fmt: skip

        key = (x.device, x.dtype, most, hidden, dim, activation)
        with torch.cuda.device_of(x):
            if key not in _CHOSEN:
                calls = {at: partial(launch, each.all_kwargs()) for at, each in enumerate(_CONFIGS)}
                _CHOSEN[key] = _CONFIGS[fastest(calls)].all_kwargs()
            launch(_CHOSEN[key])
    return out.reshape(x.shape)


def block(
    x: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    activation: str = "gelu-tanh",
    workspace: Workspace | None = None,
) -> Tensor:
    """down(act(gate(x)) * up(x)), accumulated in float32, in x's dtype; differentiable.

    `x` is (..., dim) with at most 64 rows in total, `gate` and `up` are (hidden, dim), `down` is
    (dim, hidden), all of the same dtype. The order of the additions differs from run to run, and so
    do the last bits of the result. With a `workspace` of its own, a call launches one kernel;
    without one, it first allocates and clears one.

    Raises:
        ValueError: for other dtypes, devices, activations or shapes, or more rows.
    """
    check(x, activation)
    if gate.shape != up.shape or down.shape != gate.shape[::-1] or x.shape[-1] != gate.shape[1]:
        raise ValueError("gate and up must be (hidden, dim), down (dim, hidden), x (..., dim)")
    if not (
        x.dtype == gate.dtype == up.dtype == down.dtype
        and x.device == gate.device == up.device == down.device
    ):
        raise ValueError("x and the weights must have the same dtype and device")
    if x.numel() // max(1, x.shape[-1]) > MOST_ROWS:
        raise ValueError(f"block takes at most {MOST_ROWS} rows; use gate_up for more")
    space = workspace or Workspace.zeros(x.shape[-1], x.device)
    if space.sums.numel() < MOST_ROWS * x.shape[-1] or space.sums.device != x.device:
        raise ValueError("the workspace is for fewer features or another device")
    named = {"sums": space.sums, "finished": space.finished, "activation": activation}
    return with_gradients(_operator, _plain, x, gate, up, down, **named)


def _plain(
    x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str, **_: Tensor
) -> Tensor:
    return gate_up(x, gate, up, activation) @ down.T
