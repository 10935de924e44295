"""Parts of tracekit that use the same concept agree on it, in traces made to separate them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from msgspec.structs import asdict

import tracekit
from tests.kit import simulated, traces
from tests.kit.atoms import Launch
from tests.kit.simulator import Machine, Simulation
from tests.kit.traces import gpu_op, launch, step
from tracekit.causes import OF_HOST, cause_of
from tracekit.compare.diff import fails
from tracekit.errors import TracekitError
from tracekit.replay.graph.calls import waits_in_calls
from tracekit.replay.graph.recording import recording_of
from tracekit.replay.replay import Replay
from tracekit.replay.whatif import what_if
from tracekit.reporters import console
from tracekit.thresholds import TABLE, Thresholds
from tracekit.verdict.regime import REGIMES

# -- the main device -------------------------------------------------------------------------------

# GPU ops by device: start and length in microseconds, stream, kind.
BY_KERNELS = [(10, 300, 7, "kernel")]
BY_SUM = [(20, 100, 7, "kernel"), *((120, 400, stream, "gpu_memcpy") for stream in (8, 9, 10))]
BY_BUSY = [(30, 200, 7, "kernel"), (230, 500, 7, "gpu_memset")]
SPANS_NS = {"kernels": 300_000, "sum": 500_000, "busy": 700_000}


def several_devices(*devices: list[tuple[int, int, int, str]]) -> list[dict]:
    events = [step(1, 0, 1000)]
    for number, ops in enumerate(devices):
        for place, (start, length, stream, kind) in enumerate(ops):
            linked = 100 * number + place + 1
            events.append(launch(linked / 100, 0.005, linked))
            events.append(
                gpu_op(start, length, linked, category=kind, stream=stream, device=number)
            )
    return events


# By name, the events of a trace.
MADE = {
    "three devices": several_devices(BY_BUSY, BY_SUM, BY_KERNELS),
    "two devices": several_devices(BY_SUM, BY_KERNELS),
    "copies": several_devices([(10, 50, 7, "gpu_memcpy")], [(10, 90, 7, "gpu_memcpy")]),
    "one device": several_devices(BY_KERNELS)[1:],
    "all devices": several_devices(BY_SUM, BY_BUSY, BY_KERNELS)[1:],
    "before its clock": [launch(10, 2, 1), gpu_op(5, 3, 1), launch(20, 2, 2), gpu_op(40, 3, 2)],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One database of the traces of `MADE` and of steps that are marked twice; the trace_id of
    each by its name."""
    together = traces.Together()
    numbers = {name: together.events(events) for name, events in MADE.items()}
    for name, marks in MARKS.items():
        numbers[name] = together.events([*marks, *LATER_STEPS])
        numbers[f"{name}, no GPU"] = together.events([*marks, traces.operator("aten::mm", 20, 50)])
    folder = tmp_path_factory.mktemp("made")
    with together.load(folder) as run, run.session.sharing():
        yield run, numbers


@pytest.mark.parametrize(("name", "main"), [("three devices", 2), ("two devices", 1)])
def test_all_that_speak_of_one_device_speak_of_the_one_with_most_kernel_time(name, main, made):
    run, numbers = made
    trace = numbers[name]
    analysis = run.verdict(trace)
    (metrics,) = run.ask("run_metrics", trace=trace)
    spans = {
        "verdict": analysis.window.span_ns,
        "gains": analysis.windows[0].gains.window_ns,
        "whatif": what_if(run, [], trace, "gpu_active").window_ns,
        "run_metrics": metrics["active_ns"],
    }
    busy = {"verdict": analysis.steps[0].gpu.busy_ns, "run_metrics": metrics["busy_ns"]}
    assert (analysis.gpu.device_id, analysis.devices[0].device_id) == (main, main)
    assert spans == dict.fromkeys(spans, SPANS_NS["kernels"])
    assert busy == {"verdict": 300_000, "run_metrics": 300_000}


def test_a_gate_and_a_waterfall_hold_the_main_devices_against_each_other(made):
    run, numbers = made
    a, b = numbers["one device"], numbers["all devices"]
    assert fails(run, "a.active_ns = b.active_ns AND a.span_ns = b.span_ns", a, b)
    assert fails(run, "a.busy_ns = b.busy_ns AND a.busy_ns = 300000", a, b)
    bars = run.ask("diff_waterfall", a=a, b=b)
    assert (bars[0]["until_ns"], bars[-1]["until_ns"]) == (300_000, 300_000)


def test_of_devices_without_kernels_the_main_one_has_most_to_do(made):
    run, numbers = made
    trace = numbers["copies"]
    assert run.verdict(trace).gpu.device_id == 1
    assert what_if(run, [], trace, "gpu_active").window_ns == 90_000
    assert run.ask("run_metrics", trace=trace)[0]["active_ns"] == 90_000


