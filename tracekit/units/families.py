"""Families of units: how the launches of a stretch divide into units, and how that is known."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from tracekit.thresholds import Thresholds
from tracekit.units.cycles import Cycles, cycles_at, cycles_of
from tracekit.units.process import HostProcess, Spans, count_in
from tracekit.units.sequence import Flags, Ints, Sequence, bags, running_sum

LEAST_LAYERS = 3
"""Fewer parts of a pass than this do not show that they repeat."""
_JUDGED_BY = Thresholds()
# Cycles are passes, not parts of one, if at most this share of the launches is in none of them.
_FEW_OUTSIDE = 0.005
# An iteration, as of a benchmark, has at most this many launches. Few launches repeat by chance:
# iterations are this regular.
_ITERATION = 4
_GOOD_ITERATION = 0.9
# A graph of at least this many GPU ops is a whole pass.
_LARGE_GRAPH = 50
# Parts are this regular, and so many launches can have them.
GOOD_PARTS = 0.5
_LEAST_LAUNCHES = 12
_NUMBER = re.compile(r"[_#]?\d+$")


@dataclass(frozen=True)
class Family:
    """Units that were found together, by their start."""

    kind: str
    source: str
    phase_source: str
    score: float
    spans: Spans
    """On the host."""
    first: Ints
    """The first launch of each unit."""
    stop: Ints
    """The launch after its last."""
    is_whole: Flags
    names: list[str]

    def __len__(self) -> int:
        return len(self.first)

    def take(self, which: Flags) -> Family:
        """Some of its units."""
        names = [
            name for name, is_taken in zip(self.names, which.tolist(), strict=True) if is_taken
        ]
        return replace(
            self,
            spans=self.spans.take(which),
            first=self.first[which],
            stop=self.stop[which],
            is_whole=self.is_whole[which],
            names=names,
        )

    @property
    def are_layers(self) -> bool:
        return self.kind == "layer"


def marked(process: HostProcess, spans: Spans, names: list[str], kind: str, source: str) -> Family:
    """Units that the trace marks; those without a launch are left out."""
    first = np.searchsorted(process.launches.start, spans.start)
    stop = np.searchsorted(process.launches.start, spans.end)
    whole = np.ones(len(spans), np.bool_)
    return Family(kind, source, "mark", 1.0, spans, first, stop, whole, names).take(stop > first)


def single(process: HostProcess) -> Family:
    """One pass: nothing repeats."""
    launched = process.launched
    spans = Spans(launched.outer_start.min(keepdims=True), launched.outer_end.max(keepdims=True))
    stop = np.array([len(process.launches)])
    return Family(
        "pass", "single", "none", 0.0, spans, stop * 0, stop, np.array([True]), ["single pass"]
    )


def division(process: HostProcess, first: int, stop: int, within: tuple[int, int]) -> Family | None:
    """How the launches [first, stop), made in this stretch of time, divide into units, by the most
    trusted evidence; None: nothing repeats."""
    by_frames = [_by_frames(process, first, stop, within, is_range=each) for each in (False, True)]
    for family in by_frames:
        if family and not family.are_layers:
            return family
    repeated = _by_sequence(process, first, stop)
    layers = by_frames[0] or by_frames[1]
    if layers is None:
        return repeated
    # The layers of one call are inside one pass if they take most of the time.
    is_one_pass = time_share(process, layers, first, stop) >= _JUDGED_BY.unit_held
    if repeated is None or repeated.are_layers or is_one_pass:
        return layers
    return repeated


def time_share(process: HostProcess, family: Family, first: int, stop: int) -> float:
    """The share of the time of the ops launched in a stretch that a family's units launch."""
    time = running_sum(process.launches.weight)
    held = (time[family.stop] - time[family.first]).sum()
    return float(held / max(1, time[stop] - time[first]))


# -- frames and ranges that recur


