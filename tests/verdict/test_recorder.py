"""Gaps and effects of the recorder are reported before any regime, with what to record instead.

A program runs in the simulator; its trace then loses what a recorder would lose.
"""

from __future__ import annotations

import inspect
import json
import re

import pytest

import tracekit
from tests.conftest import shared_trace_names
from tests.kit import traces
from tests.kit.atoms import MS, US, Call, Launch, Sync, Work, line, operator, step
from tests.kit.simulated import ranks, write
from tests.kit.simulator import Machine, Simulation
from tests.one_offs.test_steady import loop
from tracekit.causes import words

RECORD = words("record")
SMALL = Launch(6 * US, (("math", 4 * US),))
EAGER = [operator("aten::mm", 20 * US, SMALL), Work(5 * US)]


def analyzed(folder, atoms, lose=None, machine=None, **metadata):
    """The analysis of a program's trace, after `lose` removed or changed some of its events."""
    simulation = Simulation(atoms, machine)
    simulation.recorded = list(simulation.events())
    path = write(folder / "t.json", simulation, **metadata)
    if lose is not None:
        trace = json.loads(path.read_text())
        trace["traceEvents"] = lose(trace["traceEvents"])
        path.write_text(json.dumps(trace))
    with tracekit.load(path) as database:
        return database.verdict()


def calls(events, name="cudaLaunchKernel"):
    return [each for each in events if each["name"] == name]


def without_ops_of(events, launches, keep=0):
    """The events without the GPU ops of some launches, except the first ones of each."""
    left = {each["args"]["correlation"]: keep for each in launches}
    kept = []
    for each in events:
        number = each["args"].get("correlation")
        if each["pid"] == 0 and number in left:
            left[number] -= 1
            if left[number] < 0:
                continue
        kept.append(each)
    return kept


def codes(analysis):
    return {each.code for each in analysis.trace.health}


# -- replays without kernels -----------------------------------------------------------------------


def decoding(replays=100, graph=None):
    graph = graph or Launch(20 * US, (("math", 70 * US),) * 100, name="cudaGraphLaunch")
    return [atom for _ in range(replays) for atom in (Work(150 * US), graph, Sync(2 * US))]


def overflow(events):
    """The recorder's buffer holds one replay."""
    return without_ops_of(events, calls(events, "cudaGraphLaunch")[1:])


def test_replays_without_kernels_come_first_and_the_waiting_host_tells_the_limit(tmp_path):
    verdict = analyzed(tmp_path, decoding(), overflow).verdict
    assert verdict.why[0] == (
        "99 of 100 graph replays have no kernels in this trace; the host waits 7.1 ms of each "
        "7.27 ms in calls that synchronize, so the device is likely the limit."
    )
    assert (verdict.regime, verdict.bottleneck, verdict.confidence) == ("unknown", None, "none")
    assert verdict.savings == []
    assert verdict.try_next == [RECORD["graph_without_kernels"]]


def test_a_host_that_does_not_wait_tells_nothing_about_replays_without_kernels(tmp_path):
    small = Launch(20 * US, (("math", 5 * US),) * 10, name="cudaGraphLaunch")
    verdict = analyzed(tmp_path, decoding(graph=small), overflow).verdict
    assert verdict.why[0].startswith("99 of 100 graph replays have no kernels in this trace: what")
    assert verdict.regime == "unknown"


@pytest.mark.parametrize("known", [True, False], ids=["with the graph's id", "without"])
def test_a_replay_with_far_fewer_kernels_than_the_others_counts_as_missing(known, tmp_path):
    def cut(events):
        for each in events:
            if not known:
                each["args"].pop("graph id", None)
        launches = calls(events, "cudaGraphLaunch")
        for place, launch in enumerate(launches[::4]):
            events = without_ops_of(events, [launch], keep=20 + place)
        return events

    verdict = analyzed(tmp_path, decoding(40), cut).verdict
    assert verdict.why[0].startswith(
        "10 of 40 graph replays have at most half of the kernels of the others; the host waits"
    )
    assert verdict.confidence == "low"


