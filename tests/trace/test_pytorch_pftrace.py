"""Perfetto traces by PyTorch's own writer: what a device runs are render stages, the ends of slices
stand in the order of their begins, and the file is compressed."""

import pytest

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit import traces
from tests.kit.perfetto_schema import SCHEMA
from tests.kit.protos import messages

NAME = "simulated-program-30"
SLICES = """
SELECT kind, split_part(s.name, ' ', 1), s.pid, s.tid, s.start_ns, s.dur_ns, op.args->>'Input Dims'
FROM slices AS s LEFT JOIN cpu_ops AS op USING (trace_id, event_id) ORDER BY ALL
"""
LINKS = """
SELECT name, start_ns, launch_name, launch_start_ns, is_graph
FROM gpu_ops WHERE kind = 'kernel' AND launch_id IS NOT NULL ORDER BY ALL
"""


@pytest.fixture(scope="module")
def both(shared_database):
    """The run as JSON, and as PyTorch writes the same for Perfetto."""
    with tracekit.load(OWN_TRACES / f"{NAME}.pftrace") as perfetto:
        yield shared_database(f"{NAME}.json.gz"), perfetto


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", [SLICES, LINKS])
def test_the_same_run_has_the_same_tables(query, both):
    json, perfetto = (run.fetch(query)[1] for run in both)
    assert len(json) > 60
    assert perfetto == json


@pytest.mark.thorough
def test_the_same_run_has_the_same_verdict(both):
    json, perfetto = (run.verdict() for run in both)
    assert perfetto.verdict.headline == json.verdict.headline
    assert (perfetto.gpu, perfetto.idle, perfetto.launch) == (json.gpu, json.idle, json.launch)
    assert perfetto.causal.gains == json.causal.gains


def test_counters_of_a_device_are_there(both):
    query = (
        "SELECT counter, value FROM counters WHERE counter[:6] <> 'Cycles' ORDER BY ts_ns, counter"
    )
    found = [row for row in both[1].fetch(query)[1] if row[0] != "Memory Clock (MHz)"]
    assert found == [("Power (W)", 250.5), ("SM Clock (MHz)", 1410.0),
                     ("Power (W)", 300.0), ("SM Clock (MHz)", 1380.0)]  # fmt: skip


def test_the_same_counters_in_json_belong_to_the_device_in_their_process_name(tmp_path):
    # _build_chrome_counters in torch/profiler/_cuspy/trace.py: series without a name.
    place = {"ph": "C", "pid": "GPU 1 Counters", "ts": 20.0}
    counters = [
        {"name": "SM Clock (MHz)", "args": {"": 1380.0}} | place,
        {"name": "HBM BW (%)", "args": {"": 61.0}} | place,
    ]
    ran = traces.gpu_op(10, 40, device=1)
    traces.write(tmp_path / "t.json", [ran, *counters])
    with tracekit.load(tmp_path / "t.json") as run:
        found = run.fetch("SELECT device_id, measure, value, is_busy FROM device_sample")[1]
        every = run.fetch("SELECT counter, value FROM counters")[1]
    assert found == [(1, "clock", 1380.0, True)]
    assert every == [("SM Clock (MHz)", 1380.0), ("HBM BW (%)", 61.0)]


@pytest.mark.parametrize(
    ("ends", "lengths"),
    [
        # Written in rows: a step begins in a Python frame, and ends behind it.
        ([("b", 0), ("b", 5), ("b", 9), ("e", 7), ("e", 30), ("e", 10)], [7, 25, 1]),
        # Written as time passes: an end is that of the slice that began last and is still open.
        ([("b", 0), ("b", 5), ("b", 6), ("e", 7), ("e", 8), ("e", 30)], [30, 3, 1]),
    ],
)
def test_ends_belong_to_the_begins_of_their_row_or_to_what_is_open(ends, lengths, tmp_path):
    packet = messages(SCHEMA)["TracePacket"]
    written = bytearray()
    for number, (letter, at) in enumerate(ends):
        event = {"type": 1 if letter == "b" else 2, "track_uuid": 1, "name": b"s%d" % number}
        text = packet(timestamp=1000 * at, track_event=event).SerializeToString()
        written += bytes([0x0A, len(text)]) + text
    (tmp_path / "t.pftrace").write_bytes(written)
    with tracekit.load(tmp_path / "t.pftrace") as run:
        found = run.fetch("SELECT dur_ns // 1000 FROM slices ORDER BY start_ns")[1]
    assert [length for (length,) in found] == lengths
