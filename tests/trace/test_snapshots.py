"""Memory snapshots: read without running anything, as tables, a page and a comparison."""

import gzip
import io
import pickle
import random
import tracemalloc
from contextlib import ExitStack
from functools import partial

import pytest

import tracekit
from tests.kit import snapshots
from tests.kit.processes import invoke
from tests.kit.snapshots import Allocator, trained, write
from tracekit.errors import TracekitError
from tracekit.trace.other.converted import OpenedFile
from tracekit.trace.readers import snapshot
from tracekit.trace.source import ByteStream


def held(run, **parameters):
    return {row["place"]: row["live_bytes"] for row in run.ask("memory_sites", **parameters)}


def test_every_protocol_gives_the_same_tables(tmp_path):
    """Compressed and in a folder, too."""
    for protocol in (2, 3, 4, 5):
        write(tmp_path / f"{protocol}.pickle", trained(), protocol=protocol)
    packed = gzip.compress((tmp_path / "5.pickle").read_bytes())
    (tmp_path / "6.pickle.gz").write_bytes(packed)
    with tracekit.load(tmp_path, verdicts=False) as run:
        assert [row["events"] for row in run.traces()] == [57] * 5
        for trace in run.trace_ids():
            end = held(run, moment="end", trace=trace)
            assert end == {"/app/model.py(10): __init__": 12 << 20}
            peak = held(run, trace=trace)
            assert peak["/app/model.py(22): forward"] == (3 << 20) + 100


def test_compiled_code_is_shown_by_the_user_s_line(tmp_path):
    """As with _dump_snapshot(augment_with_fx_traces=True); records of pinned memory are counted."""
    allocator = Allocator()
    stack = allocator.stack(("/tmp/torchinductor/cfx.py", 9, "forward"), ("/app/run.py", 3, "main"))
    behind = (
        'File "/app/net.py", line 20, in forward\n    return self.layer(x)\n'
        '  File "/app/net.py", line 31, in layer\n    return x @ self.weight'
    )
    stack[0]["fx_original_trace"] = behind
    allocator.alloc(1 << 20, stack)
    found = snapshots.snapshot(allocator) | {"host_traces": [[{"action": "alloc"}]]}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(found))
    with tracekit.load(tmp_path / "s.pickle", verdicts=False) as run:
        assert held(run) == {"/app/net.py(31): layer": 1 << 20}
        said = {row["code"]: row["message"] for row in run.ask("health")}
    assert "(records of the host's pinned memory are not used: 1)" in said["memory_snapshot"]


def random_allocator(seed):
    """An allocator after random actions, and how much was allocated after each."""
    choose = random.Random(seed)
    allocator = Allocator(entries=choose.choice([25, 10**9]))
    live, levels = [], []
    for n in range(120):
        if live and choose.random() < 0.45:
            allocator.free(live.pop(choose.randrange(len(live))))
        else:
            stack = allocator.stack((f"/app/m{n % 3}.py", n, "f"), ("/app/main.py", 1, "main"))
            live.append(allocator.alloc(choose.randrange(1, 5 << 20), stack))
        levels += [allocator.allocated]
    return allocator, levels


def test_the_peak_is_the_allocators_even_if_the_recording_began_late(tmp_path):
    """Also where the recording kept only the last actions."""
    made = [random_allocator(seed) for seed in range(5)]
    paths = [write(tmp_path / f"{n}.pickle", each) for n, (each, _) in enumerate(made)]
    with tracekit.load(paths, verdicts=False) as run:
        for trace, (allocator, levels) in enumerate(made, 1):
            ask = partial(run.ask, trace=trace)
            peaks = ask("memory_peak", top=1000)
            sites = ask("memory_sites", top=1000)
            end = ask("memory_sites", moment="end", top=1000)
            (pool, *_) = ask("fragmentation")
            if allocator.actions.maxlen > 1000:
                assert peaks[0]["peak_bytes"] == max(levels)
            assert sum(row["live_bytes"] for row in peaks) == peaks[0]["peak_bytes"]
            assert sum(row["live_bytes"] for row in sites) == peaks[0]["peak_bytes"]
            assert ask("memory_flame")[0]["live_bytes"] == peaks[0]["peak_bytes"]
            last = ask("memory_timeline")[-1]["allocated_bytes"]
            assert sum(row["live_bytes"] for row in end) == last == allocator.allocated
            assert pool["used_bytes"] + pool["free_bytes"] == pool["segment_bytes"]


