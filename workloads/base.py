"""Defines a workload: a step to run, and the answer it must give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes of a workload: (batch, seq) rows, `dim` input and output features, `hidden` features,
    and the activation of the MLPs."""

    batch: int
    seq: int
    dim: int
    hidden: int
    dtype: torch.dtype
    device: torch.device
    activation: str = "gelu-tanh"

    def random(self, *sizes: int, seed: int, scale: float = 1.0) -> Tensor:
        """Normal values, the same on every device: drawn in float32 on the CPU."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(*sizes, generator=generator, device="cpu") * scale
        return drawn.to(self.device, self.dtype)


@dataclass(frozen=True)
class Workload:
    """A step to profile, and the same answer computed eagerly in float32.

    `variant` names what runs. If that is not what the workload's name promises, `note` says why.
    """

    step: Callable[[], Tensor]
    reference: Callable[[], Tensor]
    variant: str
    note: str | None = None


# Allowed error relative to the largest reference value. Inputs and outputs are rounded to the
# dtype; sums are accumulated in float32. Split accumulation stays within the float32 figure.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
# TF32 rounds each factor of a float32 product to 10 bits: errors of 3e-4 to 5e-4.
_TOLERANCE_IN_TF32 = 1e-3


def error_of(workload: Workload, dtype: torch.dtype) -> tuple[float, float]:
    """Largest absolute error of the step relative to the largest reference value, and its limit.

    The reference is computed without TF32, even if the process allows it.

    Raises:
        ValueError: for a dtype that TOLERANCE lacks.
    """
    if dtype not in TOLERANCE:
        raise ValueError(f"no tolerance is defined for {dtype}")
    with torch.no_grad():
        with _without_tf32():
            expected = workload.reference()
        actual = workload.step().float()
    scale = expected.abs().max().clamp_min(1e-30)
    error = ((actual - expected).abs().max() / scale).item()
    return error, tolerance(dtype, actual.device)


def tolerance(dtype: torch.dtype, device: torch.device) -> float:
    """The allowed error of products on `device`, which are in TF32 if the process allows that."""
    is_tf32 = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return _TOLERANCE_IN_TF32 if is_tf32 and dtype == torch.float32 else TOLERANCE[dtype]


@contextmanager
def _without_tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
