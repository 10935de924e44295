"""Memory snapshots: read without running anything, as tables, a page and a comparison."""

import gzip
import io
import pickle
import random
import tracemalloc

import pytest

import tracekit
from tests.kit import snapshots
from tests.kit.snapshots import Allocator, trained, write
from tracekit.errors import TracekitError
from tracekit.trace.other import snapshot
from tracekit.trace.other.converted import OneProcess
from tracekit.trace.source import ByteStream


def held(run, question, **parameters):
    return {row["place"]: row["live_bytes"] for row in run.ask(question, **parameters)}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_gives_the_same_tables(protocol, tmp_path):
    with tracekit.load(write(tmp_path / "s.pickle", trained(), protocol=protocol)) as run:
        assert held(run, "memory_sites", moment="end") == {"/app/model.py(10): __init__": 12 << 20}
        assert held(run, "memory_sites")["/app/model.py(22): forward"] == (3 << 20) + 100
        assert run.ask("overview")[0]["events"] == 57


@pytest.mark.parametrize("seed", range(5))
def test_the_peak_is_the_allocators_whatever_was_recorded(seed, tmp_path):
    """Also where the recording kept only the last actions."""
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
    with tracekit.load(write(tmp_path / "s.pickle", allocator)) as run:
        peaks = run.ask("memory_peak", top=1000)
        flame = run.ask("memory_flame")
        sites = run.ask("memory_sites", top=1000)
        end = run.ask("memory_sites", moment="end", top=1000)
        (pool, *_) = run.ask("fragmentation")
        last = run.ask("memory_timeline")[-1]["allocated_bytes"]
    if allocator.actions.maxlen > 1000:
        assert peaks[0]["peak_bytes"] == max(levels)
    assert sum(row["live_bytes"] for row in peaks) == peaks[0]["peak_bytes"]
    assert sum(row["live_bytes"] for row in sites) == peaks[0]["peak_bytes"]
    assert flame[0]["live_bytes"] == peaks[0]["peak_bytes"]
    assert sum(row["live_bytes"] for row in end) == last == allocator.allocated
    assert pool["used_bytes"] + pool["free_bytes"] == pool["segment_bytes"]


def test_segments_are_filled_as_pytorch_says(tmp_path):
    viz = pytest.importorskip("torch.cuda._memory_viz")
    allocator = trained(4, leak=5 << 20)
    told = viz.segsum(snapshots.snapshot(allocator))
    with tracekit.load(write(tmp_path / "s.pickle", allocator)) as run:
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


@pytest.mark.parametrize("found", [{"weights": [1, 2]}, [1, 2], "text", {"segments": [3]}])
def test_another_pickle_is_refused_in_one_line(found, tmp_path, run):
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(found))
    done = run("analyze", "s.pickle")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "snapshot" in done.stderr


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize("tenths", range(4, 10))
def test_what_is_left_of_a_cut_file_is_loaded(tenths, tmp_path):
    whole = write(tmp_path / "w.pickle", trained(60)).read_bytes()
    (tmp_path / "s.pickle").write_bytes(whole[: len(whole) * tenths // 10])
    with tracekit.load(tmp_path / "s.pickle") as run:
        assert any("ends early" in row["message"] for row in run.ask("health"))
        assert len(run.ask("memory_timeline")) > 100


def test_compressed_snapshots_in_a_folder_are_found(tmp_path):
    write(tmp_path / "a.pickle", trained())
    (tmp_path / "b.pickle.gz").write_bytes(gzip.compress((tmp_path / "a.pickle").read_bytes()))
    with tracekit.load(tmp_path) as run:
        assert len(run.trace_ids()) == 2
        assert run.ask("memory_sites", trace=1)[0]["live_bytes"] == 12 << 20


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
            for _ in snapshot.texts_of(stream, OneProcess(None, {}, lambda: iter(()))):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        sizes.append(len(text))
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2


def test_a_failed_allocation_says_where_and_what_was_in_use(tmp_path):
    allocator = trained()
    allocator.out_of_memory(80 << 30, allocator.stack(("/app/train.py", 40, "evaluate")))
    with tracekit.load(write(tmp_path / "s.pickle", allocator)) as run:
        (row,) = run.ask("out_of_memory")
    assert (row["requested_bytes"], row["place"]) == (80 << 30, "/app/train.py(40): evaluate")
    assert (row["allocated_bytes"], row["device_free_bytes"]) == (allocator.allocated, 1 << 20)


def test_a_snapshot_without_history_tells_what_was_in_use(tmp_path):
    with tracekit.load(write(tmp_path / "s.pickle", trained(entries=0))) as run:
        assert held(run, "memory_sites") == {"/app/model.py(10): __init__": 12 << 20}


def test_commands_take_a_snapshot(tmp_path, run):
    write(tmp_path / "a.pickle", trained())
    write(tmp_path / "b.pickle", trained(leak=7 << 20))
    assert "this is a memory snapshot" in run("analyze", "a.pickle").stdout
    for command in (("advise",), ("whatif", "cuda-graph")):
        refused = run(command[0], "a.pickle", *command[1:])
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert "a.pickle: is a memory snapshot" in refused.stderr
        assert "memory_sites" in refused.stderr
    compared = run("diff", "a.pickle", "b.pickle").stdout
    assert "Memory at the peak: 18.9 MB in a, 40.9 MB in b" in compared
    assert "+22 MB" in compared and "/app/train.py(33): log" in compared


def test_the_page_shows_who_holds_the_memory(tmp_path):
    pytest.importorskip("altair")
    from tracekit.reporters.html import reports

    write(tmp_path / "a.pickle", trained())
    write(tmp_path / "b.pickle", trained(leak=7 << 20))
    with tracekit.load([tmp_path / "a.pickle", tmp_path / "b.pickle"]) as run:
        reports.write_any(run.session, tmp_path / "one.html", 2)
        reports.write_diff(run.session, 1, 2, tmp_path / "both.html")
    page = (tmp_path / "one.html").read_text()
    for figure in ("memory_flame", "memory_sites", "largest_allocations", "memory_segments"):
        assert f'id="trace2-{figure}"' in page
    assert 'id="diff-memory_changes"' in (tmp_path / "both.html").read_text()