# -- a window's length -----------------------------------------------------------------------------


def steps_that_run_ahead() -> list[dict]:
    """Two steps; the host spends 10 us in each, and the kernel launched there takes 100 us."""
    events = []
    for number in (1, 2):
        at = 10 * (number - 1)
        events += [step(number, at, 10), launch(at + 1, 2, number)]
        events.append(gpu_op(5 + 100 * (number - 1), 100, number))
    return events


def test_a_step_has_one_length_whoever_tells_it(capsys, tmp_path):
    with traces.load(tmp_path, steps_that_run_ahead()) as database:
        analysis = database.verdict()
        whatif = database.whatif("host*1", "steady")
    lengths = [105_000, 100_000]
    assert [each.window.span_ns for each in analysis.steps] == lengths
    assert [each.gains.window_ns for each in analysis.steps] == lengths
    assert [each.window_ns for each in whatif.steps] == lengths
    # The step of median length is the verdict's window, and that of a prediction.
    judged = analysis.judged.window
    assert (judged, judged.name) == (analysis.verdict.window, whatif.window)
    assert (judged.span_ns, whatif.window_ns) == (100_000, 100_000)
    console.render(analysis)
    assert f"of {judged.name} (100 us of 100 us)" in capsys.readouterr().out


# -- steps -----------------------------------------------------------------------------------------


def marked(number: int, start_us: int, dur_us: int, thread: int = traces.THREAD) -> dict:
    return step(number, start_us, dur_us) | {"tid": thread}


MARKS = {
    "twice at one time": [marked(1, 0, 100), marked(1, 0, 100)],
    "nested": [marked(1, 0, 100), marked(1, 10, 50)],
    "nested from one begin": [marked(1, 0, 50), marked(1, 0, 100)],
    "on two threads at one time": [marked(1, 0, 100), marked(1, 0, 100, thread=200)],
    "on two threads one after the other": [marked(1, 0, 90), marked(1, 10, 90, thread=200)],
    "and another without length": [marked(1, 0, 100), marked(7, 50, 0)],
}


LATER_STEPS = [
    marked(2, 100, 80), marked(2, 180, 20),
    launch(20, 2, 1), gpu_op(30, 10, 1), launch(120, 2, 2), gpu_op(130, 10, 2),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MARKS)
def test_all_that_count_steps_count_one_that_is_marked_twice_once(name, made):
    run, numbers = made
    trace = numbers[name]
    analysis = run.verdict(trace)
    lengths = {
        "windows": [row["span_ns"] for row in run.ask("partition", kind="step", trace=trace)],
        "verdict": [each.window.span_ns for each in analysis.steps],
        "replay": [row["dur_ns"] for row in run.ask("replay_steps", trace=trace)],
        "host": [row["host_ns"] for row in run.ask("step_host", trace=trace)],
    }
    counts = {
        "overview": run.ask("overview", trace=trace)[0]["steps"],
        "run_steps": run.ask("run_metrics", trace=trace)[0]["steps"],
        "whatif": len(what_if(run, [], trace).steps),
    }
    assert all(each == [100_000, 80_000, 20_000] for each in lengths.values()), lengths
    assert counts == dict.fromkeys(counts, 3)
    assert all(each.gains is not None for each in analysis.steps)
    without = numbers[f"{name}, no GPU"]
    steps = [each.window.span_ns for each in run.verdict(without).steps]
    assert (steps, run.ask("overview", trace=without)[0]["steps"]) == ([100_000], 1)


# -- what bounds a run -----------------------------------------------------------------------------


def test_no_reporter_compares_gains_or_holds_a_regimes_name():
    """Only tracekit/verdict/regime.py judges; reporters use its results."""
    judging = []
    for file in (Path(tracekit.__file__).parent / "reporters").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and node.value in REGIMES.values():
                judging.append(f"{file.name}: {node.value}")
            if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
                text = ast.unparse(node)
                if re.search(r"\b(host|device|network)_gain\b|\bgains\.|\bmargin\b", text):
                    judging.append(f"{file.name}: {text}")
    assert judging == []


def test_at_the_flip_the_other_side_gains_more(shared_database, shared_verdict):
    name = "simulated-overhead-bound.json.gz"
    flip = shared_verdict(name).causal.flip
    replay = Replay(shared_database(name).session, 1)
    window = replay.window(replay.window_id())

    def gained(faster, side):
        before = f"host*{1 / faster}"
        changes = [f"host*{0.5 / faster}"] if side == "host" else [before, "device*0.5"]
        before_ns, after_ns = (
            window.length(replay.run(*each, base=replay.unrecorded)) for each in ([before], changes)
        )
        return before_ns - after_ns

    assert gained(flip, "device") > gained(flip, "host")
    assert gained(flip / 1.15, "device") <= gained(flip / 1.15, "host")