def _by_frames(
    process: HostProcess, first: int, stop: int, within: tuple[int, int], *, is_range: bool
) -> Family | None:
    """The iterations in which a frame of one name recurs under one parent, launches something on
    its own thread and takes most of the work; of several such frames, the outermost."""
    frames = process.frames
    is_inside = (frames.spans.start >= within[0]) & (frames.spans.end <= within[1])
    inside = np.flatnonzero(is_inside & (frames.is_range == is_range))
    if len(inside) < 2:
        return None
    spans = frames.spans.take(inside)
    launches = process.launches.start[first:stop]
    time = running_sum(process.launches.weight[first:stop])
    begin, end = np.searchsorted(launches, spans.start), np.searchsorted(launches, spans.end)
    groups = defaultdict(list)
    for at, frame in enumerate(inside.tolist()):
        if end[at] > begin[at]:
            parent = int(frames.tid[frame]), int(frames.parent[frame])
            groups[*parent, _unnumbered(frames.name[frame])].append(at)
    for members in sorted(groups.values()):
        outermost = _outermost(spans, members)
        launched = (end[outermost] - begin[outermost]).sum() / len(launches)
        took = (time[end[outermost]] - time[begin[outermost]]).sum() / max(1, time[-1])
        is_most = max(launched, took) >= _JUDGED_BY.unit_held
        tid = frames.tid[inside[outermost[0]]]
        own = count_in(launches[process.launched.tid[first:stop] == tid], spans.take(outermost))
        if len(outermost) >= 2 and is_most and own.any():
            return _iterations(process, first, stop, inside, outermost)
    return None


def _outermost(spans: Spans, members: list[int]) -> Ints:
    """Those that do not begin inside an earlier one."""
    kept: list[int] = []
    for member in members:
        if not kept or spans.start[member] >= spans.end[kept[-1]]:
            kept.append(member)
    return np.array(kept, np.int64)


def _iterations(
    process: HostProcess, first: int, stop: int, inside: Ints, members: Ints
) -> Family | None:
    """The iterations of a parent in which these frames recur: each from its first frame under that
    parent to its last one, as in a loop over forward, backward and optimizer."""
    frames = process.frames
    chosen = inside[members]
    tid, parent = frames.tid[chosen[0]], frames.parent[chosen[0]]
    beside = inside[(frames.tid[inside] == tid) & (frames.parent[inside] == parent)]
    names = [_unnumbered(frames.name[frame]) for frame in beside.tolist()]
    label = np.unique(names, return_inverse=True)[1].astype(np.int64)
    spans = frames.spans.take(beside)
    children = Sequence(label, label * 0, spans.start, spans.end, spans.end - spans.start)
    cycles = cycles_at(children, np.searchsorted(beside, chosen))
    bounds = cycles.bounds
    end = np.maximum.reduceat(spans.end[: bounds[-1]], bounds[:-1])
    units = Spans(_begin(spans.start[bounds[:-1]], end), end)
    name = _unnumbered(frames.name[chosen[0]])
    source = "range" if frames.is_range[chosen[0]] else "frame"
    family = marked(process, units, [name] * len(units), "", source)
    bounded = np.clip(family.first, first, stop), np.clip(family.stop, first, stop)
    family = replace(family, first=bounded[0], stop=bounded[1]).take(bounded[1] > bounded[0])
    if len(family) < 2:
        return None
    numbered = {frames.name[frame] for frame in chosen.tolist()}
    are_modules = frames.is_module[chosen].all() and len(numbered) > 1
    are_layers = bool(are_modules or frames.in_module[chosen].any())
    labels = process.launches.labels
    alike = bags(process.launches.label, labels, family.first, family.stop).similarity
    return replace(
        family,
        kind="layer" if are_layers else _kind(process, family),
        phase_source=cycles.phase,
        score=float(np.median(alike)),
    )


def _unnumbered(name: str) -> str:
    """A name without the number of its instance."""
    return _NUMBER.sub("", name)


