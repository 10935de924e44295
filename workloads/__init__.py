"""Small programs to profile. This table lists them without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tracekit.workloads.base import Shape, Workload

_MLP = ("batch", "seq", "dim", "hidden")
_ROWS = ("batch", "seq", "dim")


class Entry(NamedTuple):
    """A workload: the function of this package that makes it, a summary, the options for its sizes,
    and its own defaults for a GPU and a CPU if the usual ones do not suit."""

    function: str
    summary: str
    sizes: tuple[str, ...] = _MLP
    on_gpu: Mapping[str, int] = {}
    on_cpu: Mapping[str, int] = {}

    def build(self, shape: Shape) -> Workload:
        """The workload at these sizes.

        Raises:
            ValueError: when it cannot run here, with the reason.
        """
        module, _, name = self.function.partition(".")
        made: Workload = getattr(import_module(f"tracekit.workloads.{module}"), name)(shape)
        return made


def _attention(function: str, summary: str) -> Entry:
    gpu, cpu = {"batch": 8, "seq": 1024, "dim": 1024}, {"batch": 2, "seq": 128, "dim": 128}
    return Entry(f"attention.{function}", summary, _ROWS, gpu, cpu)


WORKLOADS = {
    "matmul-add": Entry("mlp.matmul_add", "a @ b + c on square matrices of size --dim", ("dim",)),
    "linear": Entry("mlp.linear", "one nn.Linear, --dim to --hidden, over --batch x --seq rows"),
    "mlp-eager": Entry("mlp.eager", "gated MLP, eager: 5 kernels a forward on a GPU"),
    "mlp-compiled": Entry("mlp.compiled", "the same MLP under torch.compile: 4 kernels"),
    "mlp-compiled-reduce-overhead": Entry(
        "mlp.reduce_overhead", "the same, compiled into CUDA graphs"
    ),
    "mlp-compiled-max-autotune": Entry(
        "mlp.max_autotune", "the same, compiled with tuned products"
    ),
    "mlp-cudagraph": Entry("mlp.cudagraph", "the eager MLP as one CUDA graph"),
    "mlp-torch-fused": Entry(
        "mlp.torch_fused", "the same MLP in plain PyTorch: one packed product, in place"
    ),
    "mlp-triton": Entry(
        "mlp_kernels.triton", "the same MLP, act(gate) * up in one Triton kernel: 4 kernels"
    ),
    "mlp-triton-gate-up": Entry(
        "mlp_kernels.gate_up", "the same MLP, all but the down product in one: 2 kernels"
    ),
    "mlp-triton-full": Entry("mlp_kernels.full", "the same MLP in one kernel, for up to 64 rows"),
    "mlp-cpp": Entry(
        "mlp_kernels.cpp", "the same MLP as one C++ operator, with a CUDA kernel: 3 kernels"
    ),
    "mlp-liger": Entry(
        "mlp_kernels.liger", "the same MLP, act(gate) * up by Liger Kernel where it is installed"
    ),
    "attention-block": Entry(
        "attention.block", "a transformer block, eager: attention and the gated MLP"
    ),
    "attention-naive": _attention("naive", "causal attention by hand, heads of 64: 6 kernels"),
    "attention-inplace": _attention("inplace", "the same, masked in place: 5 kernels"),
    "attention-sdpa-math": _attention("sdpa_math", "the same by PyTorch's math backend alone"),
    "attention-sdpa-efficient": _attention("sdpa_efficient", "by its memory-efficient backend"),
    "attention-sdpa-flash": _attention("sdpa_flash", "by its FlashAttention backend"),
    "attention-sdpa-cudnn": _attention("sdpa_cudnn", "by its cuDNN backend"),
    "train-step": Entry(
        "mlp.train_step", "a training step of the gated MLP: forward, backward, AdamW"
    ),
    "sync-bound": Entry("controls.sync_bound", "products, each read back by the host", _ROWS),
    "python-bound": Entry("controls.python_bound", "products with Python in between", _ROWS),
    "input-bound": Entry("controls.input_bound", "products of what a slow loader yields", _ROWS),
    "copy-bound": Entry("controls.copy_bound", "products after a large blocking copy", _ROWS),
}