def test_replays_whose_kernels_have_lost_their_launch_are_not_missing(tmp_path):
    def unlink(events):
        for each in events:
            if each["pid"] == 0:
                del each["args"]["correlation"]
        return events

    found = codes(analyzed(tmp_path, decoding(20), unlink))
    assert "unlinked_gpu_ops" in found and "graph_without_kernels" not in found


def test_whole_replays_of_several_graphs_are_no_finding(tmp_path):
    def piece(kernels):
        return Launch(9 * US, (("math", 70 * US),) * kernels, name="cudaGraphLaunch")

    atoms = [a for _ in range(20) for a in (piece(10), piece(40), piece(40), Sync(2 * US))]

    def unnumber(events):
        for each in events:
            each["args"].pop("graph id", None)
        return events

    assert "graph_without_kernels" not in codes(analyzed(tmp_path, atoms, unnumber))


# -- launches without kernels ----------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "regime"), [(60, "overhead-bound"), (120, "unknown")])
def test_kernels_dropped_at_the_start_of_a_session_come_first(lost, regime, tmp_path):
    verdict = analyzed(
        tmp_path, EAGER * 200 + [Sync(2 * US)], lambda e: without_ops_of(e, calls(e)[:lost])
    ).verdict
    assert verdict.why[0].startswith(f"The first {lost} of 200 launches have no kernels")
    assert verdict.regime == regime
    assert verdict.confidence == ("none" if regime == "unknown" else "low")
    assert verdict.try_next[0] == RECORD["dropped_at_start"]


@pytest.mark.parametrize("place", ["spread", "end"])
def test_launches_without_kernels_elsewhere_are_not_dropped_at_the_start(place, tmp_path):
    def lose(events):
        found = calls(events)
        return without_ops_of(events, found[1::3] if place == "spread" else found[150:])

    assert "dropped_at_start" not in codes(analyzed(tmp_path, EAGER * 200, lose))


def captured(launches):
    return [
        Call("cudaStreamBeginCapture", 9 * US, "launch"),
        *[Call("cudaLaunchKernel", 5 * US, "launch")] * launches,
        Call("cudaStreamEndCapture", 9 * US, "launch"),
        Call("cudaGraphInstantiateWithFlags", 2 * MS, "compilation"),
    ]


def test_a_capture_that_was_recorded_in_place_of_the_replays_is_said_to_be_one(tmp_path):
    verdict = analyzed(tmp_path, [*EAGER * 3, *captured(400), Sync(2 * US)]).verdict
    assert verdict.why[0].startswith("400 of 403 launches were captured into graphs")
    assert verdict.regime == "unknown"
    assert verdict.try_next == [RECORD["captured_only"]]
    (tmp_path / "replayed").mkdir()
    replayed = analyzed(tmp_path / "replayed", [*captured(100), *decoding(20)])
    assert codes(replayed).isdisjoint({"captured_only", "dropped_at_start"})


@pytest.mark.parametrize(
    ("name", "cause", "what"),
    [
        ("cudaMalloc", "allocation", "make memory, code and graphs ready"),
        ("cudaFree", "allocation", "free memory and end the run"),
        ("cudaDeviceSynchronize", "sync", "wait for the device"),
    ],
)
def test_a_recording_of_the_start_or_the_end_says_so(name, cause, what, tmp_path):
    atoms = [Call("cudaGetDeviceCount", 1 * US, "runtime"), *[Call(name, 3 * MS, cause)] * 5]
    verdict = analyzed(tmp_path, atoms).verdict
    assert verdict.why[0] == (
        f"No work of a model was recorded: 5 calls of 15 ms {what}, most of it in {name}."
    )
    assert (verdict.regime, verdict.try_next) == ("unknown", [RECORD["no_work_recorded"]])
    (tmp_path / "worked").mkdir()
    assert "no_work_recorded" not in codes(analyzed(tmp_path / "worked", [*atoms, *EAGER]))


# -- calls without an end --------------------------------------------------------------------------