def test_segments_are_filled_as_pytorch_says(tmp_path):
    viz = pytest.importorskip("torch.cuda._memory_viz")
    allocator = trained(4, leak=5 << 20)
    told = viz.segsum(snapshots.snapshot(allocator))
    with tracekit.load(write(tmp_path / "s.pickle", allocator), verdicts=False) as run:
        (row,) = run.ask("fragmentation")
    assert f"total_reserved: {viz.Bytes(row['segment_bytes'])}" in told
    asked = row["used_bytes"] - row["rounding_bytes"]
    assert f"total_allocated: {viz.Bytes(asked)}" in told
    assert f"total_free: {viz.Bytes(row['free_bytes'] + row['rounding_bytes'])}" in told


class Evil:
    def __reduce__(self):
        return (print, ("this ran",))


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_nothing_that_a_pickle_names_is_run(protocol, tmp_path, capsys):
    file = tmp_path / "s.pickle"
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [[Evil()]]}, protocol))
    with pytest.raises(TracekitError, match="runs nothing that a pickle names"):
        tracekit.load(file)
    assert "this ran" not in capsys.readouterr().out


def test_another_pickle_is_refused_in_one_line(tmp_path):
    for found in ({"weights": [1, 2]}, [1, 2], "text", {"segments": [3]}):
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(found))
        with pytest.raises(TracekitError, match=r"^[^\n]*snapshot[^\n]*$"):
            tracekit.load(tmp_path / "s.pickle")


@pytest.mark.thorough
def test_the_intact_part_of_a_cut_file_is_loaded(tmp_path):
    whole = write(tmp_path / "w.pickle", trained(60)).read_bytes()
    half = len(whole) // 2
    # Some of the cuts are between an opcode and its argument.
    paths = [tmp_path / f"{end}.pickle" for end in (*range(half, half + 30), len(whole) - 9)]
    for path in paths:
        path.write_bytes(whole[: int(path.stem)])
    with tracekit.load(paths, verdicts=False) as run:
        health = [row["trace_id"] for row in run.ask("health") if "ends early" in row["message"]]
        assert health == run.trace_ids()
        found = run.ask("memory_timeline", trace=1)
        assert len(found) > 100


@pytest.mark.thorough
def test_memory_grows_far_less_than_the_file():
    found = snapshots.snapshot(trained(100))
    actions = found["device_traces"][0]
    sizes, peaks = [], []
    for times in (30, 90):
        found["device_traces"] = [[dict(each) for _ in range(times) for each in actions]]
        text = pickle.dumps(found, 4)
        stream = ByteStream("s", io.BytesIO(text))
        tracemalloc.start()
        try:
            for _ in snapshot.read(OpenedFile(stream, "", ExitStack())):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        sizes.append(len(text))
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2


def test_a_failed_allocation_says_where_and_what_was_in_use(tmp_path):
    allocator = trained()
    allocator.out_of_memory(80 << 30, allocator.stack(("/app/train.py", 40, "evaluate")))
    paths = [write(tmp_path / "s.pickle", allocator),
             write(tmp_path / "without_history.pickle", trained(entries=0))]  # fmt: skip
    with tracekit.load(paths, verdicts=False) as run:
        (row,) = run.ask("out_of_memory")
        assert held(run, trace=2) == {"/app/model.py(10): __init__": 12 << 20}
    assert (row["requested_bytes"], row["place"]) == (80 << 30, "/app/train.py(40): evaluate")
    assert (row["allocated_bytes"], row["device_free_bytes"]) == (allocator.allocated, 1 << 20)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A database of two snapshots, one with a leak."""
    folder = tmp_path_factory.mktemp("two")
    paths = [
        write(folder / "a.pickle", trained()),
        write(folder / "b.pickle", trained(leak=7 << 20)),
    ]
    with tracekit.load(paths, folder / "two.duckdb", verdicts=False) as run:
        yield run


@pytest.mark.thorough
def test_commands_take_a_snapshot(two, tmp_path):
    path = write(tmp_path / "a.pickle", trained())
    assert "18.9 MB at the peak, in forward" in invoke("analyze", path).stdout
    for command in (("advise",), ("whatif", "cuda-graph")):
        with pytest.raises(TracekitError, match=r"a\.pickle: is a memory snapshot.*memory_sites"):
            invoke(command[0], path, *command[1:])
    compared = invoke("diff", two.name).stdout
    assert "Memory at the peak: 18.9 MB in a, 40.9 MB in b" in compared
    assert "+22 MB" in compared and "/app/train.py(33): log" in compared


def test_the_page_shows_who_holds_the_memory(two, tmp_path):
    pytest.importorskip("altair")
    from tracekit.reporters.html import reports

    reports.write_diff(two.session, 1, 2, tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    for figure in (
        "memory_roles",
        "memory_flame",
        "memory_sites",
        "largest_allocations",
        "memory_segments",
    ):
        assert f'id="trace2-{figure}"' in page
    assert 'id="diff-memory_changes"' in page
