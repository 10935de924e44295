"""Writes a Kineto trace of any size from a seed: a simulated training loop.

    python tests/bench/generate.py 1GB trace.json --seed 1

tests/kit/simulator.py sets the times. A host thread dispatches operators; most launch a kernel, and
about one in ten is communication on a separate stream. Names and arguments are those that
torch.profiler writes on an A100 with record_shapes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.kit.atoms import US, Launch, Slice, StreamWait, Work, operator, step
from tests.kit.simulator import Simulation

# Operator, limit of its kernel (None for operators without a kernel), mean kernel time in us.
_OPERATORS = [
    ("aten::addmm", "math", 16),
    ("aten::mm", "math", 20),
    ("aten::gelu", "memory-bandwidth", 11),
    ("aten::add_", "memory-bandwidth", 10),
    ("aten::fill_", "latency", 3),
    ("aten::view", None, 0),
    ("aten::transpose", None, 0),
]
_OPERATORS_PER_STEP, _COMMUNICATION_EVERY = 1500, 12


def _program(rng: random.Random) -> Iterator[Slice]:
    """Endless training steps."""
    number = 0
    while True:
        number += 1
        atoms: list[Any] = []
        for place in range(_OPERATORS_PER_STEP):
            name, cause, mean_us = rng.choice(_OPERATORS)
            before = rng.randint(2 * US, 9 * US)
            launch = ()
            if cause is not None:
                ns = int(mean_us * US * rng.uniform(0.7, 1.5))
                launch = (Launch(rng.randint(3 * US, 6 * US), ((cause, ns),)),)
            atoms.append(operator(name, before, *launch, after_ns=before // 4))
            atoms.append(Work(rng.randint(500, 4 * US)))
            if place % _COMMUNICATION_EVERY == 0:
                ns = rng.randint(20 * US, 60 * US)
                reduce = Launch(5 * US, (("communication", ns),), 20)
                atoms += [StreamWait(US, 7, 20), operator("c10d::allreduce_", 4 * US, reduce)]
        yield step(number, *atoms)


def _text(event: dict[str, Any], rng: random.Random, external: int) -> Iterator[str]:
    """An event as JSON text, and the flow event that Kineto writes for it."""
    args, correlation = event["args"], event["args"].get("correlation")
    if event["cat"] == "cpu_op":
        rows, columns = 1 << rng.randrange(5, 13), 1 << rng.randrange(5, 13)
        args = {
            "External id": external, "Record function id": 0, "Concrete Inputs": ["", ""],
            "Input type": ["c10::BFloat16", "c10::BFloat16"],
            "Input Strides": [[columns, 1], [columns, 1]],
            "Input Dims": [[rows, columns], [rows, columns]], "Ev Idx": external,
        }  # fmt: skip
    elif event["cat"] == "cuda_runtime":
        args = {"External id": external, "cbid": 211, "correlation": correlation}
    elif event["cat"] == "kernel":
        args = {
            "External id": external, "queued": 0, "device": 0, "context": 1,
            "stream": event["tid"], "correlation": correlation, "registers per thread": 32,
            "shared memory": 0, "blocks per SM": 0.592593, "warps per SM": 2.37037,
            "grid": [1 << rng.randrange(5, 13), 1, 1], "block": [128, 1, 1],
            "est. achieved occupancy %": 4,
        }  # fmt: skip
    members = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in args.items())
    begin, length = event["begin"] / 1000, (event["end"] - event["begin"]) / 1000
    yield (
        f'{{\n    "ph": "X", "cat": "{event["cat"]}", "name": {json.dumps(event["name"])}, '
        f'"pid": {event["pid"]}, "tid": {event["tid"]},\n    "ts": {begin:.3f}, '
        f'"dur": {length:.3f},\n    "args": {{\n      {members}\n    }}\n  }}'
    )
    launches = event["name"] == "cudaLaunchKernel"
    if launches or event["cat"] == "kernel":
        phase, bind = ("s", "") if launches else ("f", ', "bp": "e"')
        yield (
            f'{{\n    "ph": "{phase}", "id": {correlation}, "pid": {event["pid"]}, '
            f'"tid": {event["tid"]}, "ts": {begin:.3f},\n    "cat": "ac2g", "name": "ac2g"'
            f"{bind}\n  }}"
        )


def events(seed: int) -> Iterator[str]:
    """Endless events as JSON text, ordered by their end."""
    rng = random.Random(seed)
    simulation = Simulation(_program(random.Random(seed)), seed=seed)
    for external, event in enumerate(simulation.events()):
        yield from _text(event, rng, external)


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
