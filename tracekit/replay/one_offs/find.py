"""Finds and prices one-offs, and leaves their excess out of a replay."""

from __future__ import annotations

from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Flags, Ints
from tracekit.replay.one_offs.host_work import HostWork
from tracekit.replay.one_offs.model import OneOff, one_off
from tracekit.replay.one_offs.slow_steps import busy_steps, slow_steps
from tracekit.replay.one_offs.start import slow_start
from tracekit.replay.scaling import Scale

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay


def one_offs_of(replay: Replay) -> list[OneOff]:
    """The one-offs of a trace, in order of their starts.

    Where the excess of an event is that of one-offs in it, those are listed in its place. A slow
    step is listed beside them, with the rest of its excess.
    """
    found, slow = _priced(replay), replay.thresholds.one_range_ratio
    kept: list[OneOff] = []
    # From the inside out; captures first, since what is in them belongs to them.
    for each in sorted(found, key=lambda each: (each.kind != "capture", each.length)):
        if any(_holds(other, each) for other in kept):
            continue
        inner = [other for other in kept if _holds(each, other)]
        covered = sum(other.excess_ns for other in inner)
        is_told = covered >= replay.thresholds.told_share * each.excess_ns
        if each.kind in ("step", "start"):
            rest = each.excess_ns - covered
            if rest >= (slow - 1) / 2 * each.usual_ns and not (each.ops and is_told):
                kept.append(replace(each, excess_ns=rest))
        elif not is_told:
            kept = [other for other in kept if other not in inner] + [each]
    return sorted(
        kept, key=lambda each: (each.start_ns, each.event_id or 0, bool(each.ops), each.begin)
    )


def _holds(outer: OneOff, inner: OneOff) -> bool:
    if outer is inner or outer.on_host != inner.on_host:
        return False
    if inner.ops:
        return inner.ops <= outer.ops
    return outer.begin <= inner.begin and inner.end <= outer.end


def _priced(replay: Replay) -> list[OneOff]:
    """The candidates with the excess of their work; those without any are left out."""
    graph, worked = replay.graph, HostWork.of(replay.graph)
    rows = replay.database.ask("one_offs", trace=replay.trace_id)
    number = {each: i for i, each in enumerate(graph.host.threads)}
    index = {}
    if any(row["kind"] == "op" for row in rows):
        index = {op: i for i, op in enumerate(graph.device.op_id.tolist())}
    found = []
    for row in rows:
        if row["kind"] == "op":
            ops = [index[row["event_id"]]]
            found.append(one_off(row, row["usual_ns"], row["dur_ns"], ops=ops))
            continue
        thread = number[row["pid"], row["tid"]]
        begin, end, work = worked.lasting(thread, row["start_ns"], row["dur_ns"])
        usual = row["usual_ns"]
        if row["at_place"]:
            # The waits in what recurs are not its work.
            alike = (worked.lasting(thread, *each.values())[2] for each in row["at_place"])
            usual = median_low(alike)
        found.append(one_off(row, usual, work, begin, end))
        if row["kind"] == "copies":
            copies = _launched(graph, begin, end)
            ns = int(graph.device.ns[copies].sum())
            found.append(one_off(row, 0, ns, ops=copies.tolist()))
    found += slow_steps(replay, worked) + busy_steps(replay) + slow_start(replay, worked)
    return [each for each in found if each.excess_ns > 0]


def _launched(graph: Graph, begin: int, end: int) -> Ints:
    """The ops launched between two keys of a thread."""
    device = graph.device
    key = graph.host.key(device.thread, graph.host.origin_ns + device.call)
    return np.flatnonzero(device.linked & (key >= begin) & (key < end))


def without(found: list[OneOff], graph: Graph) -> Scale:
    """The scale of a replay in which one-offs have no excess."""
    scale, worked = Scale.of(graph), HostWork.of(graph)
    host, edges = graph.host, graph.edges
    work = host.worked(np.diff(host.borders), slice(None))
    left, ops_left = np.ones(len(host), np.bool_), np.ones(graph.ops, np.bool_)
    calls_left = np.ones(len(edges), np.bool_)
    # From the inside out: what a step holds has been scaled before the rest of the step.
    for each in sorted(found, key=lambda each: each.length):
        if each.on_host:
            where = left & host.within(np.array([each.begin]), np.array([each.end]))
            calls = _chosen(worked.calls(each.begin, each.end), len(edges)) & calls_left
            ns = int(work[where].sum()) + int(edges.fixed_ns[calls].sum())
            if ns:
                factor = max(0.0, 1 - each.excess_ns / ns)
                scale.host.scale(factor, where)
                scale.fixed.scale(factor, calls)
            left &= ~where
            calls_left &= ~calls
        else:
            ops = _chosen(np.array(sorted(each.ops)), graph.ops) & ops_left
            ns = int(graph.device.ns[ops].sum())
            if ns:
                scale.op.scale(max(0.0, 1 - each.excess_ns / ns), ops)
            ops_left &= ~ops
    return scale


def _chosen(which: Ints, count: int) -> Flags:
    chosen = np.zeros(count, np.bool_)
    chosen[which] = True
    return chosen
