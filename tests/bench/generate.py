"""Writes a Kineto trace of any size from a seed: a training loop, spread in time as a real run is.

    python tests/bench/generate.py 1GB trace.json --seed 1

Each step is a chain of operators on one host thread; most launch a kernel that runs after the one
before it. Names and arguments are those that torch.profiler writes on an A100 with record_shapes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

# Operator, kernel (None: it launches none), mean kernel time in us.
_OPERATORS = [
    ("aten::addmm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 14.0),
    ("aten::mm", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn", 18.0),
    (
        "aten::gelu",
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}, at::detail::Array<char*, "
        "2> >(int, at::native::GeluCUDAKernelImpl, at::detail::Array<char*, 2>)",
        6.0,
    ),
    (
        "aten::add_",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add"
        "<c10::BFloat16>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add"
        "<c10::BFloat16>, at::detail::Array<char*, 3>)",
        4.0,
    ),
    (
        "aten::native_layer_norm",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
        "float>(int, float, c10::BFloat16 const*)",
        5.0,
    ),
    ("aten::view", None, 0.0),
    ("aten::transpose", None, 0.0),
    (
        "c10d::allreduce_",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        20.0,
    ),
]
_HOST, _THREAD, _STREAM = 41_000, 41_000, 7
_OPERATORS_PER_STEP = 1500


def events(seed: int) -> Iterator[str]:
    """Events without end, as JSON text, in the order in which Kineto writes a step."""
    rng = random.Random(seed)
    now_us, gpu_free_us = 4_458_676_388_068.751, 0.0
    external = correlation = step = 0
    while True:
        began_us = now_us
        for _ in range(_OPERATORS_PER_STEP):
            name, kernel, mean_us = rng.choice(_OPERATORS)
            external += 1
            dispatch_us = 2 + rng.expovariate(1 / 9)
            rows, columns = 1 << rng.randrange(5, 13), 1 << rng.randrange(5, 13)
            yield _event(
                "cpu_op", name, _HOST, _THREAD, now_us, dispatch_us,
                {"External id": external, "Record function id": 0, "Concrete Inputs": ["", ""],
                 "Input type": ["c10::BFloat16", "c10::BFloat16"],
                 "Input Strides": [[columns, 1], [columns, 1]],
                 "Input Dims": [[rows, columns], [rows, columns]], "Ev Idx": external},
            )  # fmt: skip
            if kernel is not None:
                correlation += 1
                call_us, call_length_us = now_us + 0.6 * dispatch_us, 0.35 * dispatch_us
                yield _event(
                    "cuda_runtime", "cudaLaunchKernel", _HOST, _THREAD, call_us, call_length_us,
                    {"External id": external, "cbid": 211, "correlation": correlation},
                )  # fmt: skip
                start_us = max(call_us + rng.uniform(4, 8), gpu_free_us)
                length_us = rng.expovariate(1 / mean_us) + 1
                gpu_free_us = start_us + length_us
                yield _event(
                    "kernel", kernel, 0, _STREAM, start_us, length_us,
                    {"External id": external, "queued": 0, "device": 0, "context": 1,
                     "stream": _STREAM, "correlation": correlation, "registers per thread": 32,
                     "shared memory": 0, "blocks per SM": 0.592593, "warps per SM": 2.37037,
                     "grid": [rows, 1, 1], "block": [128, 1, 1],
                     "est. achieved occupancy %": 4},
                )  # fmt: skip
                for phase, pid, at in (("s", _HOST, call_us), ("f", 0, start_us)):
                    bind = ', "bp": "e"' if phase == "f" else ""
                    tid = _THREAD if phase == "s" else _STREAM
                    yield (
                        f'{{\n    "ph": "{phase}", "id": {correlation}, "pid": {pid}, '
                        f'"tid": {tid}, "ts": {at:.3f},\n    "cat": "ac2g", "name": "ac2g"'
                        f"{bind}\n  }}"
                    )
            now_us += dispatch_us + rng.expovariate(1 / 3)
        step += 1
        yield _event(
            "user_annotation", f"ProfilerStep#{step}", _HOST, _THREAD, began_us, now_us - began_us,
            {"External id": external, "Record function id": 0},
        )  # fmt: skip
        now_us += 50


def _event(
    category: str, name: str, pid: int, tid: int, start_us: float, length_us: float, args: dict
) -> str:
    members = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in args.items())
    return (
        f'{{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {pid}, '
        f'"tid": {tid},\n    "ts": {start_us:.3f}, "dur": {length_us:.3f},\n'
        f'    "args": {{\n      {members}\n    }}\n  }}'
    )


def write(path: Path, n_bytes: int, seed: int = 0) -> int:
    """Writes a trace of about `n_bytes`; returns its number of events."""
    count = 0
    with path.open("w") as file:
        size = file.write(
            '\n{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {"id": 0, "name": "NVIDIA '
            'A100-SXM4-80GB", "totalGlobalMem": 85095874560, "computeMajor": 8, "computeMinor": 0, '
            '"numSms": 108}\n  ],\n  "record_shapes": 1,\n  "traceEvents": [\n  '
        )
        for event in events(seed):
            size += file.write((",\n  " if count else "") + event)
            count += 1
            if size >= n_bytes:
                break
        file.write(
            '\n  ],\n  "traceName": "generated",\n  "displayTimeUnit": "ms",\n'
            '  "baseTimeNanoseconds": 1711964646000000000\n}\n'
        )
    return count


def size_of(text: str) -> int:
    """'1GB', '250MB' or a number of bytes."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=size_of)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{write(given.output, given.size, given.seed):,} events")
