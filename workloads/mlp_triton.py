"""The gated MLP with Triton kernels: of act(gate) * up, of both projections too, or of all of it.

If Triton cannot run, PyTorch takes over: the multiplication then writes into the activation's
result, which saves the third intermediate.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from tracekit.workloads import mlp, mlp_compiled
from tracekit.workloads.base import Shape, Workload

Forward = Callable[[Tensor], Tensor]
Steps = Mapping[str, Callable[[], Tensor]]


def build(shape: Shape) -> Workload:
    """act(gate) * up in one kernel, between the vendor's GEMMs."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.glu import glu_over_gate

        return lambda x: module.down(glu_over_gate(module.gate(x), module.up(x), shape.activation))

    return fused(shape, "triton", forward)


def gate_up(shape: Shape) -> Workload:
    """Both projections and the activation in one kernel, then a GEMM.

    Where the compiler's form, two products and one fused kernel, is faster on the device at hand,
    that runs instead: both are timed on a GPU, with the L2 cache cleared before each run.
    """

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels import gate_up

        weights = module.gate.weight, module.up.weight
        return lambda x: module.down(gate_up.gate_up(x, *weights, shape.activation))

    fused_form = fused(shape, "triton-gate-up", forward)
    if shape.device.type == "cpu" or fused_form.note:
        return fused_form
    from tracekit.workloads.kernels.tuning import device_us

    return faster(fused_form, mlp_compiled.build(shape), device_us)


def full(shape: Shape) -> Workload:
    """All in one kernel. Raises ValueError if the batch has more rows than one tile."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.block import Workspace, block

        weights = module.gate.weight, module.up.weight, module.down.weight
        workspace = Workspace.zeros(shape.dim, shape.device)
        return lambda x: block(x, *weights, shape.activation, workspace)

    return fused(shape, "triton-full", forward)


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


def faster(
    fused_form: Workload, compiled: Workload, timed: Callable[[Steps], Mapping[str, float]]
) -> Workload:
    """The form that takes less time on the device, with a note where it is the compiler's."""
    us = timed({"fused": fused_form.step, "compiled": compiled.step})
    if us["fused"] <= us["compiled"]:
        return fused_form
    note = (
        f"the compiler's two products run, since a step takes {us['compiled']:.1f} us with them on "
        f"this device and {us['fused']:.1f} us with one Triton kernel"
    )
    return replace(compiled, note=note)
