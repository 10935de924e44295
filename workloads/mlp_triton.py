"""The GeGLU MLP with gelu(gate) * up in one Triton kernel between the vendor's GEMMs.

Where Triton cannot run, the same fusion in PyTorch takes over: the multiplication writes into
gelu's result, so that no third intermediate is made.
"""

from torch import Tensor
from torch.nn import functional

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def geglu_in_place(gate: Tensor, up: Tensor) -> Tensor:
    """gelu_tanh(gate) * up, multiplied in place."""
    return functional.gelu(gate, approximate="tanh").mul_(up)


def build(shape: Shape) -> Workload:
    reason = why_not(shape)
    if reason is None:
        from tracekit.workloads.kernels.geglu import geglu

        return mlp.workload(shape, "triton", geglu)
    note = f"{reason}: gelu and mul run in PyTorch, in place, instead of in one Triton kernel"
    return mlp.workload(shape, "pytorch-in-place", geglu_in_place, note=note)


def why_not(shape: Shape) -> str | None:
    """Why Triton cannot run here, or None where it can."""
    try:
        from triton import knobs
    except ImportError:
        return "Triton is not installed"
    if shape.device.type == "cpu" and not knobs.runtime.interpret:
        return "Triton has no CPU backend (TRITON_INTERPRET=1 runs its interpreter, slowly)"
    return None
