"""act(x @ gate.T) * (x @ up.T) in one kernel: both projections, with the activation as epilogue.

The kernel never writes the two intermediates (rows x hidden) of the unfused form. There are two
versions. One reads through pointers: any strides, on any device. The other reads aligned tensors
through tensor descriptors, from which a Hopper's copy engine (TMA) fills shared memory. The first
call for a size times the tiles of both and keeps the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from tracekit.workloads.kernels.activations import activated, check, exact, gated
from tracekit.workloads.kernels.operators import adjacent, operator, with_gradients
from tracekit.workloads.kernels.tuning import INTERPRETED, fastest


def _config(rows: int, hidden: int, dim: int, warps: int, stages: int) -> triton.Config:
    sizes = {"ROWS": rows, "HIDDEN": hidden, "DIM": dim}
    return triton.Config(sizes, num_warps=warps, num_stages=stages)


# Tiles of rows, hidden and features, with warps and stages. The lists are short to keep the search
# short. The search skips tiles that exceed the device's shared memory; the last tile always fits.
_CONFIGS = [
    _config(128, 128, 32, 8, 4),
    _config(128, 64, 64, 8, 3),
    _config(128, 64, 32, 4, 4),
    _config(64, 64, 64, 4, 3),
    _config(64, 32, 128, 4, 4),
    _config(32, 32, 128, 4, 3),
    _config(16, 32, 128, 4, 3),
    _config(16, 32, 64, 4, 3),
]
_DESCRIPTOR_CONFIGS = [
    _config(128, 128, 64, 8, 4),
    _config(128, 128, 64, 8, 3),
    _config(128, 64, 64, 4, 4),
    _config(64, 64, 64, 4, 4),
]


@triton.jit
def projections(
    x_ptr,
    gate_ptr,
    up_ptr,
    row,
    first,
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
    # x @ gate.T and x @ up.T for one tile, side by side; shared by the kernels that fuse them.
    # One product for both: its even columns are gate's, its odd ones up's. The products of two
    # adjacent columns are in the same thread, so taking them apart moves nothing. Two products
    # would read x twice, and Triton would lay all warps along the rows, which on an A100 reads
    # shared memory 2.6 times as often per multiplication.
    column = tl.arange(0, 2 * HIDDEN)
    feature = first + column // 2
    weights = tl.where(
        column % 2 == 0, gate_ptr + feature * gate_stride, up_ptr + feature * up_stride
    )
    both = tl.zeros((ROWS, 2 * HIDDEN), dtype=tl.float32)
    for start in range(0, dim, DIM):
        place = start + tl.arange(0, DIM)
        x = tl.load(
            x_ptr + row[:, None] * x_stride + place[None, :],
            mask=(row[:, None] < rows) & (place[None, :] < dim),
            other=0.0,
        )
        weight = tl.load(
            weights[None, :] + place[:, None],
            mask=(place[:, None] < dim) & (feature[None, :] < hidden),
            other=0.0,
        )
        if EXACT:
            both = tl.dot(x.to(tl.float32), weight.to(tl.float32), both, input_precision="ieee")
        else:
            both = tl.dot(x, weight, both)
    return both.reshape(ROWS, HIDDEN, 2).split()


@triton.jit
def _gate_up_gemm_kernel(
    x_ptr,
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
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
    first = (tl.program_id(0) % tiles).to(tl.int64) * HIDDEN
    gate, up = projections(
        x_ptr, gate_ptr, up_ptr, row, first, rows, hidden, dim, x_stride, gate_stride, up_stride,
        EXACT, ROWS, HIDDEN, DIM,
    )  # fmt: skip
    column = first + tl.arange(0, HIDDEN)
    tl.store(
        out_ptr + row[:, None] * hidden + column[None, :],
        activated(gate, ACTIVATION) * up,
        mask=(row[:, None] < rows) & (column[None, :] < hidden),
    )


@triton.jit
def _gate_up_descriptor_gemm_kernel(
    x, gate, up, out, hidden, dim,
    ACTIVATION: tl.constexpr, ROWS: tl.constexpr, HIDDEN: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    # Beyond the edges, a descriptor reads zeros and writes nothing. The two products share x's
    # tile in shared memory.
    tiles = tl.cdiv(hidden, HIDDEN)
    row = (tl.program_id(0) // tiles) * ROWS
    column = (tl.program_id(0) % tiles) * HIDDEN
    gated = tl.zeros((ROWS, HIDDEN), dtype=tl.float32)
    upped = tl.zeros((ROWS, HIDDEN), dtype=tl.float32)
    for place in range(0, dim, DIM):
        tile = x.load([row, place])
        gated = tl.dot(tile, gate.load([column, place]).T, gated)
        upped = tl.dot(tile, up.load([column, place]).T, upped)
    out.store([row, column], (activated(gated, ACTIVATION) * upped).to(out.dtype))


# The chosen launch of a tile, by the arguments that the search depends on.
_CHOSEN: dict[tuple[object, ...], Callable[..., None]] = {}


@operator(
    "gate_up(Tensor x, Tensor gate, Tensor up, str activation) -> Tensor",
    lambda x, gate, up, activation: x.new_empty(*x.shape[:-1], gate.shape[0]),
)
def _operator(x: Tensor, gate: Tensor, up: Tensor, activation: str) -> Tensor:
    hidden, dim = gate.shape
    flat, gate, up = adjacent(x.reshape(-1, dim)), adjacent(gate), adjacent(up)
    rows = flat.shape[0]
    out = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    if out.numel():
        described = _can_be_described(flat, gate, up, out)
        # Searches again for each power of two of rows, and for each layer size.
        key = (x.device, x.dtype, (rows - 1).bit_length(), hidden, dim, activation, described)
        with torch.cuda.device_of(x):
            launch = _CHOSEN.get(key)
            if launch is None:
                launches = _launches(rows, exact(x), described)
                given = flat, gate, up, out, activation
                calls = {each: partial(each, *given) for each in launches}
                launch = _CHOSEN[key] = fastest(calls)
            launch(flat, gate, up, out, activation)
    return out.reshape(*x.shape[:-1], hidden)


def _launches(rows: int, exact: bool, described: bool) -> list[Callable[..., None]]:
    """Every launch worth trying, a launch that fits every device last."""
    by_descriptor = _fitting(_DESCRIPTOR_CONFIGS, rows, exact) if described else []
    return [
        *(partial(_launch_described, each.all_kwargs()) for each in by_descriptor),
        *(partial(_launch, each.all_kwargs()) for each in _fitting(_CONFIGS, rows, exact)),
    ]


def _fitting(configs: list[triton.Config], rows: int, exact: bool) -> list[triton.Config]:
    """The tiles that are not mostly masked, for few rows the small ones; for float32, which fills
    twice the memory and has no tensor cores, those of up to 64 x 64."""
    most = max(16, triton.next_power_of_2(rows))
    most = min(most, 64) if exact else most
    return [each for each in configs if each.kwargs["ROWS"] <= most]


def _can_be_described(*tensors: Tensor) -> bool:
    """Whether a Hopper or later can read the tensors by descriptors, and they are narrow enough for
    its tensor cores. https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html
    """
    x = tensors[0]
    return (
        not INTERPRETED
        and x.dtype != torch.float32
        and torch.cuda.get_device_capability(x.device) >= (9, 0)
        and all(
            each.stride(0) >= each.shape[1]
            and each.stride(0) * each.element_size() % 16 == 0
            and each.data_ptr() % 16 == 0
            for each in tensors
        )
    )


def _launch(
    tile: dict[str, Any], x: Tensor, gate: Tensor, up: Tensor, out: Tensor, activation: str
) -> None:
    rows, hidden = out.shape
    _gate_up_gemm_kernel[_grid(out, tile)](
        x, gate, up, out, rows, hidden, x.shape[1], x.stride(0), gate.stride(0), up.stride(0),
        ACTIVATION=activation, EXACT=exact(x), **tile,
    )  # fmt: skip


def _launch_described(
    tile: dict[str, Any], x: Tensor, gate: Tensor, up: Tensor, out: Tensor, activation: str
) -> None:
    rows, hidden, dim = tile["ROWS"], tile["HIDDEN"], tile["DIM"]
    _gate_up_descriptor_gemm_kernel[_grid(out, tile)](
        TensorDescriptor.from_tensor(x, [rows, dim]),
        TensorDescriptor.from_tensor(gate, [hidden, dim]),
        TensorDescriptor.from_tensor(up, [hidden, dim]),
        TensorDescriptor.from_tensor(out, [rows, hidden]),
        out.shape[1], x.shape[1], ACTIVATION=activation, **tile,
    )  # fmt: skip


def _grid(out: Tensor, tile: dict[str, Any]) -> tuple[int]:
    rows, hidden = out.shape
    return (triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(hidden, tile["HIDDEN"]),)


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
    return with_gradients(_operator, _plain, x, gate, up, activation=activation)


def _plain(x: Tensor, gate: Tensor, up: Tensor, activation: str) -> Tensor:
    return gated(x @ gate.T, x @ up.T, activation)
