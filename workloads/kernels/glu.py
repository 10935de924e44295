"""act(gate) * up in one pass over memory: two reads and one write per element.

Gated linear units: https://arxiv.org/abs/2002.05202
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tracekit.workloads.kernels.activations import activated, check, gated
from tracekit.workloads.kernels.operators import needs_gradients, operator, with_gradients
from tracekit.workloads.kernels.tuning import processors

# Elements per block and warps. With 8 warps of 32 threads, a thread moves 16 bytes of bfloat16 from
# each tensor at a time, once or twice. Large blocks are for tensors that fill the device many
# times.
BLOCKS, WARPS = (2048, 4096), 8
# As many blocks of 8 warps as a multiprocessor holds at once:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
_RESIDENT = 8


@triton.jit
def _glu_forward_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
    columns,
    gate_stride,
    up_stride,
    out_stride,
    ACTIVATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # As many programs as the device holds; each takes every n-th block. Rows are 64-bit, since
    # rows times stride exceeds 2^31 elements in large batches.
    blocks = tl.cdiv(columns, BLOCK)
    for block in range(tl.program_id(0), rows * blocks, tl.num_programs(0)):
        row = (block // blocks).to(tl.int64)
        first = (block % blocks).to(tl.int64) * BLOCK
        place = tl.arange(0, BLOCK)
        inside = place < tl.minimum(columns - first, BLOCK).to(tl.int32)
        # Each input is read once: evicting it first makes room for the result, which the next
        # product reads.
        gate = tl.load(
            gate_ptr + row * gate_stride + first + place,
            mask=inside, other=0.0, eviction_policy="evict_first",
        ).to(tl.float32)  # fmt: skip
        up = tl.load(
            up_ptr + row * up_stride + first + place,
            mask=inside, other=0.0, eviction_policy="evict_first",
        ).to(tl.float32)  # fmt: skip
        # Eager rounds the activation to the dtype before it multiplies; a single rounding at the
        # end is more exact.
        out = activated(gate, ACTIVATION) * up
        tl.store(out_ptr + row * out_stride + first + place, out, mask=inside)


def _forward(gate: Tensor, up: Tensor, out: Tensor, activation: str) -> None:
    if not out.numel():
        return
    # Contiguous tensors are read as one row, whatever their shape.
    flat = gate.is_contiguous() and up.is_contiguous()
    columns = gate.numel() if flat else gate.shape[-1]
    rows = [_rows(each, columns) for each in (gate, up, out)]
    grid, block = _persistent_grid(rows[0].shape[0], columns, processors(gate.device))
    with torch.cuda.device_of(gate):
        _glu_forward_kernel[grid](
            *rows, rows[0].shape[0], columns, *(each.stride(0) for each in rows),
            ACTIVATION=activation, BLOCK=block, num_warps=WARPS,
        )  # fmt: skip


@operator(
    "glu(Tensor gate, Tensor up, str activation) -> Tensor",
    lambda gate, up, activation: torch.empty_like(gate, memory_format=torch.contiguous_format),
)
def _glu(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    out = torch.empty_like(gate, memory_format=torch.contiguous_format)
    _forward(gate, up, out, activation)
    return out


@operator(
    "glu_(Tensor(a!) gate, Tensor up, str activation) -> ()", lambda gate, up, activation: None
)
def _glu_over_gate(gate: Tensor, up: Tensor, activation: str) -> None:
    _forward(gate, up, gate, activation)


def glu(gate: Tensor, up: Tensor, activation: str = "gelu-tanh") -> Tensor:
    """act(gate) * up, contiguous, in their dtype, computed in float32; differentiable.

    `gate` and `up` are (..., n), of the same shape and dtype (float32, float16 or bfloat16); rows
    may have any stride, as in the halves of a packed projection. `activation` is one of
    `activations.NAMES`.

    Raises:
        ValueError: for other dtypes or activations, or if shapes, dtypes or devices differ.
    """
    _check(gate, up, activation)
    return with_gradients(_glu, gated, gate, up, activation=activation)


def glu_over_gate(gate: Tensor, up: Tensor, activation: str = "gelu-tanh") -> Tensor:
    """As `glu`, but writes the result over `gate`, and returns it: no memory for the result.

    Raises:
        ValueError: as `glu`; also if a gradient is needed, which would read the overwritten `gate`,
        and if `gate` is not contiguous or shares memory with `up`.
    """
    _check(gate, up, activation)
    if needs_gradients(gate, up):
        raise ValueError("gate is needed for the gradients, so nothing may be written over it")
    shared = gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()
    if shared or not gate.is_contiguous():
        raise ValueError("gate must be contiguous, in memory of its own")
    _glu_over_gate(gate, up, activation)
    return gate


def _check(gate: Tensor, up: Tensor, activation: str) -> None:
    check(gate, activation)
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError("gate and up must have the same shape, dtype and device")


def _persistent_grid(rows: int, columns: int, processors: int) -> tuple[tuple[int], int]:
    resident = processors * _RESIDENT
    small, large = BLOCKS
    fills = columns >= large and rows * columns >= 4 * resident * large
    block = large if fills else min(small, triton.next_power_of_2(columns))
    return (min(rows * triton.cdiv(columns, block), resident),), block


def _rows(x: Tensor, columns: int) -> Tensor:
    """`x` as (rows, columns) with adjacent columns; copied only if a view cannot do it."""
    rows = x.reshape(-1, columns)
    return rows if rows.stride(1) == 1 else rows.contiguous()