# -- the launch queue ------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("room", [500, 511, 512, 600, 1_024, 1_500])
def test_queries_and_replay_find_the_same_depth_and_the_same_queues_full(room, tmp_path):
    limits, launches = Thresholds(), 4_000
    atoms = [Launch(2_000, (("math", 20_000),)) for _ in range(launches)]
    path = simulated.write(tmp_path / "t.json", Simulation(atoms, Machine(queue_limit=room)))
    with tracekit.load(path) as run:
        recorded = recording_of(run, 1)
        (stats,) = run.ask("launch_stats")
        (summary,) = run.ask("queue_summary")
        deepest = max(row["depth"] for row in run.ask("queue_depth"))
        # A call that waits for room counts in the depth, in addition to those that fill the queue.
        assert deepest == stats["queue_depth_max"] == summary["max_depth"] == room + 1
        assert recorded.streams.depth().max() == deepest
        is_full = room >= limits.queue_depth
        assert (summary["at_limit"] > 0, summary["full_ns"] > 0) == (is_full, is_full)
        assert (len(waits_in_calls(recorded, recorded.submitted).start) > 0) == is_full
    if is_full:
        # While the queue fills, a kernel of 21 us starts for every ten calls of 2 us. After that,
        # a call takes as long as a kernel.
        held_up = launches - room * 21 / 19
        assert summary["at_limit"] == pytest.approx(held_up, rel=0.01)
        assert summary["blocked_ns"] == pytest.approx(19_000 * held_up, rel=0.01)


def test_a_queue_that_grows_deep_and_holds_no_call_up_is_full_to_nobody(tmp_path):
    atoms = [Launch(2_000, (("math", 20_000),)) for _ in range(1_500)]
    path = simulated.write(tmp_path / "t.json", Simulation(atoms, Machine(queue_limit=10_000)))
    with tracekit.load(path) as run:
        assert run.ask("launch_stats")[0]["queue_depth_max"] > 1_024
        (summary,) = run.ask("queue_summary")
        assert (summary["at_limit"], summary["full_ns"]) == (0, 0)
        recorded = recording_of(run, 1)
        assert not len(waits_in_calls(recorded, recorded.submitted).start)


def test_no_query_counts_a_launch_before_its_clock_as_queued(made):
    run, numbers = made
    trace = numbers["before its clock"]
    assert run.ask("queue_summary", trace=trace)[0]["max_depth"] == 1
    assert run.ask("launch_stats", trace=trace)[0]["queue_depth_max"] == 1


def test_queries_and_replay_judge_a_queue_by_the_same_numbers(made):
    (told,) = made[0].fetch("SELECT thresholds()")[1][0]
    known = asdict(Thresholds())
    assert {name: float(n) for name, n in told.items()} == {name: known[name] for name in told}
    assert {"queue_depth", "full_calls", "full_share", "full_slack"} < set(told)


def test_thresholds_that_tables_and_views_read_cannot_be_set_for_one_run():
    queries = Path(tracekit.__file__).parents[1] / "queries"
    texts = [
        f.read_text()
        for room in ("facts", "views", "schema")
        for f in (queries / room).glob("*.sql")
    ]
    stored = set(re.findall(r"thresholds\(\)\.(\w+)", "\n".join(texts)))
    # Units are found by Python, and stored.
    for file in (Path(tracekit.__file__).parent / "units").glob("*.py"):
        stored |= set(re.findall(r"_JUDGED_BY\.(\w+)", file.read_text()))
    assert {name for name, each in TABLE.items() if not each.is_settable} == stored
    with pytest.raises(TracekitError, match="job_gap_ns cannot be set for one run"):
        Thresholds().updated(["job_gap_ns=3"])


def test_no_rule_has_thresholds_of_its_own():
    """Rules judge by the thresholds of the session, or of the case that they get."""
    own = [
        f"{file.name}: {line.strip()}"
        for room in ("replay", "verdict", "advice")
        for file in (Path(tracekit.__file__).parent / room).rglob("*.py")
        for line in file.read_text().splitlines()
        if "Thresholds()" in line
    ]
    assert own == []


# -- numbers that SQL, C and Python share ----------------------------------------------------------


def test_queries_number_causes_as_the_replay_does(made):
    each = "unnest(enum_range(NULL::host_activity))::VARCHAR"
    known = dict(made[0].fetch(f"SELECT a, host_cause(a, FALSE) FROM (SELECT {each} AS a)")[1])
    assert known == {name: cause_of(name) for name in known}
    assert set(known.values()) <= set(OF_HOST)
