"""Traces with tracekit's findings drawn in, and opening them in Perfetto's page."""

import gzip
import http.client
import json
import math
import socket
import struct
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import SimpleNamespace

import pytest

import tracekit
from tests.conftest import trace_file, trace_names
from tests.kit import lakes, ranks_simulated
from tests.kit.atoms import MS
from tests.kit.ranks_simulated import Job
from tracekit.errors import TracekitError
from tracekit.perfetto import serving
from tracekit.perfetto.annotate import annotate
from tracekit.perfetto.serving import UI, TraceServer
from tracekit.perfetto.tracks import as_read
from tracekit.trace.unpacking import zstd

SMALL = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 0.5, "dur": 20,
         "args": {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 2,
         "dur": 4, "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9.125, "dur": 30,
         "args": {"correlation": 1, "device": 0, "stream": 7}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 60,
         "dur": 4, "args": {"correlation": 2}},
        {"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7, "ts": 70, "dur": 5.001,
         "args": {"correlation": 2, "device": 0, "stream": 7}},
    ],
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
}  # fmt: skip
EVENTS = "SELECT * FROM event ORDER BY event_id"


def content(path):
    with tracekit.load(path, verdicts=False) as run:
        return run.fetch(EVENTS), run.fetch("SELECT form, metadata, events FROM trace")


