"""Writes a Kineto trace of any size: a simulated training loop, the same each time.

    python -m tests.bench.generate 1GB trace.json

tests/kit/simulator.py sets the times. A host thread dispatches operators; most launch a kernel, and
about one in ten is communication on a separate stream. Names and arguments are those that
torch.profiler writes on an A100 with record_shapes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.atoms import US, Launch, Slice, StreamWait, Work, operator, step
from tests.kit.simulator import Simulation, trace_event

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
_HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85095874560,
         "computeMajor": 8, "computeMinor": 0, "numSms": 108},
    ],
    "record_shapes": 1, "traceName": "generated", "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1711964646000000000, "traceEvents": [],
}  # fmt: skip


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


def events() -> Iterator[dict[str, Any]]:
    """Endless events, ordered by their end, with the flow events that Kineto writes for them."""
    rng, simulation = random.Random(0), Simulation(_program(random.Random(0)))
    for external, event in enumerate(map(trace_event, simulation.events())):
        correlation = event["args"].get("correlation")
        if event["cat"] == "cpu_op":
            rows, columns = 1 << rng.randrange(5, 13), 1 << rng.randrange(5, 13)
            event["args"] = {
                "External id": external, "Record function id": 0, "Concrete Inputs": ["", ""],
                "Input type": ["c10::BFloat16"] * 2, "Input Strides": [[columns, 1]] * 2,
                "Input Dims": [[rows, columns]] * 2, "Ev Idx": external,
            }  # fmt: skip
        elif event["cat"] == "cuda_runtime":
            event["args"] = {"External id": external, "cbid": 211, "correlation": correlation}
        elif event["cat"] == "kernel":
            event["args"] = {
                "External id": external, "queued": 0, "device": 0, "context": 1,
                "stream": event["tid"], "correlation": correlation, "registers per thread": 32,
                "shared memory": 0, "blocks per SM": 0.592593, "warps per SM": 2.37037,
                "grid": [1 << rng.randrange(5, 13), 1, 1], "block": [128, 1, 1],
                "est. achieved occupancy %": 4,
            }  # fmt: skip
        yield event
        launches = event["name"] == "cudaLaunchKernel"
        if launches or event["cat"] == "kernel":
            flow = {"ph": "s"} if launches else {"ph": "f", "bp": "e"}
            place = {key: event[key] for key in ("pid", "tid", "ts")}
            yield flow | place | {"id": correlation, "cat": "ac2g", "name": "ac2g"}


def write(path: Path, n_bytes: int) -> int:
    """Writes a trace of about `n_bytes`; returns its number of events."""
    head, tail = json.dumps(_HEAD, indent=2).rsplit("]", 1)
    with path.open("w") as file:
        size = file.write(f"{head}\n  ")
        for count, event in enumerate(events()):
            size += file.write(",\n  " * bool(count) + _text(event))
            if size >= n_bytes:
                break
        file.write(f"\n  ]{tail}\n")
    return count + 1


def _text(event: dict[str, Any]) -> str:
    """The event in lines as Kineto's."""
    text = json.dumps(event)[1:-1].replace(', "ts": ', ',\n    "ts": ')
    before, has_args, args = text.partition(', "args": {')
    args = f',\n    "args": {{\n      {args[:-1]}\n    }}' if has_args else ""
    return f"{{\n    {before}{args}\n  }}"


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
    given = parser.parse_args()
    print(f"{write(given.output, given.size):,} events")
