"""Compiles every Triton kernel for a compute capability, without a GPU.

    python compile_kernels.py 90

Prints one line of JSON per kernel: its dtype and options, the shared memory of a block, and whether
its products run on tensor cores. Raises if Triton or ptxas fails to compile a kernel.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tracekit.workloads.kernels import block, gate_up, glu
from tracekit.workloads.kernels.activations import NAMES


def compiled(
    kernel: Any, dtype: str, capability: int, given: dict[str, Any], **options: int
) -> str:
    """Compiles one kernel for sizes and addresses that are multiples of 16, as most are."""
    pointers = {"out_ptr": "*fp32"} if kernel is block._block_kernel else {}
    names = [each for each in kernel.arg_names if each not in given]
    types = {each: f"*{dtype}" if each.endswith("_ptr") else "i32" for each in names} | pointers
    source = ASTSource(
        fn=kernel,
        signature=types | dict.fromkeys(given, "constexpr"),
        constexprs=given,
        attrs={(place,): [["tt.divisibility", 16]] for place in range(len(names))},
    )
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    text = result.asm["ptx"]
    facts = {
        "kernel": kernel.__name__,
        "dtype": dtype,
        **given,
        **options,
        "shared_bytes": result.metadata.shared,
        "tensor_cores": "mma.sync" in text or "wgmma" in text,
    }
    return json.dumps(facts)


def main() -> None:
    capability = int(sys.argv[1])
    for dtype in ("fp32", "bf16"):
        for name in NAMES if dtype == "bf16" else NAMES[:1]:
            for kernel in (glu._forward_kernel, glu._backward_kernel):
                given = {"ACTIVATION": name, "BLOCK": 1024}
                print(compiled(kernel, dtype, capability, given))
        products = {"ACTIVATION": "gelu-tanh", "EXACT": dtype == "fp32"}
        for tile in gate_up._CONFIGS:
            sizes = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
            kernel = gate_up._gate_up_kernel.fn
            print(compiled(kernel, dtype, capability, products | tile.kwargs, **sizes))
        for rows in (16, block.MOST_ROWS):
            sizes = {"ROWS": rows, "HIDDEN": block._HIDDEN, "DIM": block._DIM}
            print(compiled(block._block_kernel, dtype, capability, products | sizes))


if __name__ == "__main__":
    main()
