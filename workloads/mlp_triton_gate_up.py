"""The gated MLP with both projections and the activation in one Triton kernel, then a GEMM.

Where the compiler's form, two products and one fused kernel, is faster on the device at hand, that
runs instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from tracekit.workloads import mlp, mlp_compiled
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.mlp_triton import Forward, fused

Steps = Mapping[str, Callable[[], Tensor]]


def build(shape: Shape) -> Workload:
    """Times both forms on a GPU, with the L2 cache cleared before each run."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.gate_up import gate_up

        weights = module.gate.weight, module.up.weight
        return lambda x: module.down(gate_up(x, *weights, shape.activation))

    fused_form = fused(shape, "triton-gate-up", forward)
    if shape.device.type == "cpu" or fused_form.note:
        return fused_form
    from tracekit.workloads.kernels.tuning import device_us

    return faster(fused_form, mlp_compiled.build(shape), device_us)


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
