"""Small programs to profile, one module each. Listing them needs this table, and no torch."""

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a workload lives (a module of this package, with `build`), its sizes, what it does."""

    module: str
    sizes: tuple[str, ...]
    summary: str


_MLP = ("batch", "seq", "dim", "hidden")


WORKLOADS = {
    "matmul-add": Entry("matmul_add", ("dim",), "a @ b + c on square matrices of size --dim"),
    "linear": Entry("linear", _MLP, "one nn.Linear, --dim to --hidden, over --batch x --seq rows"),
    "mlp-eager": Entry("mlp_eager", _MLP, "GeGLU MLP, eager: 5 kernels a forward on a GPU"),
    "mlp-compiled": Entry("mlp_compiled", _MLP, "the same MLP under torch.compile: 4 kernels"),
    "mlp-triton": Entry(
        "mlp_triton", _MLP, "the same MLP, gelu(gate) * up in one Triton kernel: 4 kernels"
    ),
}
