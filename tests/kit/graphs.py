"""Builds the graph of a run from a few stretches of host time and launches, without a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.causes import CAUSES
from tracekit.replay.graph import Edges, Graph
from tracekit.replay.graph.device import Device
from tracekit.replay.graph.host import Host


def graph(threads: Sequence[Sequence[tuple[str, int]]], calls: Sequence[tuple[int, int]]) -> Graph:
    """Threads that start together and end together, each as stretches (cause, ns); ops without
    length and without dependencies, each by its launch call (thread, start)."""
    stretches = [stretch for thread in threads for stretch in thread]
    lengths = [ns for _, ns in stretches]
    span_ns = sum(ns for _, ns in threads[0])
    assert all(sum(ns for _, ns in thread) == span_ns for thread in threads)
    host = Host(
        origin_ns=0, span_ns=span_ns, threads=[(1, tid) for tid in range(len(threads))],
        borders=np.cumsum([0, *lengths]),
        cause=np.array([CAUSES.index(cause) for cause, _ in stretches], np.int8),
        event=np.arange(len(stretches)), blocked=np.zeros(len(stretches), np.bool_),
    )  # fmt: skip
    call = np.array([start_ns for _, start_ns in calls], np.int64)
    thread = np.array([number for number, _ in calls], np.int32)
    number, zero, no = np.arange(len(calls)), np.zeros_like(call), np.zeros(len(calls), np.bool_)
    device = Device(
        op_id=number, device_id=zero, stream=zero, queue=zero.astype(np.int32), start=call, ns=zero,
        cause=zero.astype(np.int8), launch_id=number, thread=thread, call=call, call_end=call,
        captured_by=np.full(len(calls), -1, np.int32), captured=zero, is_graph=no, is_blocking=no,
        shift_ns={}, wrong_links=0,
    )  # fmt: skip
    none = np.zeros(0, np.int64)
    nodes = np.concatenate([[0], call])
    return Graph(
        host=host, device=device, edges=Edges.make(0, none, none), time=nodes,
        unknown=np.zeros_like(nodes), joins=none, first_keys=none, last_keys=none, rejected=0,
    )  # fmt: skip