def stacked(steps=8):
    call = line("<built-in method mylib.op>", operator("aten::mm", 10 * US, SMALL), Work(US))
    frame = line("train.py(12): train", Work(3 * US), call, Work(40 * US))
    return [*(step(number, *[frame] * 20) for number in range(steps)), Sync(2 * US)]


def unended(events):
    """If Kineto missed the end of a call, it puts it at the end of the recording."""
    end = max(each["ts"] + each["dur"] for each in events)
    for each in events:
        if each["name"].startswith("<built-in"):
            each["dur"] = round(end - each["ts"], 3)
    return events


def test_python_calls_without_an_end_come_first_and_are_no_one_off(tmp_path):
    analysis = analyzed(tmp_path, stacked(), unended)
    verdict = analysis.verdict
    assert verdict.why[0].startswith("160 Python calls have no end in this trace")
    assert verdict.confidence == "low"
    assert verdict.try_next[0] == RECORD["unended_calls"]
    assert analysis.one_offs == []
    # They add nothing to Python's time: the time that they cover belonged to Python already, or to
    # an operator.
    (tmp_path / "whole").mkdir()
    whole = analyzed(tmp_path / "whole", stacked())
    assert verdict.savings == whole.verdict.savings
    assert whole.verdict.confidence == "high" and "unended_calls" not in codes(whole)


def test_frames_that_are_open_when_the_recording_stops_have_an_end(tmp_path):
    atoms = stacked()
    for number in range(4):
        atoms = [line(f"main.py({number}): main", *atoms)]
    assert "unended_calls" not in codes(analyzed(tmp_path, atoms))


def test_a_call_that_outlives_the_range_around_it_has_an_end(tmp_path):
    # profiler.step() ends the range of its step.
    def stop(events):
        end = max(each["ts"] + each["dur"] for each in events)
        for each in events:
            if each["name"] in ("main.py(1): main", "profiler.py(811): step"):
                each["dur"] = round(end - each["ts"], 3)
        return events

    ended = [step(number, *EAGER * 20, line("profiler.py(811): step", Work(US))) for number in (1,)]
    atoms = [line("main.py(1): main", *ended * 4), Work(9 * US), *EAGER]
    assert "unended_calls" not in codes(analyzed(tmp_path, atoms, stop))


@pytest.mark.parametrize("open_", ["an operator", "a runtime call"])
def test_what_is_open_when_the_recording_stops_is_no_one_off(open_, tmp_path):
    last = (
        operator("aten::rpc", 400 * MS)
        if open_ == "an operator"
        else Call("cudaStreamBeginCaptureToGraph", 400 * MS, "launch")
    )
    analysis = analyzed(tmp_path, [*loop(marked=False), last])
    assert analysis.one_offs == []
    assert analysis.verdict.regime == "compute-bound"


# -- ranks that begin to record at different times -------------------------------------------------


def reducing(first_ns, steps=0):
    def work(number):
        reduce_ns = first_ns if number == 0 else 14_300
        reduce = Launch(6 * US, (("communication", reduce_ns),))
        product = operator("aten::mm", 15 * US, Launch(6 * US, (("math", 300 * US),)))
        return [operator("nccl:all_reduce", 10 * US, reduce), *[product] * 10]

    if not steps:
        return [atom for number in range(64) for atom in work(number)] + [Sync(2 * US)]
    each = 64 // steps
    return [
        *(
            step(place, *[a for n in range(place * each, (place + 1) * each) for a in work(n)])
            for place in range(steps)
        ),
        Sync(2 * US),
    ]


