"""The graph of small handmade traces: its dependencies, and the effects of changes."""

import numpy as np
import pytest

import tracekit
from tests.conftest import OWN_TRACES, trace_names
from tests.kit import traces
from tests.kit.processes import ran
from tests.kit.traces import gpu_op, launch, slice_event, step
from tracekit.errors import TracekitError
from tracekit.replay.grammar import PATTERNS
from tracekit.replay.model import WindowId
from tracekit.replay.replay import Replay

US = 1_000


TRACES = traces.Together()


@pytest.fixture
def replay(trace, loaded):
    return Replay(loaded, trace)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", trace_names())
def test_without_changes_every_real_op_starts_when_it_did(name, shared_trace):
    replay = Replay(*shared_trace(name))
    graph = replay.graph
    if not graph.ops:
        return
    assert np.array_equal(replay.measured().time, graph.time)
    bounds = replay.bounds()
    path = bounds.path(replay.measured()).by_cause
    assert sum(path.values()) == bounds.length(replay.measured())
    for number, length in enumerate(replay.steps.lengths(replay.measured())):
        path = replay.window(WindowId("step", number)).path(replay.measured())
        assert sum(path.by_cause.values()) == length


PLAIN = [
    "h100-bert-small", "h100-timesformer", "a100-nccl", "v100-ns-resolution", "v100-compiled-ddp",
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLAIN)
def test_less_than_5_percent_of_a_plain_run_is_unexplained(name, shared_trace):
    replay = Replay(*shared_trace(f"{name}.json.gz"))
    graph, bounds = replay.graph, replay.bounds()
    span = bounds.length(replay.measured())
    assert bounds.path(replay.measured()).by_cause.get("unknown", 0) < 0.05 * span
    # The bound holds for all waits, not only for those on the path.
    assert graph.unknown[1 : 1 + graph.ops].sum() < 0.05 * span


# Three steps that wait for their kernels.
WAITING = [
    event
    for n in range(3)
    for event in (
        launch(1000 * n, 5, 2 * n + 1), gpu_op(1000 * n + 8 + 60, 500, 2 * n + 1),
        launch(1000 * n + 6, 505, 2 * n + 2, "cudaDeviceSynchronize"),
    )
]  # fmt: skip
# The first of ten kernels starts 3 us before its launch.
EARLY = [
    event
    for n in range(10)
    for event in (launch(100 * n, 5, n + 1), gpu_op(100 * n + (3 if n else -3), 20, n + 1))
]
CLOCKS = [
    (TRACES.events(EARLY), 3, 926, "clock was set forward by"),
    (TRACES.events(WAITING), -57, 2500, "clock was set back by"),
]


@pytest.mark.parametrize(("trace", "shift_us", "span_us", "said"), CLOCKS)
def test_a_clock_of_the_device_that_is_off_is_corrected(trace, shift_us, span_us, said, replay):
    analysis = replay.database.verdict(trace)
    assert replay.graph.device.shift_ns == {0: shift_us * US}
    assert analysis.causal.clock_shift_ns == shift_us * US
    assert replay.bounds().length(replay.measured()) == span_us * US
    assert any(said in why for why in analysis.verdict.why)


# One op before all launches, which the late clock puts before the trace's start.
BEFORE = [*(each | {"ts": each["ts"] + 10} for each in WAITING), gpu_op(11, 30)]


@TRACES.of(*BEFORE)
def test_no_link_of_a_path_begins_before_the_trace(replay):
    assert int(replay.graph.device.start.min()) < 0
    links = replay.database.verdict(replay.trace_id).causal.links
    assert min(each["start_ns"] for each in links) == 0


@TRACES.of(slice_event("cpu_op", "aten::mm", 5, 0))
def test_a_trace_in_which_nothing_takes_time_is_not_replayed(trace, loaded):
    with pytest.raises(TracekitError, match="takes any time: there is nothing to replay"):
        loaded.whatif("host*0.5", trace=trace)
    analysis = loaded.verdict(trace)
    assert (analysis.verdict.regime, analysis.priced_ns) == ("unknown", None)


