"""Collects what the stages of a pipeline do in a step: they work, and idle for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from tracekit.causes import CAUSES
from tracekit.evidence.model import Pipeline, StageTime
from tracekit.replay.graph.arrays import Flags, Ints
from tracekit.replay.ranks.rank_replay import RankReplay

# Times of something, by the first rank's clock: begins and ends.
_Spans = tuple[Ints, Ints]


class _Shape(Struct, frozen=True):
    """A pipeline's ranks in the order of its stages, and what each sends in a step."""

    ranks: list[int]
    micro_batches: int = 0
    chunks: int = 1


def pipeline_of(joined: RankReplay, traces: Sequence[dict[str, Any]]) -> Pipeline | None:
    """What the ranks do as stages of pipelines; None: there is no pipeline. Ranks are known by
    their index, and `traces` are their rows of the question overview."""
    shapes = _shapes(joined)
    if not shapes or not joined.step_names:
        return None
    steps = len(joined.step_names)
    rows = []
    for shape in shapes:
        for stage, (number, parts) in enumerate(
            zip(shape.ranks, _times(joined, shape), strict=True)
        ):
            rank, trace = traces[number]["rank"], traces[number]["trace_id"]
            rows.append(StageTime(rank, trace, stage, *(round(ns / steps) for ns in parts)))
    counts = {(len(each.ranks), each.micro_batches, each.chunks) for each in shapes}
    longest = max(shapes, key=lambda each: len(each.ranks))
    idle = [row.idle_ns for row in rows]
    return Pipeline(
        stages=len(longest.ranks),
        micro_batches=longest.micro_batches if len(counts) == 1 else 0,
        chunks=longest.chunks if len(counts) == 1 else 1,
        ways=1 if _begins_with_receive(joined, longest.ranks[-1]) else 2,
        idle_ns=round(sum(idle) / len(idle)),
        least_idle_ns=min(idle),
        ranks=sorted(rows, key=lambda row: (row.stage, row.rank or 0)),
    )


# -- which ranks are stages


def _shapes(joined: RankReplay) -> list[_Shape]:
    """The run's pipelines: ranks that send to the next one and get something back from it."""
    sent = _sent(joined)
    both_ways = {(a, b) for a, b in sent if a < b and (b, a) in sent}
    chains: dict[int, list[int]] = {}
    for a, b in sorted(both_ways):
        joint = sorted({*chains.get(a, [a]), *chains.get(b, [b])})
        chains |= dict.fromkeys(joint, joint)
    shapes = []
    for ranks in {id(chain): chain for chain in chains.values()}.values():
        first_last = {(ranks[0], ranks[-1])}
        inner = {(a, b) for a, b in both_ways if a in ranks} - first_last
        # The last stage of a chunk sends to the first one of the next.
        if {*pairwise(ranks)} - first_last <= inner and inner <= {*pairwise(ranks)}:
            shapes.append(_Shape(ranks, *_batches(ranks, sent, len(joined.step_names))))
    return shapes


def _sent(joined: RankReplay) -> Counter[tuple[int, int]]:
    """How many messages go from one rank to another."""
    members = joined.members
    exchange = np.flatnonzero(members.is_exchange)
    ends = np.full((2, members.count), -1, np.int64)
    is_send = (members.direction[exchange] == "send").astype(np.int64)
    ends[1 - is_send, members.meeting[exchange]] = joined.rank[exchange]
    pairs = ends[:, (ends >= 0).all(axis=0)].T.tolist()
    return Counter((sender, receiver) for sender, receiver in pairs)


def _batches(ranks: list[int], sent: Counter[tuple[int, int]], steps: int) -> tuple[int, int]:
    """The micro-batches of a step, and the chunks of layers that each rank has, if each stage sends
    as often to the next one as it gets back; 0: they differ."""
    forth = [(a, b) for a, b in pairwise(ranks)]
    counts = {sent[pair] for a, b in forth for pair in ((a, b), (b, a))}
    ends = [(ranks[-1], ranks[0]), (ranks[0], ranks[-1])]
    around = {sent[pair] for pair in ends} if len(ranks) > 2 else {0}
    if len(counts) > 1 or len(around) > 1:
        return 0, 1
    # With v chunks, a micro-batch goes v times along the chain, and v - 1 times back to its start.
    (count,), (back,) = counts, around
    batches, rest = divmod(count - back, max(1, steps))
    chunks, part = divmod(count, max(1, count - back))
    return (batches, chunks) if not rest and not part else (0, 1)


# -- what they do


