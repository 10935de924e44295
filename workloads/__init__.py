"""Small programs to profile. This table lists them without importing torch."""

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A workload: its module in this package, its sizes, a summary, the function to build, and
    sizes of its own where the usual ones do not suit, on a GPU and on a CPU."""

    module: str
    sizes: tuple[str, ...]
    summary: str
    build: str = "build"
    on_gpu: Mapping[str, int] = {}
    on_cpu: Mapping[str, int] = {}


_MLP = ("batch", "seq", "dim", "hidden")
_ROWS = ("batch", "seq", "dim")


def _attention(build: str, summary: str) -> Entry:
    gpu, cpu = {"batch": 8, "seq": 1024, "dim": 1024}, {"batch": 2, "seq": 128, "dim": 128}
    return Entry("attention", _ROWS, summary, build, gpu, cpu)


WORKLOADS = {
    "matmul-add": Entry("matmul_add", ("dim",), "a @ b + c on square matrices of size --dim"),
    "linear": Entry("linear", _MLP, "one nn.Linear, --dim to --hidden, over --batch x --seq rows"),
    "mlp-eager": Entry("mlp", _MLP, "gated MLP, eager: 5 kernels a forward on a GPU", "eager"),
    "mlp-compiled": Entry("mlp_compiled", _MLP, "the same MLP under torch.compile: 4 kernels"),
    "mlp-compiled-reduce-overhead": Entry(
        "mlp_compiled", _MLP, "the same, compiled into CUDA graphs", "reduce_overhead"
    ),
    "mlp-compiled-max-autotune": Entry(
        "mlp_compiled", _MLP, "the same, compiled with tuned products", "max_autotune"
    ),
    "mlp-cudagraph": Entry("mlp_cudagraph", _MLP, "the eager MLP as one CUDA graph"),
    "mlp-torch-fused": Entry(
        "mlp_torch_fused", _MLP, "the same MLP in plain PyTorch: one packed product, in place"
    ),
    "mlp-triton": Entry(
        "mlp_triton", _MLP, "the same MLP, act(gate) * up in one Triton kernel: 4 kernels"
    ),
    "mlp-triton-gate-up": Entry(
        "mlp_triton", _MLP, "the same MLP, all but the down product in one: 2 kernels", "gate_up"
    ),
    "mlp-triton-full": Entry(
        "mlp_triton", _MLP, "the same MLP in one kernel, for up to 64 rows", "full"
    ),
    "mlp-cpp": Entry(
        "mlp_cpp", _MLP, "the same MLP as one C++ operator, with a CUDA kernel: 3 kernels"
    ),
    "mlp-liger": Entry(
        "mlp_liger", _MLP, "the same MLP, act(gate) * up by Liger Kernel where it is installed"
    ),
    "attention-block": Entry(
        "attention_block", _MLP, "a transformer block, eager: attention and the gated MLP"
    ),
    "attention-naive": _attention("naive", "causal attention by hand, heads of 64: 6 kernels"),
    "attention-inplace": _attention("inplace", "the same, masked in place: 5 kernels"),
    "attention-sdpa-math": _attention("sdpa_math", "the same by PyTorch's math backend alone"),
    "attention-sdpa-efficient": _attention("sdpa_efficient", "by its memory-efficient backend"),
    "attention-sdpa-flash": _attention("sdpa_flash", "by its FlashAttention backend"),
    "attention-sdpa-cudnn": _attention("sdpa_cudnn", "by its cuDNN backend"),
    "train-step": Entry(
        "train_step", _MLP, "a training step of the gated MLP: forward, backward, AdamW"
    ),
    "sync-bound": Entry("controls", _ROWS, "products, each read back by the host", "sync_bound"),
    "python-bound": Entry("controls", _ROWS, "products with Python in between", "python_bound"),
    "input-bound": Entry("controls", _ROWS, "products of what a slow loader yields", "input_bound"),
    "copy-bound": Entry("controls", _ROWS, "products after a large blocking copy", "copy_bound"),
}