# -- launches that repeat


def _by_sequence(process: HostProcess, first: int, stop: int) -> Family | None:
    part = process.launches[first:stop].renumbered()
    graphs = np.flatnonzero(process.launched.is_graph[first:stop])
    cycles = cycles_of(part, graphs)
    if cycles is None:
        return None
    graph_share = part.weight[graphs].sum() / max(1, part.weight.sum())
    by_graphs = len(graphs) > 1 and bool(graph_share >= _JUDGED_BY.unit_held)
    bounds = cycles.bounds + first
    end = np.maximum.reduceat(process.launched.outer_end[: bounds[-1]], bounds[:-1])
    # The host begins a cycle when it has left the last operator of the one before.
    begin = _begin(process.launched.outer_start[bounds[:-1]], end)
    source = "graph" if by_graphs else "sequence"
    family = Family(
        "", source, cycles.phase, cycles.score, Spans(begin, end), bounds[:-1], bounds[1:],
        _whole(cycles), [],
    )  # fmt: skip
    kind = _kind(process, family)
    if kind == "iteration" and not by_graphs:
        held = time_share(process, family, first, stop)
        is_regular = len(family) >= LEAST_LAYERS and family.score >= _GOOD_ITERATION
        if not is_regular or held < _JUDGED_BY.unit_held:
            return None
    if kind == "pass" and not _are_passes(process, family, stop - first):
        kind = "layer"
    return replace(family, kind=kind, names=[kind] * len(family))


def _begin(first_start: Ints, end: Ints) -> Ints:
    """When each unit begins: when the one before ends, so that what comes between belongs to it."""
    begin = first_start.copy()
    begin[1:] = np.minimum(begin[1:], np.maximum(end[:-1], begin[:-1]))
    return begin


def _whole(cycles: Cycles) -> Flags:
    whole = np.ones(len(cycles), np.bool_)
    whole[0] &= not cycles.cuts_first
    whole[-1] &= not cycles.cuts_last
    return whole


def _kind(process: HostProcess, family: Family) -> str:
    """A step has a backward pass and an optimizer; an iteration has few launches and ops."""
    start = family.spans.start
    periods = Spans(start, np.append(start[1:], max(family.spans.end[-1], start[-1] + 1)))
    trains = count_in(process.backward, periods) > 0
    updates = count_in(process.optimizer, periods) > 0
    if (trains & updates).mean() >= _JUDGED_BY.unit_majority:
        return "step"
    ops = running_sum(np.maximum(process.launched.gpu_ops, 1))
    most = np.median(ops[family.stop] - ops[family.first])
    return "iteration" if most <= _ITERATION and not trains.any() else "pass"


def _are_passes(process: HostProcess, family: Family, launches: int) -> bool:
    """Whether cycles are passes, not parts of one: they are all that was recorded, or replay one
    large graph each, or copy from or to the host, or have parts themselves."""
    inside = int(family.stop[-1] - family.first[0])
    if inside >= (1 - _FEW_OUTSIDE) * launches:
        return True

    def each(values: Ints | Flags) -> Ints:
        sums = running_sum(values)
        return sums[family.stop] - sums[family.first]

    launched = process.launched
    one_graph = each(launched.is_graph) == 1
    one_graph &= each(launched.gpu_ops * launched.is_graph) >= _LARGE_GRAPH
    copies = each(launched.is_transfer) > 0
    if max(one_graph.mean(), copies.mean()) >= _JUDGED_BY.unit_majority:
        return True
    typical = slice(int(family.first[len(family) // 2]), int(family.stop[len(family) // 2]))
    if typical.stop - typical.start < _LEAST_LAUNCHES:
        return False
    parts = cycles_of(process.launches[typical].renumbered())
    return parts is not None and len(parts) >= LEAST_LAYERS and parts.score >= GOOD_PARTS
