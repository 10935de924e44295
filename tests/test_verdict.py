"""Judgement: what the verdict says where a trace is plain, close, doubtful or silent."""

import pytest

from tests import traces
from tracekit.analysis import Facts, Finding, Gpu, Host, Idle, Launch, Window
from tracekit.verdict import judge

MS = 1_000_000
SPAN = Window("gpu_active", "GPU-active span", 0, 100 * MS, 100 * MS)


def facts(
    compute=0,
    comm=0,
    copies=0,
    device=0,
    in_launch=0,
    unlinked=0,
    kernels=1000,
    classes=None,
    **causes,
):
    """A window of 100 ms; the host is late for what is left, as `causes` (in ms) say."""
    busy = compute + comm + copies
    late = sum(causes.values())
    assert busy + device + unlinked + late == 100
    idle = Idle(
        late * MS,
        device * MS,
        in_launch * MS,
        unlinked * MS,
        0,
        {k: ns * MS for k, ns in causes.items()},
    )
    gpu = Gpu(
        0, kernels, kernels, kernels, busy * MS, compute * MS, comm * MS, copies * MS,
        (100 - busy) * MS,
    )  # fmt: skip
    launch = Launch(kernels, 6000, 9000, 1, 10_000)
    return Facts(SPAN, gpu, idle, launch, None, {k: v * MS for k, v in (classes or {}).items()})


@pytest.mark.parametrize(
    ("cause", "bottleneck"),
    [
        ("launch", "launch"), ("runtime", "launch"), ("dispatch", "dispatch"),
        ("python", "python"), ("untraced", "python"), ("sync", "sync"), ("copy", "copy"),
        ("input", "input"), ("allocation", "allocation"), ("compilation", "compilation"),
    ],
)  # fmt: skip
def test_an_idle_gpu_is_blamed_on_what_the_host_was_about(cause, bottleneck):
    verdict = judge(facts(compute=10, **{cause: 90}), [])
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", bottleneck)
    assert verdict.confidence == "high"
    assert verdict.savings[0].remove == bottleneck
    assert verdict.savings[0].saves_at_most_ns == 90 * MS
    assert verdict.margin == pytest.approx(-0.8)


@pytest.mark.parametrize(
    ("parts", "bottleneck"),
    [
        ({"compute": 60, "comm": 30}, "communication"),
        ({"compute": 60, "copies": 30}, "copy"),
        ({"compute": 90, "classes": {"gemm": 60, "elementwise": 30}}, "math"),
        ({"compute": 90, "classes": {"gemm": 30, "elementwise": 60}}, "memory-bandwidth"),
        ({"compute": 90, "kernels": 45_000}, "latency"),
    ],
)
def test_a_busy_gpu_is_bound_by_what_it_does(parts, bottleneck):
    verdict = judge(facts(**parts, python=10), [])
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", bottleneck)


def test_idle_time_that_could_turn_the_verdict_leaves_it_open():
    assert judge(facts(compute=30, unlinked=50, python=20), []).regime == "unknown"
    assert judge(facts(compute=30, launch_latency=50, python=20), []).regime == "unknown"
    # It could not: even charged to the host, the GPU's work outweighs it.
    assert judge(facts(compute=70, unlinked=25, python=5), []).regime == "compute-bound"


def test_a_close_call_is_said_to_be_one():
    verdict = judge(facts(compute=52, python=48), [])
    assert verdict.confidence != "high"
    assert any("close call" in why for why in verdict.why)


@pytest.mark.parametrize("code", ["truncated", "unlinked_gpu_ops", "starts_before_launch"])
def test_a_doubtful_trace_lowers_the_confidence(code):
    doubt = [Finding(code, "warning", "something", 1)]
    sure, doubted = (judge(facts(compute=10, python=90), found) for found in ([], doubt))
    assert (sure.confidence, doubted.confidence) == ("high", "medium")
    assert len(doubted.why) == len(sure.why) + 1


def test_dilation_by_the_profiler_matters_only_to_overhead():
    slowed = [Finding("profiler_dilation", "warning", "2 times", 1)]
    assert judge(facts(compute=10, python=90), slowed).confidence == "medium"
    assert judge(facts(compute=95, python=5), slowed).confidence == "high"


def test_few_ops_are_an_anecdote():
    assert judge(facts(compute=90, python=10, kernels=3), []).confidence == "low"


def host(compute, dispatch=0, python=0, untraced=0, launches=0):
    return Facts(
        SPAN, None, None, None,
        Host(50, launches, compute * MS, dispatch * MS, 0, python * MS, 0, 0, 0, untraced * MS),
    )  # fmt: skip


def test_a_cpu_only_trace_is_judged_on_its_operators():
    assert judge(host(90, untraced=10), []).regime == "compute-bound"
    overhead = judge(host(20, dispatch=50, python=30), [])
    assert (overhead.regime, overhead.bottleneck) == ("overhead-bound", "dispatch")


def test_a_trace_that_cannot_tell_gets_no_verdict():
    assert judge(host(0, untraced=100), []).regime == "unknown"
    # Work was launched on a device that was not recorded.
    assert judge(host(90, untraced=10, launches=5), []).regime == "unknown"
    assert judge(Facts(SPAN, None, None, None, None), []).regime == "unknown"


def test_steps_of_one_trace_may_differ_and_the_verdict_says_so(tmp_path):
    busy = [
        traces.slice_event("user_annotation", "ProfilerStep#1", 0, 1000),
        *(traces.launch(i, 0.5, i) for i in range(1, 11)),
        *(traces.gpu_op(i * 99, 99, i) for i in range(1, 11)),
    ]
    slow = [
        traces.slice_event("user_annotation", "ProfilerStep#2", 1100, 900),
        *(traces.launch(1100 + i * 50, 1, 20 + i) for i in range(1, 11)),
        *(traces.gpu_op(1105 + i * 50, 1, 20 + i) for i in range(1, 11)),
    ]
    with traces.load(tmp_path, busy + slow) as database:
        analysis = database.verdict()
    assert [step.regime for step in analysis.steps] == ["compute-bound", "overhead-bound"]
    assert any("1 overhead-bound" in why for why in analysis.verdict.why)


@pytest.mark.parametrize("lead_us", [3, 3.5, 4, 4.5, 5])
def test_a_host_that_launches_back_to_back_into_an_idle_gpu_is_the_limit(lead_us, tmp_path):
    # Each call takes 4 of 6 us, each kernel 2 us. Whether the call began before or after the gap
    # did is a matter of half a microsecond.
    events = []
    for place in range(300):
        events.append(traces.launch(6 * place, 4, place + 1))
        events.append(traces.gpu_op(6 * place + lead_us, 2, place + 1))
    with traces.load(tmp_path, events) as database:
        verdict = database.verdict().verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "launch")


def test_work_that_was_queued_before_the_gap_is_the_devices_matter(tmp_path):
    events = [traces.launch(place, 0.5, place + 1) for place in range(100)]
    events += [traces.gpu_op(200 + 10 * place, 8, place + 1) for place in range(100)]
    with traces.load(tmp_path, events) as database:
        analysis = database.verdict()
    assert analysis.verdict.regime == "compute-bound"
    assert analysis.idle.device_in_launch_ns == 0
    assert analysis.idle.device_ns == 99 * 2000