def added(path):
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    found = json.loads(text, parse_float=Decimal)
    events = found if isinstance(found, list) else found["traceEvents"]
    return [each for each in events if each.get("cat") == "tracekit"]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", json.dumps(SMALL)),
        ("t.json", json.dumps(SMALL, indent=2)),
        ("t.json", json.dumps(SMALL["traceEvents"])),
        ("t.json", json.dumps(SMALL)[:-80]),
        ("t.json", "\ufeff" + json.dumps(dict(reversed(SMALL.items())))),
        ("t.json.gz", json.dumps(SMALL)),
        ("t.json.zst", json.dumps(SMALL)),
    ],
    ids=["plain", "indented", "array", "truncated", "byte order mark", "gzip", "zstd"],
)
def test_the_original_text_is_untouched_and_loads_as_before(tmp_path, name, text):
    path, output = tmp_path / name, tmp_path / f"out-{name}"
    data = text.encode()
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(data))
    else:
        path.write_bytes(zstd.compress(data) if name.endswith(".zst") else data)
    events, traces = annotate(path, output)
    assert (events > 10, traces) == (True, 1)
    assert content(output) == content(path)
    if name == "t.json":
        written = output.read_bytes()
        begin = data.index(b"[", max(0, data.find(b'"traceEvents"'))) + 1
        assert written.startswith(data[:begin])
        assert written.endswith(data[begin:])
        again = tmp_path / "again.json"
        annotate(output, again)
        assert again.read_bytes() == written


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The trace SMALL, and the same annotated."""
    folder = tmp_path_factory.mktemp("small")
    path, output = folder / "t.json", folder / "out.json"
    path.write_text(json.dumps(SMALL))
    annotate(path, output)
    return path, output


@pytest.fixture(scope="module")
def loaded(small):
    with tracekit.load(small[0], verdicts=False) as run:
        yield run


@pytest.mark.thorough
@pytest.mark.parametrize("name", trace_names())
def test_annotated_real_traces_load_as_before_and_keep_to_the_format(tmp_path, name):
    output = tmp_path / "out.json.gz"
    annotate(trace_file(name), output)
    assert content(output) == content(trace_file(name))
    holds_the_format(added(output))


def holds_the_format(events):
    """The rules of the Trace Event Format for the phases that are used."""
    ends: dict[tuple[int, int], int] = defaultdict(int)
    arrows = defaultdict(list)
    for each in sorted(events, key=lambda each: each.get("ts", 0)):
        assert {"ph", "cat", "name", "pid"} <= each.keys()
        assert each["ph"] in "MXCsf"
        if each["ph"] == "M":
            continue
        assert isinstance(each["ts"], Decimal)
        if each["ph"] == "X":
            # Slices of a track lie one after the other.
            begin_ns = as_read(int(each["ts"] * 1000))
            assert begin_ns >= ends[each["pid"], each["tid"]]
            assert each["dur"] >= 0
            ends[each["pid"], each["tid"]] = begin_ns + int(each["dur"] * 1000)
        elif each["ph"] == "C":
            assert each["args"]
            assert all(isinstance(value, int | Decimal) for value in each["args"].values())
        else:
            arrows[each["id"]].append(each)
    for begin, end in arrows.values():
        assert (begin["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
        assert begin["ts"] <= end["ts"]


def test_the_tracks_say_what_the_questions_say(small, loaded):
    events = added(small[1])
    named = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    slices = [each for each in events if each["ph"] == "X"]
    (gap,) = [each for each in slices if named[each["tid"]].startswith("idle gaps")]
    (row,) = loaded.ask("idle_gaps")
    assert (gap["ts"], gap["dur"]) == (Decimal("39.125"), Decimal("30.875"))
    assert (row["start_ns"], row["gap_ns"]) == (39125, 30875)
    assert gap["args"]["ended_by"] == "relu"
    path_ns = sum(each["dur"] for each in slices if named[each["tid"]].startswith("critical path"))
    assert path_ns == Decimal("74.501")
    shares = [each["args"]["share"] for each in events if each["name"].startswith("busy share")]
    assert (len(shares), shares[-1]) == (len(loaded.ask("busy_over_time")) + 1, 0)
    depth = [each["args"]["launches"] for each in events if each["name"].startswith("queue")]
    assert (max(depth), depth[-1]) == (1, 0)
    # The path goes from a launch to its kernel.
    begins = [each for each in events if each["ph"] == "s"]
    assert {(each["pid"], each["tid"]) for each in begins} >= {(5, 5)}
    # An arrow begins and ends inside a slice of the trace.
    for each in (each for each in events if each["ph"] in "sf"):
        assert any(
            (own["pid"], own["tid"]) == (each["pid"], each["tid"])
            and own["ts"] <= each["ts"] <= own["ts"] + own["dur"]
            for own in SMALL["traceEvents"]
        )


def test_busy_time_and_bytes_over_time_add_up(loaded):
    for bins in (1, 3, 7, 400):
        rows = loaded.ask("busy_over_time", bins=bins)
        assert sum(row["busy_ns"] for row in rows) == 30000 + 5001
        assert (rows[0]["start_ns"], rows[-1]["end_ns"]) == (9125, 75001)
        assert all(0 <= row["busy_share"] <= 1 for row in rows)
    (row,) = loaded.ask("bandwidth_over_time", bins=1)
    assert (row["bytes"], row["known_ns"]) == (4 * (64 * 32 + 32 * 16 + 64 * 16), 30_000)
    rows = loaded.ask("bandwidth_over_time", bins=50)
    assert abs(sum(each["bytes"] for each in rows) - row["bytes"]) <= len(rows)


@pytest.mark.thorough
def test_ranks_become_one_file_on_one_clock(tmp_path):
    (tmp_path / "run").mkdir()
    ranks_simulated.write(tmp_path / "run", Job(data=2, steps=2, clocks={1: 7 * MS}))
    output = tmp_path / "out.json"
    assert annotate(tmp_path / "run", output)[1] == 2
    events = json.loads(output.read_text(), parse_float=Decimal)["traceEvents"]
    holds_the_format([each for each in events if each.get("cat") == "tracekit"])
    labels = {
        each["args"]["name"].partition(":")[0] for each in events if each["name"] == "process_name"
    }
    assert {"tracekit"} <= labels
    ends = defaultdict(set)
    for each in events:
        if each.get("cat") == "kernel" and each["name"].startswith("nccl"):
            ends[each["pid"] % 2].add(each["ts"] + each["dur"])
    # A collective ends on all ranks at once, so the clocks agree.
    assert len(ends) == 2
    assert len({tuple(sorted(each)) for each in ends.values()}) == 1
    given = [json.loads(path.read_text())["traceEvents"] for path in (tmp_path / "run").iterdir()]
    own = sum(each.get("cat") == "tracekit" for each in events)
    assert len(events) - own == sum(map(len, given))


@pytest.mark.thorough
def test_a_rank_of_a_lake_is_annotated_as_its_file_is(tmp_path):
    path = lakes.write_rank(tmp_path / "run", 1)
    lakes.add(tmp_path / "lake", path)
    in_lake, of_file = tmp_path / "lake.json", tmp_path / "file.json"
    found = annotate(tmp_path / "lake" / "run=run" / "rank=1", in_lake)
    assert found == annotate(path, of_file) and found[1] == 1
    one, other = (
        [(each["name"], each["dur"]) for each in json.loads(file.read_text())["traceEvents"]
         if each.get("cat") == "kernel"]
        for file in (in_lake, of_file)
    )  # fmt: skip
    assert one == other and one


def test_names_from_the_trace_stay_text(tmp_path):
    trace = json.loads(json.dumps(SMALL))
    for each in trace["traceEvents"]:
        if each["cat"] != "cuda_runtime":
            each["name"] = '"},{"ph":"X" </script>\u202e\n\x07 \\ 🔥 ' + "x" * 10_000
    path, output = tmp_path / "t.json", tmp_path / "out.json"
    path.write_text(json.dumps(trace))
    annotate(path, output)
    holds_the_format(added(output))
    assert content(output) == content(path)
    # Perfetto refuses a character in two escapes.
    assert "🔥" in output.read_text()
    tracks = [each["tid"] for each in added(output) if each["name"] == "thread_name"]
    assert len(set(tracks)) == len(tracks)
    assert all(each < 2**32 for each in tracks)


def test_a_false_block_of_annotations_loses_nothing_silently(small, tmp_path):
    head, _, rest = small[1].read_text().partition('"bytes":"')
    output = tmp_path / "out.json"
    output.write_text(head + '"bytes":"999999999999' + rest[12:])
    with pytest.raises(TracekitError, match="contains no trace events"):
        tracekit.load(output)


@pytest.fixture
def server(tmp_path):
    file = tmp_path / "a b.json.gz"
    file.write_bytes(b"trace" * 100_000)
    with TraceServer(file, port=0) as server:
        thread = threading.Thread(target=server.serve_once)
        thread.start()
        yield server
        thread.join(0.1)
        if thread.is_alive():
            asked(server, "GET", server.path, Origin=UI)
        thread.join()


def test_silent_or_broken_connections_do_not_delay_others(server, capfd):
    with socket.create_connection(("127.0.0.1", server.server_port)):
        with socket.create_connection(("127.0.0.1", server.server_port)) as leaving:
            leaving.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert asked(server, "GET", server.path, Origin=UI)[0] == 200
    assert capfd.readouterr().err == ""


def asked(server, method, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def test_perfettos_page_gets_the_file_once_and_nobody_else_anything(server):
    assert server.url == f"{UI}/#!/?url=http://127.0.0.1:{server.server_port}{server.path}"
    for method, path, headers in (
        ("GET", "/", {"Origin": UI}),
        ("GET", "/a%20b.json.gz", {"Origin": UI}),
        ("GET", server.path + "/..", {"Origin": UI}),
        ("GET", server.path, {}),
        ("HEAD", server.path, {}),
        ("GET", server.path, {"Origin": "https://example.org"}),
        ("GET", server.path, {"Origin": UI, "Host": "example.org:9001"}),
        ("OPTIONS", server.path, {"Origin": "null"}),
    ):
        assert asked(server, method, path, **headers)[0] == 404
    assert asked(server, "POST", server.path)[0] == 501
    for method, status in (("OPTIONS", 204), ("HEAD", 200), ("GET", 200)):
        found, headers, body = asked(server, method, server.path, Origin=UI)
        assert found == status
        assert headers["Access-Control-Allow-Origin"] == UI
        assert len(body) == (500_000 if method == "GET" else 0)


def test_a_server_that_nobody_asks_ends_and_says_so(tmp_path):
    file = tmp_path / "t.json.gz"
    file.write_bytes(b"trace")
    said = r"not asked for the trace in 0\.1 s: .*annotate"
    with TraceServer(file, port=0) as server, pytest.raises(TracekitError, match=said):
        server.serve_once(0.1)


def test_a_page_that_reads_slowly_or_comes_again_is_waited_for(tmp_path, monkeypatch):
    file = tmp_path / "t.json.gz"
    file.write_bytes(bytes(20_000_000))
    with TraceServer(file, port=0) as server, ThreadPoolExecutor(1) as thread:
        with socket.create_connection(("127.0.0.1", server.server_port)) as slow:
            head = f"GET {server.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {UI}\r\n\r\n"
            slow.sendall(head.encode())
            served = thread.submit(server.serve_once, 60)
            while server.asked_s != math.inf:
                time.sleep(0.01)
            later_s = time.monotonic() + 3600
            monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: later_s))
            time.sleep(0.2)
            assert not served.done()
        assert len(asked(server, "GET", server.path, Origin=UI)[2]) == 20_000_000
        served.result(60)


def test_a_taken_port_is_named_with_another_way_to_open_the_trace(server, tmp_path):
    with pytest.raises(TracekitError, match=r"is in use.*drag the file that `tracekit annotate "):
        TraceServer(server.file, server.server_port)
