"""Seeded mutants of real traces: times, categories, links, names and fields that no run writes.

A mutant is JSON that the reader accepts, so that all that is behind the reader meets it.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Mutate = Callable[[list[Event], random.Random], None]

CATEGORIES = (
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "Trace", "",
    "user_annotation", "gpu_user_annotation", "python_function", "overhead", "ac2g", "fwdbwd",
    "cuda_sync", "mtia_ccp_events", "nonsense",
)  # fmt: skip
NAMES = (
    "cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpyAsync", "cudaMalloc", "cudaGraphLaunch",
    "cudaStreamBeginCapture", "cudaStreamWaitEvent", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "ncclDevKernel_SendRecv", "aten::mm", "aten::item", "aten::copy_", "ProfilerStep#0",
    "ProfilerStep#7", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "Memcpy HtoD (Pageable -> Device)", "train.py(7): step", "nn.Module: Linear_0", "",
    "record_param_comms", "compile (dynamo_timed)", "DistributedDataParallel.forward",
)  # fmt: skip
# In microseconds: a trace's `ts` and `dur`.
TIMES = (0, 0, 1, -1, 0.001, 1000, -1000, 1e9, 9e12, -9e12, "17", "0", None)
ARGUMENTS: tuple[Any, ...] = (
    None, 0, -1, 1, 7, 2**31, 2**62, "", "0", "text", [], [[]], [[8, 8], [8, 8]], {}, True, 0.5,
)  # fmt: skip


def _some(events: list[Event], rng: random.Random) -> list[Event]:
    """One event, a few, those of a category, or all."""
    how = rng.randrange(5)
    if how == 0:
        return events
    if how < 3:
        category = rng.choice(events).get("cat")
        return [each for each in events if each.get("cat") == category]
    return rng.sample(events, min(len(events), rng.choice((1, 3, 20))))


def times(events: list[Event], rng: random.Random) -> None:
    field, value = rng.choice(("ts", "dur")), rng.choice(TIMES)
    for each in _some(events, rng):
        each[field] = value


def scaled(events: list[Event], rng: random.Random) -> None:
    field, by = rng.choice(("ts", "dur", "dur")), rng.choice((-1, 1e-6, 0.001, 0.5, 10, 1000, 1e6))
    for each in _some(events, rng):
        if isinstance(each.get(field), int | float):
            each[field] *= by


def moved(events: list[Event], rng: random.Random) -> None:
    by = rng.choice((-1e6, -1000, -50, 1, 50, 1000, 1e6, 1e12))
    for each in _some(events, rng):
        if isinstance(each.get("ts"), int | float):
            each["ts"] += by


def swapped(events: list[Event], rng: random.Random) -> None:
    """The values of one field change places."""
    field = rng.choice(("ts", "dur", "name", "cat", "args", "tid", "pid"))
    chosen = [each for each in _some(events, rng) if field in each]
    values = [each[field] for each in chosen]
    rng.shuffle(values)
    for each, value in zip(chosen, values, strict=True):
        each[field] = value


def categories(events: list[Event], rng: random.Random) -> None:
    value = rng.choice(CATEGORIES)
    for each in _some(events, rng):
        each["cat"] = value


def names(events: list[Event], rng: random.Random) -> None:
    value = rng.choice(NAMES)
    for each in _some(events, rng):
        each["name"] = value


def places(events: list[Event], rng: random.Random) -> None:
    field, value = rng.choice(("pid", "tid")), rng.choice((0, 7, -1, 2**31, "stream 7", "", None))
    for each in _some(events, rng):
        each[field] = value


def arguments(events: list[Event], rng: random.Random) -> None:
    """One argument gets another value: a correlation, a stream, shapes, sizes."""
    known = sorted({name for each in events for name in _args(each)})
    if not known:
        return
    field = (
        rng.choice(("correlation", "stream", *known)) if rng.random() < 0.5 else rng.choice(known)
    )
    value = rng.choice(ARGUMENTS)
    for each in _some(events, rng):
        if field in _args(each):
            each["args"] = each["args"] | {field: value}


def links(events: list[Event], rng: random.Random) -> None:
    """Correlations that no longer fit, or fit others."""
    by = rng.choice((1, 2, 17, 10**6))
    for each in _some(events, rng):
        number = _args(each).get("correlation")
        if isinstance(number, int):
            each["args"] = each["args"] | {"correlation": number + rng.choice((0, by))}


def removed(events: list[Event], rng: random.Random) -> None:
    field = rng.choice(("ts", "dur", "name", "cat", "args", "tid", "pid", "ph"))
    for each in _some(events, rng):
        each.pop(field, None)


def phases(events: list[Event], rng: random.Random) -> None:
    value = rng.choice(("X", "B", "E", "i", "s", "f", "M", "C", "b", "e", ""))
    for each in _some(events, rng):
        each["ph"] = value


def dropped(events: list[Event], rng: random.Random) -> None:
    chosen = {id(each) for each in _some(events, rng)}
    kept = [each for each in events if id(each) not in chosen]
    if rng.random() < 0.3:
        kept = events[: rng.randrange(1, len(events) + 1)]
    events[:] = kept or events[:1]


def doubled(events: list[Event], rng: random.Random) -> None:
    events += [dict(each) for each in _some(events, rng)]


MUTATIONS: tuple[Mutate, ...] = (
    times, times, scaled, scaled, moved, swapped, swapped, categories, names, places, arguments,
    arguments, links, removed, phases, dropped, dropped, doubled,
)  # fmt: skip


def mutant(base: dict[str, Any], seed: int) -> dict[str, Any]:
    """The trace with one to four mutations, which the seed chooses."""
    rng = random.Random(seed)
    events = [dict(each) for each in base["traceEvents"]]
    for _ in range(rng.randint(1, 4)):
        rng.choice(MUTATIONS)(events, rng)
    metadata = {name: value for name, value in base.items() if name != "traceEvents"}
    if metadata and rng.random() < 0.1:
        metadata.pop(rng.choice(sorted(metadata)))
    return metadata | {"traceEvents": events}


def bases(files: list[Path]) -> list[dict[str, Any]]:
    """These compressed traces as JSON, each with its events in a list of objects."""
    found = (json.loads(gzip.decompress(each.read_bytes())) for each in files)
    return [each if isinstance(each, dict) else {"traceEvents": each} for each in found]


def mutants(bases: list[dict[str, Any]], seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
    """A mutant of each seed, of one base after the other."""
    for seed in seeds:
        yield seed, mutant(bases[seed % len(bases)], seed)


def _args(event: Event) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}
