"""Parts of real traces, and mutations with a slower or faster host or device, made by seed."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from tests.bench.diagnosis.retimed import retimed
from tests.conftest import SHARED_TRACES
from tests.kit.cuts import CUTS, Event, is_slice, launched

Trace = dict[str, Any]
Change = Callable[[list[Event], random.Random], list[Event]]

# A mutation changes speeds by a factor between these.
FACTORS = 2.0, 4.0
# The part of the host's time that `middle` keeps.
MIDDLE = 0.4

_STACKS = ("Call stack", "Module Hierarchy", "Python parent id", "Python id", "Python module id")
_SHAPES = ("Input Dims", "Input type", "Input Strides", "Input dims", "Concrete Inputs")


def second_half(events: list[Event], rng: random.Random) -> list[Event]:
    """The host's slices that begin in the second half, and the GPU ops they launched."""
    begin, end = _hosts_time(events)
    middle = (begin + end) / 2
    return launched(events, lambda each: float(each["ts"]) >= middle)


def middle(events: list[Event], rng: random.Random) -> list[Event]:
    """The host's slices within a random part of its time, and the GPU ops they launched."""
    begin, end = _hosts_time(events)
    length = MIDDLE * (end - begin)
    first = rng.uniform(begin, end - length)
    last = first + length
    return launched(
        events,
        lambda each: first <= float(each["ts"]) and float(each["ts"]) + float(each["dur"]) <= last,
    )


def without_stacks(events: list[Event], rng: random.Random) -> list[Event]:
    """As recorded without `with_stack` and `with_modules`."""
    return list(
        _without_args((each for each in events if each.get("cat") != "python_function"), _STACKS)
    )


def without_shapes(events: list[Event], rng: random.Random) -> list[Event]:
    """As recorded without `record_shapes`."""
    return list(_without_args(events, _SHAPES))


def without_marks(events: list[Event], rng: random.Random) -> list[Event]:
    """As recorded by a loop that does not call the profiler's step()."""
    return [each for each in events if not str(each.get("name")).startswith("ProfilerStep")]


def slow_host(events: list[Event], rng: random.Random) -> list[Event]:
    """The host's own work takes longer; its waits take what the device needs."""
    return retimed(events, host=rng.uniform(*FACTORS))


def slow_device(events: list[Event], rng: random.Random) -> list[Event]:
    """Kernels, copies and fills take longer."""
    return retimed(events, device=rng.uniform(*FACTORS))


def fast_device(events: list[Event], rng: random.Random) -> list[Event]:
    """Kernels, copies and fills take less time."""
    return retimed(events, device=1 / rng.uniform(*FACTORS))


PARTS: dict[str, Change] = {
    **CUTS, "second half": second_half, "middle": middle, "without stacks": without_stacks,
    "without shapes": without_shapes, "without marks": without_marks,
}  # fmt: skip
MUTATIONS: dict[str, Change] = {
    "slow host": slow_host, "slow device": slow_device, "fast device": fast_device,
}  # fmt: skip


def part(whole: Trace, kind: str, seed: int) -> Trace:
    """A part or a mutation of a trace. Raises KeyError for an unknown kind."""
    change = (PARTS | MUTATIONS)[kind]
    return whole | {"traceEvents": change([*whole["traceEvents"]], random.Random(seed))}


def real(name: str) -> Trace:
    """A shared real trace; one that is a bare list of events becomes an object."""
    trace = json.loads(gzip.decompress((SHARED_TRACES / f"{name}.json.gz").read_bytes()))
    return trace if isinstance(trace, dict) else {"traceEvents": trace}


# -- a sample --------------------------------------------------------------------------------------

SAMPLE, LEAST_MUTATIONS = 30, 14
LARGEST_BYTES = 20_000_000
# Traces of one job look alike: the sample has at most this many of its ranks.
ALIKE, LARGEST_ALIKE = "v100-dlrm-", 2


def drawn(
    seed: int = 2026, besides: Collection[tuple[str, str]] = (), least: int = 0
) -> list[tuple[str, str, int]]:
    """A sample of parts and mutations of the shared traces, at most one of each trace: its name,
    the kind, and the seed. A part differs from the whole, has at least so many slices, and is none
    of `besides` (names and kinds)."""
    rng = random.Random(seed)
    names = _small_traces()
    alike = [name for name in names if name.startswith(ALIKE)]
    few = rng.sample(alike, min(LARGEST_ALIKE, len(alike)))
    names = [name for name in names if name not in alike or name in few]
    rng.shuffle(names)
    sample: list[tuple[str, str, int]] = []
    for name in names:
        if len(sample) == SAMPLE:
            break
        mutated = sum(kind in MUTATIONS for _, kind, _ in sample)
        kinds = rng.sample([*PARTS], len(PARTS))
        if mutated < LEAST_MUTATIONS:
            kinds = rng.sample([*MUTATIONS], len(MUTATIONS)) + kinds
        number = rng.randrange(1000)
        whole = real(name)
        for kind in kinds:
            found = part(whole, kind, number)
            is_large = sum(map(is_slice, found["traceEvents"])) >= least
            if found != whole and is_large and (name, kind) not in besides:
                sample.append((name, kind, number))
                break
    return sorted(sample)


def _small_traces() -> list[str]:
    """The shared traces of less than the largest size. gzip writes the size at the file's end."""
    return sorted(
        path.name.removesuffix(".json.gz")
        for path in SHARED_TRACES.glob("*.json.gz")
        if int.from_bytes(path.read_bytes()[-4:], "little") <= LARGEST_BYTES
    )


def _hosts_time(events: list[Event]) -> tuple[float, float]:
    """The first and the last begin of the host's slices, in microseconds."""
    begins = [float(each["ts"]) for each in events if is_slice(each) and each.get("cat") != "Trace"]
    return (min(begins), max(begins)) if begins else (0.0, 0.0)


def _without_args(events: Iterable[Event], names: Iterable[str]) -> Iterator[Event]:
    """The events without arguments of these names."""
    gone = {*names}
    for each in events:
        args = each.get("args")
        if isinstance(args, dict) and not gone.isdisjoint(args):
            each = each | {"args": {key: args[key] for key in args if key not in gone}}
        yield each