def _times(joined: RankReplay, shape: _Shape) -> list[list[int]]:
    """For each stage, in all steps: its work, the fill before it begins, waits for others after
    that, the drain after it, and the rest.

    A stage fills and drains while another stage works or sends. It begins with its first message,
    or with its first work if it sends first; it is done before a collective that meets the other
    stages.
    """
    works = [_work(joined, number) for number in shape.ranks]
    messages = [_messages(joined, number) for number in shape.ranks]
    wires = [(end - wire, end) for _, end, wire, _ in messages]
    active = _union([*works, *wires])
    crossings = [_crossings(joined, number, shape.ranks) for number in shape.ranks]
    totals = [[0] * 5 for _ in shape.ranks]
    for lo, hi in pairwise(joined.measured.borders.tolist()):
        inside = [_begun(work, lo, hi) for work in works]
        bounds = [
            _bounds(work, *message[:2], message[3], crossing, lo, hi)
            for work, message, crossing in zip(inside, messages, crossings, strict=True)
        ]
        known = [each for each in bounds if each is not None]
        first = min((each[0] for each in known), default=lo)
        last = max((each[2] for each in known), default=hi)
        for total, work, message, bound in zip(totals, inside, messages, bounds, strict=True):
            parts = [_length(work), 0, 0, 0]
            if bound is not None:
                _, begun, done = bound
                begins, ends, wire, _ = message
                waits = _begun((begins, np.maximum(begins, ends - wire)), begun, done)
                parts[1] = _length(_begun(active, first, begun), but=work)
                parts[2] = _length(_union([waits]), but=work)
                parts[3] = _length(_begun(active, done, last), but=work)
            for at, ns in enumerate([*parts, hi - lo - sum(parts)]):
                total[at] += ns
    return totals


def _work(joined: RankReplay, number: int) -> _Spans:
    """When a rank's device does anything but communicate."""
    device = joined.graphs[number].device
    is_work = device.cause != CAUSES.index("communication")
    start = device.start[is_work] + joined.ahead_ns[number]
    return _union([(start, start + device.ns[is_work])])


def _messages(joined: RankReplay, number: int) -> tuple[Ints, Ints, Ints, Flags]:
    """When a rank's sends and receives begin and end, their time on the wire, and which are
    receives; in order."""
    members, own = joined.members, joined.own[number]
    own = own[members.is_exchange[own]]
    start = joined.graphs[number].device.start[joined.op[own]] + joined.ahead_ns[number]
    order = np.argsort(start, kind="stable")
    own, start = own[order], start[order]
    end = start + members.ns[own]
    return (
        start,
        end,
        np.minimum(members.wire_ns[own], end - start),
        members.direction[own] != "send",
    )


def _begins_with_receive(joined: RankReplay, number: int) -> bool:
    """Whether a stage first waits for others: the last one does in a pipeline of one way."""
    begins, _, _, receives = _messages(joined, number)
    inside = receives[begins >= joined.measured.borders[0]]
    return bool(inside[0]) if len(inside) else True


def _crossings(joined: RankReplay, number: int, ranks: list[int]) -> _Spans:
    """When a rank is in collectives in which it meets other stages."""
    members, own = joined.members, joined.own[number]
    own = own[~members.is_exchange[own]]
    others = np.isin(joined.rank, [each for each in ranks if each != number])
    met = own[np.isin(members.meeting[own], members.meeting[others])]
    start = joined.graphs[number].device.start[joined.op[met]] + joined.ahead_ns[number]
    return start, start + members.ns[met]


def _bounds(
    work: _Spans, begins: Ints, ends: Ints, receives: Flags, crossings: _Spans, lo: int, hi: int
) -> tuple[int, int, int] | None:
    """When a stage first works in a step, when it begins as a part of the pipeline, and when it is
    done; None: it exchanges nothing."""
    inside = np.flatnonzero((ends > lo) & (begins < hi))
    if not len(inside) or not len(work[0]):
        return None
    first, last = inside[0], inside[-1]
    begun = min(hi, int(ends[first])) if receives[first] else int(work[0][0])
    # No message follows the collective that ends the step.
    after = crossings[0][(crossings[1] >= begins[last]) & (crossings[0] < hi)]
    until = int(after.min(initial=hi))
    done = work[1][work[1] <= until]
    return int(work[0][0]), begun, max(begun, int(done[-1]) if len(done) else begun)


# -- spans


def _union(spans: Sequence[_Spans]) -> _Spans:
    """The time in which at least one of them runs, as spans that do not touch."""
    begins, ends = (np.concatenate(each) for each in zip(*spans, strict=True))
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order]) if len(order) else ends
    is_new = np.ones(len(begins), np.bool_)
    is_new[1:] = begins[1:] > ends[:-1]
    return begins[is_new], ends[np.append(is_new[1:], True)] if len(ends) else ends


def _begun(spans: _Spans, lo: int, hi: int) -> _Spans:
    """The parts of spans between two times."""
    begins, ends = np.maximum(spans[0], lo), np.minimum(spans[1], hi)
    return begins[ends > begins], ends[ends > begins]


def _length(spans: _Spans, but: _Spans | None = None) -> int:
    """The length of spans that do not overlap, without what others cover."""
    length = int((spans[1] - spans[0]).sum())
    if but is None:
        return length
    both = _union([spans, but])
    return int((both[1] - both[0]).sum() - (but[1] - but[0]).sum())