@pytest.mark.parametrize("steps", [0, 1, 2, 8])
def test_ranks_that_meet_late_in_the_first_collective_are_a_one_off(steps, tmp_path):
    analysis = analyzed(tmp_path, reducing(17_456 * MS, steps))
    verdict = analysis.verdict
    assert verdict.bottleneck == "math-or-memory"
    assert [each.excess_ns for each in analysis.one_offs] == [17_456 * MS - 14_300]
    assert max(each.saves_at_most_ns for each in verdict.savings) < 200 * MS
    assert not any("is exposed communication" in why for why in verdict.why)
    # If there is a later step, it is judged: the first collective is not in it.
    is_inside = steps < 2
    first = "The first collective takes 17.5 s, the other 63 take 14.3 us at the median"
    assert verdict.why[0].startswith(first) == is_inside
    assert (verdict.confidence == "low") == is_inside
    assert (verdict.try_next[0] == RECORD["arrival_skew"]) == is_inside


def test_a_first_collective_like_the_others_is_no_finding(tmp_path):
    assert "arrival_skew" not in codes(analyzed(tmp_path, reducing(200 * US)))


def test_a_first_collective_that_each_step_repeats_is_no_finding(tmp_path):
    def reduce(ns):
        return operator("nccl:all_reduce", 10 * US, Launch(6 * US, (("communication", ns),)))

    short = [reduce(14_300)] * 6
    atoms = [step(number, reduce(10_700 * US), *short) for number in range(6)]
    assert "arrival_skew" not in codes(analyzed(tmp_path, atoms))


def test_ranks_that_are_loaded_together_say_so_as_well(tmp_path):
    def program(late):
        return [Work(17_000 * MS if late else 1 * US), *reducing(14_300)]

    files = [
        write(tmp_path / f"{rank}.json", run, distributedInfo={"rank": rank, "world_size": 2})
        for rank, run in enumerate(ranks([program(False), program(True)]))
    ]
    with tracekit.load([str(each) for each in files]) as database:
        (late, _) = database.together().late_ranks
        rows = database.ask("health")
    assert (late.rank, late.cause) == (1, "start-skew")
    assert [row["trace_id"] for row in rows if row["code"] == "arrival_skew"] == [1]


# -- work that was launched before the recording ---------------------------------------------------


def waiting_at_first(blocked_us, begins_us=10):
    """A call that blocks until the device goes on; then kernels of 100 us, launched far ahead."""
    after = begins_us + blocked_us
    events = [
        traces.launch(0, 2, 1),
        traces.gpu_op(3, 2, 1),
        traces.launch(begins_us, blocked_us, 2, "cudaMemcpy"),
        traces.gpu_op(after - 6, 5, 2, category="gpu_memcpy", name="Memcpy DtoH"),
    ]
    for place in range(200):
        events.append(traces.launch(after + 5 * place, 3, 10 + place))
        events.append(traces.gpu_op(after + 20 + 100 * place, 99, 10 + place))
    return events


def test_a_call_that_blocks_from_the_begin_on_waits_for_what_nobody_recorded(tmp_path):
    with traces.load(tmp_path, waiting_at_first(20_000)) as database:
        verdict = database.verdict().verdict
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "math-or-memory")
    assert verdict.confidence == "medium"
    assert verdict.headline.startswith("For the first 20 ms the device worked on what was launched")
    assert verdict.try_next[0] == RECORD["queued_before"]


def test_a_call_that_blocks_later_waits_for_what_is_recorded(tmp_path):
    with traces.load(tmp_path, waiting_at_first(20_000, begins_us=9_000)) as database:
        assert "queued_before" not in codes(database.verdict())


# -- gaps in replays -------------------------------------------------------------------------------


def test_equal_gaps_in_replays_may_be_the_recorders_and_cost_nothing(tmp_path):
    graph = Launch(20 * US, (("memory-bandwidth", 14 * US),) * 200, name="cudaGraphLaunch")
    gaps = Machine(gap_ns=(4_900, 5_200))
    verdict = analyzed(tmp_path, decoding(20, graph), machine=gaps).verdict
    assert verdict.why[0].startswith(
        "Equal gaps between the kernels of graph replays (5.05 us at the median) take"
    )
    assert verdict.confidence == "medium"
    assert not any("latency" in why for why in verdict.why)
    saved = {each.remove: each.saves_at_most_ns for each in verdict.savings}
    assert saved.get("latency", 0) < 1 * MS
    assert verdict.try_next[0] == RECORD["recorder_gaps"]


