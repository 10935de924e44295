"""The gated MLP with its own kernels: in Triton for act(gate) * up, for both projections too, or
for all of it; as one C++ operator; and with Liger Kernel, if installed, a peer to compare with.

If a kernel cannot run, PyTorch takes over: the multiplication then writes into the activation's
result, which saves the third intermediate.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.graphs import captured
from tracekit.workloads.kernels import extension

# Liger's GEGLU uses the tanh form.
LIGER_FUNCTIONS = {"gelu-tanh": "LigerGELUMulFunction", "silu": "LigerSiLUMulFunction"}
Forward = Callable[[Tensor], Tensor]
Steps = Mapping[str, Callable[[], Tensor]]


def triton(shape: Shape) -> Workload:
    """act(gate) * up in one kernel, between the vendor's GEMMs."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.glu import glu_over_gate

        return lambda x: module.down(glu_over_gate(module.gate(x), module.up(x), shape.activation))

    return fused(shape, "triton", forward, why_not(shape))


def gate_up(shape: Shape) -> Workload:
    """Both projections and the activation in one kernel, then a GEMM; or the compiler's form."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels import gate_up

        weights = module.gate.weight, module.up.weight
        return lambda x: module.down(gate_up.gate_up(x, *weights, shape.activation))

    return _or_compiled(shape, fused(shape, "triton-gate-up", forward, why_not(shape)))


def full(shape: Shape) -> Workload:
    """All in one kernel, or the compiler's form. Raises ValueError if the batch has more rows than
    one tile."""

    def forward(module: mlp.Mlp) -> Forward:
        from tracekit.workloads.kernels.block import Workspace, block

        weights = module.gate.weight, module.up.weight, module.down.weight
        workspace = Workspace.zeros(shape.dim, shape.device)
        return lambda x: block(x, *weights, shape.activation, workspace)

    return _or_compiled(shape, fused(shape, "triton-full", forward, why_not(shape)))


def cpp(shape: Shape) -> Workload:
    """One C++ operator, compiled on first use: one call from Python runs one packed product,
    act(gate) * up in one CUDA kernel (with PyTorch's operators on a CPU), and one product."""

    def forward(module: mlp.Mlp) -> Forward:
        gate_up = torch.cat([module.gate.weight, module.up.weight])
        down = module.down.weight
        operator = torch.ops.tracekit.gated_mlp.default
        return lambda x: operator(x, gate_up, down, shape.activation)

    return fused(shape, "cpp", forward, extension.why_not(shape.device), "one C++ operator")


def liger(shape: Shape) -> Workload:
    """act(gate) * up by Liger Kernel's functions, as LigerGEGLUMLP and LigerSwiGLUMLP call them:
    https://github.com/linkedin/Liger-Kernel (geglu.py and swiglu.py in liger_kernel/ops; read and
    called as of 0.8.5)."""

    def forward(module: mlp.Mlp) -> Forward:
        from liger_kernel import ops

        act_mul = getattr(ops, LIGER_FUNCTIONS[shape.activation])
        return lambda x: module.down(act_mul.apply(module.gate(x), module.up(x)))

    return fused(shape, "liger", forward, why_not_liger(shape), "one Liger kernel")


def fused(
    shape: Shape,
    variant: str,
    forward: Callable[[mlp.Mlp], Forward],
    reason: str | None,
    missed: str = "one Triton kernel",
) -> Workload:
    """The MLP with a kernel; if there is a reason why that cannot run, the MLP in PyTorch with one
    intermediate fewer, and a note that says what it replaces."""
    if reason is None:
        return mlp.workload(shape, variant, forward)

    def in_place(module: mlp.Mlp) -> Forward:
        return lambda x: module.down(module.activation(module.gate(x)).mul_(module.up(x)))

    note = f"{reason}: act and mul run in PyTorch, in place, instead of in {missed}"
    return mlp.workload(shape, "pytorch-in-place", in_place, note)


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


def why_not_liger(shape: Shape) -> str | None:
    """Why Liger's kernels cannot run here, or None if they can."""
    if importlib.util.find_spec("liger_kernel") is None:
        return "liger-kernel is not installed (pip install liger-kernel)"
    if shape.activation not in LIGER_FUNCTIONS:
        return f"liger-kernel has no {shape.activation}"
    if shape.device.type == "cpu":
        return "liger-kernel needs a GPU: Triton's interpreter does not run its kernels"
    return None


def _or_compiled(shape: Shape, fused_form: Workload) -> Workload:
    """The fused form; or, if it is faster on this GPU, the compiler's.

    Both are timed as CUDA graphs, since the host takes longer than a small batch's kernels, with
    the L2 cache cleared before each run.
    """
    if shape.device.type == "cpu" or fused_form.note:
        return fused_form
    from tracekit.workloads.kernels.tuning import device_us

    def graphs_us(steps: Steps) -> Mapping[str, float]:
        return device_us({name: captured(step) for name, step in steps.items()})

    return faster(fused_form, mlp.compiled(shape), graphs_us)


def faster(
    fused_form: Workload, compiled: Workload, timed: Callable[[Steps], Mapping[str, float]]
) -> Workload:
    """The form that takes less time on the device, with a note where it is the compiler's."""
    us = timed({"fused": fused_form.step, "compiled": compiled.step})
    if us["fused"] <= us["compiled"]:
        return fused_form
    note = (
        f"the compiler's kernels run, since a step takes {us['compiled']:.1f} us with them on "
        f"this device and {us['fused']:.1f} us with one Triton kernel"
    )
    return replace(compiled, note=note)
