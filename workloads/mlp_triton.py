"""The gated MLP with act(gate) * up in one Triton kernel between the vendor's GEMMs.

If Triton cannot run, PyTorch takes over: the multiplication then writes into the activation's
result, which saves the third intermediate.
"""

from collections.abc import Callable

from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload

Forward = Callable[[Tensor], Tensor]


def build(shape: Shape) -> Workload:
    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.glu import glu_over_gate

        return lambda x: module.down(glu_over_gate(module.gate(x), module.up(x), shape.activation))

    return fused(shape, "triton", forward)


def fused(shape: Shape, variant: str, forward: Callable[[mlp.Mlp], Forward]) -> Workload:
    """The MLP with Triton kernels, or the closest PyTorch version if Triton cannot run."""
    reason = why_not(shape)
    if reason is None:
        return mlp.workload(shape, variant, forward)
    return in_place(shape, reason, "one Triton kernel")


def in_place(shape: Shape, reason: str, missed: str) -> Workload:
    """The MLP in PyTorch with one intermediate fewer, and a note that says what it replaces."""

    def forward(module: mlp.Mlp) -> Forward:
        return lambda x: module.down(module.activation(module.gate(x)).mul_(module.up(x)))

    note = f"{reason}: act and mul run in PyTorch, in place, instead of in {missed}"
    return mlp.workload(shape, "pytorch-in-place", forward, note)


def why_not(shape: Shape) -> str | None:
    """Why Triton cannot run here, or None if it can."""
    try:
        from triton import knobs
    except ImportError:
        return "Triton 3.4 or later is not installed"
    if shape.device.type != "cpu" and knobs.runtime.interpret:
        return "TRITON_INTERPRET=1 is set, and the interpreter computes on the host"
    if shape.device.type == "cpu" and not knobs.runtime.interpret:
        return "Triton has no CPU backend (TRITON_INTERPRET=1 runs its interpreter, slowly)"
    return None