@pytest.mark.parametrize("gaps", [(500, 900), (1_000, 40_000)], ids=["small", "unequal"])
def test_gaps_that_are_small_or_unequal_are_priced(gaps, tmp_path):
    graph = Launch(20 * US, (("memory-bandwidth", 24 * US),) * 200, name="cudaGraphLaunch")
    analysis = analyzed(tmp_path, decoding(20, graph), machine=Machine(gap_ns=gaps))
    assert "recorder_gaps" not in codes(analysis)


# -- the recorder's own cost -----------------------------------------------------------------------


def test_the_measured_cost_of_recording_is_taken_from_the_hosts_work(tmp_path):
    inner = operator("aten::mm", 900, Launch(1 * US, (("math", 3 * US),)))
    steps = [step(number, *[operator("aten::linear", 900, inner)] * 40) for number in range(8)]
    measured = {"profiled_step_ns": 305_000, "unprofiled_step_ns": 120_000}
    slow = Machine(overhead_ns=2_000)
    verdict = analyzed(tmp_path, [*steps, Sync(US)], machine=slow, tracekit=measured).verdict
    assert verdict.why[0] == (
        "Profiling made a step 2.54 times as long, 305 us instead of 120 us: the host looks slower "
        "than it is; its work in a step takes 272 us as recorded, about 87 us without the recorder."
    )
    assert verdict.confidence == "low"
    assert verdict.try_next[0] == RECORD["recorder_cost"]


def nested(kernel_ns):
    launch = Launch(1_200, (("math", kernel_ns),))
    called = line("a.py(1): f", line("a.py(2): g", line("a.py(3): h", Work(200), launch)))
    op = operator("aten::linear", 500, operator("aten::mm", 500, called))
    return [line("a.py(9): main", op)] * 320 + [Sync(2 * US)]


def test_a_verdict_on_host_time_that_recording_could_explain_is_not_sure(tmp_path):
    verdict = analyzed(tmp_path, nested(1_000)).verdict
    assert verdict.why[0] == (
        "Recording took about 91.7 % of the host's main thread: 640 operators and 1,280 Python "
        "frames (with_stack)."
    )
    assert (verdict.regime, verdict.confidence) == ("overhead-bound", "low")
    assert "with_stack=False" in verdict.try_next[0] and "record_shapes" in verdict.try_next[0]


def test_a_verdict_on_the_devices_time_does_not_rest_on_what_recording_costs(tmp_path):
    analysis = analyzed(tmp_path, nested(30_000))
    assert "recorder_cost" in codes(analysis)
    assert analysis.verdict.regime == "compute-bound"
    assert not any("Recording took" in why for why in analysis.verdict.why)


# -- what to record instead ------------------------------------------------------------------------


def test_pytorch_takes_the_arguments_that_are_advised():
    profiler = pytest.importorskip("torch").profiler
    taken = inspect.signature(profiler.profile).parameters
    for text in RECORD.values():
        for schedule in re.findall(r"torch\.profiler\.schedule\(([^()]*)\)", text):
            assert callable(eval(f"schedule({schedule})", {"schedule": profiler.schedule}))
        apart = re.sub(r"schedule\([^()]*\)|Event\([^()]*\)", "", text)
        assert set(re.findall(r"\b([a-z_]+)=", apart)) <= taken.keys(), text


# -- real traces -----------------------------------------------------------------------------------

# Gaps of the recorder in the shared traces, without its cost, which only informs.
LEFT_OUT = {"mi300x-vllm-capture": {"captured_only"}}
KINDS = set(RECORD) - {"recorder_cost"}


@pytest.mark.sampled(8, of=51)
@pytest.mark.parametrize("name", shared_trace_names())
def test_whole_recordings_are_not_said_to_be_otherwise(name, shared_database):
    found = {row["code"] for row in shared_database(name).ask("health")} & KINDS
    assert found == LEFT_OUT.get(name.removesuffix(".json.gz"), set())