# The second step's host works while the device still runs a slow kernel of the first.
SLOW_KERNEL = [
    event
    for n in range(12)
    for event in (
        step(n, 1000 * n, 1000),
        launch(1000 * n, 5, n + 1),
        gpu_op(1000 * n + 10, 1700 if n == 5 else 20, n + 1),
    )
]


@TRACES.of(*SLOW_KERNEL)
def test_a_window_that_another_ones_one_off_shortens_has_none_of_its_own(trace, loaded):
    analysis = loaded.verdict(trace)
    assert [each.name for each in analysis.one_offs] == ["ProfilerStep#5"]
    added_ns = [each.gains.one_offs_ns for each in analysis.steps]
    assert max(added_ns) > 500 * US and min(added_ns) == 0
    assert analysis.steps[6].window.span_ns < 500 * US < analysis.steps[6].gains.window_ns


FASTER = {"tracekit": {"profiled_step_ns": 900 * US, "unprofiled_step_ns": 1000 * US}}


@TRACES.of(*SLOW_KERNEL[:6], **FASTER)
def test_recording_never_makes_a_run_shorter(trace, loaded, replay):
    assert replay.recorder.dilation == 1
    gains = loaded.verdict(trace).judged.gains
    assert (gains.recorder_ns or 0) >= 0


@TRACES.of(launch(9_000, 5, 1), gpu_op(97, 20, 1), launch(9_100, 5, 2), gpu_op(9_107, 20, 2))
def test_an_op_long_before_its_launch_is_not_linked_to_it(replay):
    assert replay.graph.device.wrong_links == 1
    assert replay.graph.device.shift_ns == {0: 0}


@pytest.mark.thorough
def test_changes_need_no_package_that_an_install_lacks():
    trace = OWN_TRACES / "simulated-overhead-bound.json.gz"
    changes = [f"{kind}:**{0 if kind == 'sync' else 0.5}" for kind in PATTERNS]
    code = (
        "import sys\n"
        "for name in 'pandas', 'pyarrow': sys.modules[name] = None\n"
        "import tracekit\n"
        f"with tracekit.load({str(trace)!r}) as run:\n"
        f"    for change in {changes!r}:\n"
        "        try: run.whatif(change)\n"
        "        except tracekit.TracekitError as error: print(error)\n"
    )
    done = ran("python", "-c", code)
    # The trace has no modules.
    assert "matches nothing in this trace" in done.stdout
    assert len(done.stdout.splitlines()) == 1, done.stdout


WRONG = (
    [
        ("host", "is not a change"), ("host*", "is not a change"), ("host*-1", "is not a change"),
        ("host*1e5", "is not a change"), ("gpus*0.5", "none of host, device"),
        ("unknown*0", "none of host"), ("nothing:x*0.5", "one of kernel:NAME"),
        ("kernel:*0.5", "one of kernel:NAME"), ("sync:x*0.5", r"removed \(\*0\)"),
        ("kernel:nosuch*0.5", "matches nothing"), ("fuse", "no adjacent operators"),
        ("host*9999999", "as a multiple of the old one"), ("cuda-graph:x", "is not a change"),
        ("rank:1:host*0.5", "give the ranks' folder or DB"),
        ("straggler*0", "give the ranks' folder or DB"),
        ("batch*0", "use a factor above 0"),
]
)  # fmt: skip


@TRACES.of(launch(0, 5, 1), gpu_op(7, 50, 1))
def test_invalid_changes_are_refused_in_one_line(replay):
    for change, said in WRONG:
        with pytest.raises(TracekitError, match=said):
            replay.run(change)


SHAPED = [[1000, 1000], [1000, 1000]], ["c10::BFloat16"] * 2


@TRACES.of(
    step(1, 0, 50), launch(10, 5, 1), gpu_op(17, 100, 1),
    step(2, 50, 50), launch(60, 5, 2), gpu_op(118, 100, 2),
)  # fmt: skip
def test_a_step_begins_when_the_device_has_finished_the_one_before(replay):
    # The host leaves both steps long before the device has finished their work.
    assert replay.steps.lengths(replay.measured()).tolist() == [117 * US, 101 * US]
    assert replay.steps.lengths(replay.run("device*0.5")).tolist() == [67 * US, 51 * US]


