"""The units of work of a process, on up to three levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.thresholds import Thresholds
from tracekit.units.families import (
    GOOD_PARTS,
    LEAST_LAYERS,
    Family,
    division,
    marked,
    single,
    time_share,
)
from tracekit.units.process import HostProcess, Spans, count_in
from tracekit.units.sequence import Ints

_JUDGED_BY = Thresholds()
_LEVELS = 3
_ALWAYS = (-(1 << 62), 1 << 62)
# Shorter units have no parts.
_LEAST_LAUNCHES = 6
# Another loop before or after takes at least this share of the time of the launched ops.
_LEAST_LOOP = 0.05
# A unit with this many times the launches of others may be several.
_LONG = 1.5
# Look for the parts of this many units of a family; the others have none.
_MOST_DIVIDED = 300


@dataclass(frozen=True)
class Placed:
    """A family of units that are parts of one unit of another family, or of the process."""

    family: Family
    level: int
    parent: int
    """The number of that unit, by the order of families; -1: none."""
    server_steps: Ints | None = None
    """Which of the server's steps these units are; None: none."""


def units_of(process: HostProcess) -> list[Placed]:
    """The families of units of a process, each after the one that holds it."""
    placed: list[Placed] = []
    units = 0
    waiting = _outermost(process)
    while waiting:
        families, waiting = waiting, []
        for each in families:
            placed.append(each)
            if each.level < _LEVELS and not each.family.are_layers:
                waiting += _parts(process, each, units)
            units += len(each.family)
    return placed


def _outermost(process: HostProcess) -> list[Placed]:
    """What the process repeats on the outermost level: marks win, then a server's ranges."""
    steps = marked(process, process.marks, process.mark_names, "step", "mark")
    if len(steps):
        return [Placed(steps, 1, -1)]
    if served := _served(process, _ALWAYS, 1, -1):
        return [served]
    launches = len(process.launches)
    main = division(process, 0, launches, _ALWAYS)
    if main is None or main.are_layers:
        return [Placed(single(process), 1, -1)]
    sizes = main.stop - main.first
    if sizes[0] > _LONG * np.median(sizes) and len(main) > LEAST_LAYERS:
        # Several units of another kind may come first, as prefills before decodes.
        first, stop = int(main.first[0]), int(main.stop[0])
        others = division(process, first, stop, _time(process, first, stop))
        if others is not None and not others.are_layers:
            main = main.take(np.arange(len(main)) > 0)
    found = [Placed(main, 1, -1)]
    for first, stop in ((0, int(main.first[0])), (int(main.stop[-1]), launches)):
        loop = division(process, first, stop, _time(process, first, stop)) if stop > first else None
        if loop is None or loop.are_layers or len(loop) < LEAST_LAYERS:
            continue
        if time_share(process, loop, 0, launches) >= _LEAST_LOOP:
            found.append(Placed(loop, 1, -1))
    return found


def _time(process: HostProcess, first: int, stop: int) -> tuple[int, int]:
    start = process.launches.start
    return int(start[first]), int(start[stop]) if stop < len(start) else _ALWAYS[1]


def _served(
    process: HostProcess, within: tuple[int, int], level: int, parent: int
) -> Placed | None:
    """The steps of an inference server in a stretch of time that launch something, each with what
    comes before it."""
    steps = process.server_steps
    which = np.flatnonzero((steps.spans.start >= within[0]) & (steps.spans.end <= within[1]))
    which = which[count_in(process.launches.start, steps.spans.take(which)) > 0]
    names = [steps.name[at] for at in which.tolist()]
    spans = _with_lead(process, steps.spans.take(which))
    family = marked(process, spans, names, "pass", "server")
    return Placed(family, level, parent, which) if len(family) else None


def _with_lead(process: HostProcess, spans: Spans) -> Spans:
    """Steps that begin when the one before ends, since a server schedules a step before it begins
    its range. If the device waits for longer than the step takes, the server waits for
    requests."""
    start, took = spans.start.copy(), process.on_device(spans)
    is_short = start[1:] - took.end[:-1] <= took.end[1:] - took.start[1:]
    start[1:] = np.where(is_short, np.minimum(start[1:], spans.end[:-1]), start[1:])
    return Spans(start, spans.end)


def _parts(process: HostProcess, whole: Placed, number: int) -> list[Placed]:
    """What the units of a family, numbered from this number on, divide into."""
    family, found = whole.family, []
    undivided = set[bytes]()
    for at in range(min(len(family), _MOST_DIVIDED)):
        first, stop = int(family.first[at]), int(family.stop[at])
        within = int(family.spans.start[at]), int(family.spans.end[at])
        level, parent = whole.level + 1, number + at
        if family.source == "mark" and (served := _served(process, within, level, parent)):
            found.append(served)
            continue
        work = process.launches.label[first:stop].tobytes()
        if stop - first < _LEAST_LAUNCHES or work in undivided:
            continue
        parts = division(process, first, stop, within)
        if parts is not None and _are_parts(process, parts, first, stop):
            found.append(Placed(parts, level, parent))
        else:
            undivided.add(work)
    return found


def _are_parts(process: HostProcess, parts: Family, first: int, stop: int) -> bool:
    """Whether they are regular, enough and take most of the unit's time; for passes, most of its
    launches will do."""
    least = LEAST_LAYERS if parts.are_layers else 2
    held = time_share(process, parts, first, stop)
    if parts.kind == "pass":
        held = max(held, int((parts.stop - parts.first).sum()) / (stop - first))
    is_regular = len(parts) >= least and parts.score >= GOOD_PARTS
    return is_regular and held >= _JUDGED_BY.unit_held
