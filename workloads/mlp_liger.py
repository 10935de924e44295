"""The gated MLP with act(gate) * up by Liger Kernel, if installed: a peer to compare with.

LigerGELUMulFunction and LigerSiLUMulFunction, as LigerGEGLUMLP and LigerSwiGLUMLP call them:
https://github.com/linkedin/Liger-Kernel (geglu.py and swiglu.py in liger_kernel/ops; read and
called as of 0.8.5).
"""

import importlib.util

from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.mlp_triton import Forward, in_place

# Liger's GEGLU uses the tanh form.
FUNCTIONS = {"gelu-tanh": "LigerGELUMulFunction", "silu": "LigerSiLUMulFunction"}


def build(shape: Shape) -> Workload:
    reason = why_not(shape)
    if reason is not None:
        return in_place(shape, reason, "one Liger kernel")

    def forward(module: mlp.Mlp) -> Forward:
        from liger_kernel import ops

        act_mul = getattr(ops, FUNCTIONS[shape.activation])

        def run(x: Tensor) -> Tensor:
            return module.down(act_mul.apply(module.gate(x), module.up(x)))

        return run

    return mlp.workload(shape, "liger", forward)


def why_not(shape: Shape) -> str | None:
    """Why Liger's kernels cannot run here, or None if they can."""
    if importlib.util.find_spec("liger_kernel") is None:
        return "liger-kernel is not installed (pip install liger-kernel)"
    if shape.activation not in FUNCTIONS:
        return f"liger-kernel has no {shape.activation}"
    if shape.device.type == "cpu":
        return "liger-kernel needs a GPU: Triton's interpreter does not run its kernels"
    return None
