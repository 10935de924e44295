"""Compiles every Triton kernel and every tile of its search for a device that need not be present.

    TRITON_INTERPRET=0 python compile_kernels.py 90

prints a line of JSON per kernel: its dtype and options; its registers per thread and bytes that
spill; the shared memory of a block; and its numbers of instructions: all, products on tensor cores,
matrix loads from shared memory and copies into it. Counts are
of instructions in the program, not of executed ones. Raises if Triton or ptxas fails to compile a
kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tracekit.workloads.kernels import block, gate_up, glu
from tracekit.workloads.mlp import ACTIVATIONS

# The kind of an instruction, by its name before the first dot.
# https://docs.nvidia.com/cuda/cuda-binary-utilities/#instruction-set-reference
COUNTED = {
    "tensor_core": ("HMMA", "HGMMA"),
    "matrix_loads": ("LDSM",),
    "copies_to_shared": ("LDGSTS", "UTMALDG"),
}


def compiled(
    kernel: Any, dtype: str, capability: int, given: dict[str, Any], **options: int
) -> dict[str, Any]:
    """Compiles one kernel for sizes and addresses that are multiples of 16, as most are."""
    names = [each for each in kernel.arg_names if each not in given]
    source = ASTSource(
        fn=kernel,
        signature={each: _type(each, dtype, given) for each in names}
        | dict.fromkeys(given, "constexpr"),
        constexprs=given,
        attrs={(place,): [["tt.divisibility", 16]] for place in range(len(names))},
    )
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return {
        "kernel": kernel.__name__,
        "dtype": dtype,
        **given,
        **options,
        "shared_bytes": result.metadata.shared,
        **_resources(result.asm["cubin"]),
    }


def _type(name: str, dtype: str, given: dict[str, Any]) -> str:
    tiles = {
        "x": ("ROWS", "DIM"), "gate": ("HIDDEN", "DIM"), "up": ("HIDDEN", "DIM"),
        "out": ("ROWS", "HIDDEN"),
    }  # fmt: skip
    if name in tiles:
        return f"tensordesc<{dtype}{[given[each] for each in tiles[name]]}>"
    pointers = {"sums_ptr": "*fp32", "finished_ptr": "*i32"}
    return pointers.get(name, f"*{dtype}" if name.endswith("_ptr") else "i32")


def _resources(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, code = (
            subprocess.run([*tool, file.name], capture_output=True, text=True, check=True).stdout
            for tool in (
                (triton.knobs.nvidia.cuobjdump.path, "-res-usage"),
                (triton.knobs.nvidia.nvdisasm.path, "-c"),
            )
        )
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert found, usage
    names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", code)
    counts = Counter(names)
    return {
        "registers": int(found[1]),
        "spilled_bytes": int(found[2]),
        "instructions": len(names),
        **{each: sum(counts[name] for name in sorts) for each, sorts in COUNTED.items()},
    }


def every_kernel(capability: int) -> Iterator[dict[str, Any]]:
    """Compiles all tiles in bfloat16 and float32."""
    for dtype in ("bf16", "fp32"):
        for name in ACTIVATIONS if dtype == "bf16" else ("gelu-tanh",):
            warps = {"num_warps": glu.WARPS}
            for size in glu.BLOCKS:
                given = {"ACTIVATION": name, "BLOCK": size}
                yield compiled(glu._glu_forward_kernel, dtype, capability, given, **warps)
        products = {"ACTIVATION": "gelu-tanh", "EXACT": dtype == "fp32"}
        for tile in gate_up._fitting(gate_up._CONFIGS, 8192, dtype == "fp32"):
            given = products | tile.kwargs
            yield compiled(gate_up._gate_up_gemm_kernel, dtype, capability, given, **_own(tile))
        for tile in gate_up._DESCRIPTOR_CONFIGS if capability >= 90 and dtype == "bf16" else ():
            given = {"ACTIVATION": "gelu-tanh"} | tile.kwargs
            kernel = gate_up._gate_up_descriptor_gemm_kernel
            yield compiled(kernel, dtype, capability, given, **_own(tile))
        for rows in (16, block.MOST_ROWS):
            for tile in block._CONFIGS:
                given = products | tile.kwargs | {"ROWS": rows}
                yield compiled(block._gated_mlp_gemm_kernel, dtype, capability, given, **_own(tile))


def _own(tile: triton.Config) -> dict[str, int]:
    return {"num_warps": tile.num_warps, "num_stages": tile.num_stages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("capability", type=int, help="80 for an A100, 90 for an H100")
    for facts in every_kernel(parser.parse_args().capability):
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
