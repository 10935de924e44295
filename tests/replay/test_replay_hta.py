"""Compares our critical path with HolisticTraceAnalysis's, on the trace that its tests use."""

import logging
import warnings

import numpy as np
import pytest

from tests.conftest import SHARED_TRACES
from tracekit.replay.critical_path import last_of, pieces
from tracekit.replay.replay import Replay

ANNOTATION = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
INSTANCE = 1


@pytest.fixture(scope="module")
def theirs():
    """HTA's path: GPU ops as (name, start in us, length in us), and the host's time in us."""
    path = SHARED_TRACES / "a100-alexnet.json.gz"
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from hta.trace_analysis import TraceAnalysis

        logging.disable(logging.CRITICAL)
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
        graph, found = analysis.critical_path_analysis(0, ANNOTATION, INSTANCE)
        logging.disable(logging.NOTSET)
    assert found
    events = analysis.t.get_trace(0).loc[sorted(graph.critical_path_events_set)]
    names = analysis.t.symbol_table.get_sym_table()
    ops = [
        (names[int(row["name"])], int(row["ts"]), int(row["dur"]))
        for _, row in events.iterrows()
        if row["stream"] >= 0
    ]
    parts = graph.get_critical_path_breakdown().groupby("bound_by").duration.sum()
    return ops, int(parts["cpu_bound"])


@pytest.fixture(scope="module")
def ours(shared_database):
    """The replay's path: GPU ops as (name, length in us), and the host's time in us."""
    run = shared_database("a100-alexnet.json.gz")
    replay = Replay(run, 1)
    _, rows = run.fetch(
        "SELECT start_ns - (SELECT start_ns FROM trace_span), end_ns - (SELECT start_ns FROM "
        f"trace_span) FROM annotations WHERE side = 'host' AND name = '{ANNOTATION}' "
        f"ORDER BY start_ns LIMIT 1 OFFSET {INSTANCE}"
    )
    begin, end = rows[0]
    device = replay.graph.device
    launched = np.flatnonzero((device.call >= begin) & (device.call < end))
    measured = replay.measured()
    parts = list(pieces(measured, begin, last_of(measured, launched, np.zeros(0, np.int64))))
    ns, event, on_device = (
        np.concatenate([getattr(each, name) for each in parts])
        for name in ("ns", "event", "on_device")
    )
    assert ns.sum() == device.end[launched].max() - begin
    ids = event[on_device & (event >= 0)]
    _, names = run.fetch("SELECT event_id, name FROM gpu_ops")
    by_id = dict(names)
    ops = {(by_id[int(each)], int(ns[event == each].sum()) // 1000) for each in ids}
    return ops, int(ns[~on_device].sum()) // 1000


def test_the_gpu_ops_on_the_path_are_the_same(theirs, ours):
    expected = {(name, dur) for name, _, dur in theirs[0]}
    # Only long ops: the first op's start depends on where a launch is taken to end.
    long = {(name, dur) for name, dur in expected if dur >= 20}
    assert len(long) >= 10
    assert long <= ours[0]
    total = sum(dur for _, dur in ours[0])
    assert total == pytest.approx(sum(dur for _, _, dur in theirs[0]), rel=0.02)


def test_the_hosts_part_of_the_path_is_as_long(theirs, ours):
    # HTA leaves out the time between operators, and begins with the first operator.
    assert ours[1] == pytest.approx(theirs[1], rel=0.03)