# A profiler that starts again restarts its step numbers.
@TRACES.of(
    step(1, 0, 50), launch(10, 5, 1), gpu_op(17, 100, 1),
    step(1, 200, 50), launch(210, 5, 2), gpu_op(217, 300, 2),
)  # fmt: skip
def test_steps_of_one_name_are_told_apart(trace, loaded):
    steps = loaded.verdict(trace).steps
    assert [each.gains.window_ns for each in steps] == [117 * US, 317 * US]


def test_a_trace_without_a_time_cannot_be_replayed(tmp_path):
    named = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    with traces.load(tmp_path, named) as run, pytest.raises(TracekitError, match="nothing to"):
        run.whatif("host*0.5")


@TRACES.of(
    launch(0, 5, 1), gpu_op(7, 100, 1, device=0), launch(6, 5, 2), gpu_op(13, 300, 2, device=1),
    launch(12, 5, 3), gpu_op(108, 50, 3, device=0),
)  # fmt: skip
def test_devices_of_one_trace_run_beside_each_other(replay, trace):
    # Streams with the same number on two devices do not wait for each other.
    halved = replay.run("device*0.5")
    lengths = [replay.window(WindowId("gpu_active", device)).length(halved) for device in (0, 1)]
    assert lengths == [(50 + 1 + 25) * US, 150 * US]
    assert [gpu.device_id for gpu in replay.database.verdict(trace).devices] == [1, 0]


COPIED = [
    launch(0, 5, 1), gpu_op(7, 9_000, 1, category="gpu_memcpy", name="Memcpy HtoD"),
    *(event for i in range(4)
      for event in (launch(13_000 + 10 * i, 5, 3 + i), gpu_op(13_007 + 10 * i, 2, 3 + i))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "least_us", "most_us"),
    [
        (TRACES.events([*COPIED, launch(10, 9_000, 2), gpu_op(9_020, 100, 2)]), 4_000, 4_200),
        (TRACES.events([*COPIED, launch(10, 12_000, 2), gpu_op(12_020, 100, 2)]), 13_000, 13_100),
    ],
)
def test_a_launch_that_returns_when_a_copy_ends_is_not_work_of_the_host(
    trace, least_us, most_us, replay
):
    length = replay.bounds("trace").length(replay.run("copy*0"))
    assert least_us * US <= length <= most_us * US


def test_a_prediction_comes_with_its_doubts(tmp_path):
    events = [launch(0, 5, 1), gpu_op(7, 50, 1), gpu_op(60, 10, 99)]
    whole = traces.write(tmp_path / "1.json", events[:2])
    (tmp_path / "2.json").write_text(traces.write(tmp_path / "t", events).read_text()[:-20])
    with tracekit.load([whole, tmp_path / "2.json"]) as run:
        none, doubts = (run.whatif("host*0.5", trace=trace).doubts for trace in (1, 2))
    assert none == []
    assert any(each.startswith("error: the end is missing") for each in doubts)


def test_functions_of_the_host_on_a_stream_are_the_hosts_work(tmp_path):
    """Each of ten graphs runs a function of 60 us between two kernels of 100 us."""
    events, args = [], {"device": 0, "stream": 7}
    for number in range(1, 11):
        at = 300 * number
        events += [
            traces.launch(at, 5, number, "cudaGraphLaunch"),
            traces.gpu_op(at + 10, 100, number),
            traces.slice_event("graph_host_node", "HostNode: f", at + 115, 60)
            | {"pid": 0, "tid": 7, "args": args | {"correlation": number}},
            traces.gpu_op(at + 180, 100, number),
        ]
    with traces.load(tmp_path, events) as run:
        assert run.sql("SELECT count(*) FROM gpu_ops WHERE kind = 'host_function'").item() == 10
        replay = Replay(run.session, 1)
        window = replay.window(WindowId("gpu_active", 0))
        changes = ((), ("host-function*0",), ("device*0.5",))
        length, without, faster = (window.length(replay.run(*each)) for each in changes)
        shares = window.path(replay.run()).shares
    assert length == 2_970_000
    # The next graph is launched while this one runs: what is saved is an earlier end of the last.
    assert length - without == 60_000
    assert length - faster == 100_000
    assert shares["host-function"] > 0
