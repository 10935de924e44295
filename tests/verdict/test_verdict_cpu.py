"""Bounds of a run without GPU ops: other ranks, memory, math, or a GPU that was not recorded."""

import pytest

import tracekit
from tests.kit.traces import frame, load, operator, slice_event, step, write

FLOAT = ["float", "float"]
GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42_000_000_000}]}


def judged(folder, events, **metadata):
    with load(folder, events, **metadata) as database:
        analysis = database.verdict()
    return analysis.verdict, analysis.host


def products(count=20, dur_us=900.0, **more):
    """Products of 1000 x 1000 matrices on the host, back to back."""
    shape = [[1000, 1000], [1000, 1000]]
    return [operator("aten::mm", i * 1000.0, dur_us, shape, FLOAT, **more) for i in range(count)]


# -- a GPU that was not recorded -------------------------------------------------------------------


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize(
    ("sign", "metadata"),
    [
        (slice_event("user_annotation", "nccl:all_reduce", 20_000, 5), {}),
        (operator("aten::cudnn_convolution", 20_000, 5), {}),
        (operator("triton_poi_fused_add_0", 20_000, 5), {}),
        (operator("aten::add", 20_000, 5), GPU | {"distributedInfo": {"backend": "nccl"}}),
        (
            {
                "ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5,
                "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 1},
            },
            {},
        ),
    ],
)  # fmt: skip
def test_a_job_with_a_gpu_is_no_cpu_run(tmp_path, sign, metadata):
    verdict, _ = judged(tmp_path, [*products(), sign], **metadata)
    assert (verdict.regime, verdict.bottleneck) == ("unknown", None)
    assert any("ProfilerActivity.CUDA" in advice for advice in verdict.try_next)


def test_a_file_that_is_cut_off_is_to_be_made_whole_before_anything_else(tmp_path):
    sign = operator("aten::cudnn_convolution", 20_000, 5)
    path = write(tmp_path / "whole.json", [*products(), sign])
    (tmp_path / "cut.json").write_text(path.read_text()[:-30])
    with tracekit.load(tmp_path / "cut.json") as run:
        advice = run.verdict().verdict.try_next
    assert "its end is missing" in advice[0]


@pytest.mark.sampled(2, of=4)
@pytest.mark.parametrize(
    "metadata",
    [
        GPU,
        GPU | {"distributedInfo": {"backend": "gloo"}},
        GPU | {"distributedInfo": {"backend": "cpu:gloo,cuda:nccl"}},
        {"distributedInfo": {"backend": "nccl"}},
    ],
)
def test_a_gpu_in_the_machine_does_not_make_a_job_with_a_gpu(tmp_path, metadata):
    verdict, _ = judged(tmp_path, products(), **metadata)
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "math")
    assert verdict.confidence == "high"


def test_the_shared_trace_without_gpu_events_is_of_a_gpu_job(shared_verdict):
    verdict = shared_verdict("a100-nccl-no-gpu-events.json.gz").verdict
    assert (verdict.regime, verdict.confidence) == ("unknown", "none")
    assert any("backend nccl" in why and "nccl:all_to_all" in why for why in verdict.why)
    assert any("ProfilerActivity.CUDA" in advice for advice in verdict.try_next)


# -- other ranks -----------------------------------------------------------------------------------


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize(
    "wait",
    [
        [slice_event("user_annotation", "gloo:all_reduce", 1000, 8600)],
        [operator("c10d::allreduce_", 1000, 8600)],
        [slice_event("user_annotation", "mpi:all_reduce", 1000, 8600)],
        [slice_event("user_annotation", "rpc_async#forward(worker0 -> worker1)", 1000, 8600)],
        [operator("rpc_sync#forward(worker0 -> worker1)", 1000, 8600)],
        [
            frame("torch/distributed/distributed_c10d.py(2501): all_reduce", 1000, 8600),
            frame("<built-in method wait of PyCapsule object at 0x7f>", 1100, 8400),
        ],
        # On a separate thread, while the thread with the operators has nothing open.
        [slice_event("user_annotation", "gloo:all_reduce", 1000, 8600) | {"tid": 7}],
    ],
)
def test_a_cpu_job_that_waits_for_other_ranks_is_bound_by_communication(tmp_path, wait):
    work = [operator("aten::mm", i * 50.0, 40) for i in range(20)]
    events = [step(1, 0, 10_000), *work, *wait]
    verdict, host = judged(tmp_path, events)
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "communication")
    assert host.communication_ns == 8_600_000
    assert verdict.savings[0].remove == "communication"


@pytest.mark.parametrize(("change", "left_us"), [("host*0.5", 9300), ("communication*0", 1400)])
def test_waits_for_other_ranks_take_as_long_at_any_speed_of_the_host(tmp_path, change, left_us):
    work = [operator("aten::mm", i * 50.0, 40) for i in range(20)]
    wait = slice_event("user_annotation", "gloo:all_reduce", 1000, 8600)
    with load(tmp_path, [step(1, 0, 10_000), *work, wait]) as database:
        found = database.whatif(change)
    assert (found.window_ns, found.predicted_ns) == (10_000_000, left_us * 1000)


def test_the_replay_attributes_time_as_the_verdict_does(tmp_path):
    call = slice_event("user_annotation", "rpc_async#f(worker0 -> worker1)", 20_000, 20_000)
    with load(tmp_path, [step(1, 0, 40_000), *products(), call]) as database:
        shares = database.whatif("host*1").bound_by
        told = database.verdict().verdict.shares
    assert shares == pytest.approx({"math": 0.45, "communication": 0.5, "python": 0.05})
    assert (told["compute"], told["communication"], told["untraced"]) == (0.45, 0.5, 0.05)


def test_operators_inside_a_call_of_another_worker_are_no_wait(tmp_path):
    call = slice_event("user_annotation", "rpc_remote#forward(worker0 -> worker0)", 0, 10_000)
    events = [step(1, 0, 10_000), call, *(operator("aten::mm", i * 400.0, 400) for i in range(20))]
    _, host = judged(tmp_path, events)
    assert (host.compute_ns, host.communication_ns) == (8_000_000, 2_000_000)


def test_work_beside_a_collective_is_no_wait(tmp_path):
    # The backward pass runs on another thread, while its gradients are reduced.
    events = [
        step(1, 0, 10_000),
        *(operator("aten::mm", i * 40.0, 40) for i in range(200)),
        *(operator("aten::mm", i * 400.0, 400) | {"tid": 5} for i in range(15)),
        slice_event("user_annotation", "gloo:all_reduce", 0, 9000) | {"tid": 7},
    ]
    _, host = judged(tmp_path, events)
    assert (host.compute_ns, host.communication_ns) == (8_000_000, 1_000_000)
    assert host.compute_ns + host.communication_ns + host.untraced_ns == 10_000_000


def test_the_shared_pipeline_waits_for_other_workers(shared_verdict):
    analysis = shared_verdict("cpu-pippy-rpc.json.gz")
    assert analysis.verdict.bottleneck == "communication"
    assert analysis.verdict.confidence == "medium"
    assert analysis.host.remote_ns == analysis.host.communication_ns
    assert 0.55 < analysis.host.communication_ns / analysis.window.span_ns < 0.57


def test_the_shared_cpu_trace_waits_in_gloo(shared_verdict):
    analysis = shared_verdict("cpu-only.json.gz")
    assert (analysis.verdict.regime, analysis.verdict.bottleneck) == (
        "compute-bound",
        "communication",
    )
    assert analysis.verdict.confidence == "low"  # no operator in the step
    assert 0.85 < analysis.host.communication_ns / analysis.window.span_ns < 0.86


# -- memory and arithmetic -------------------------------------------------------------------------


def additions(dur_us):
    """Additions of 10 million numbers: 120 MB each."""
    shape = [[10_000_000], [10_000_000]]
    return [operator("aten::add", i * 10_000.0, dur_us, shape, FLOAT) for i in range(20)]


def test_shapes_tell_memory_from_math(tmp_path):
    verdict, host = judged(tmp_path, additions(9000))
    assert (verdict.bottleneck, verdict.confidence) == ("memory-bandwidth", "high")
    assert (host.memory_ns, host.math_ns) == (host.compute_ns, 0)
    verdict, host = judged(tmp_path, products())
    assert (verdict.bottleneck, verdict.confidence) == ("math", "high")
    assert (host.memory_ns, host.math_ns) == (0, host.compute_ns)


def test_without_shapes_the_limit_is_doubtful(tmp_path):
    events = [operator("aten::mm", i * 1000.0, 900) for i in range(20)]
    verdict, _ = judged(tmp_path, events)
    assert (verdict.bottleneck, verdict.confidence) == ("math", "medium")
    assert any("record_shapes=True" in why for why in verdict.why)


def test_little_work_in_much_time_is_limited_by_neither(tmp_path):
    events = [operator("aten::add", i * 10.0, 9, [[4], [4]], FLOAT) for i in range(20)]
    _, host = judged(tmp_path, events)
    assert (host.memory_ns, host.math_ns) == (0, 0)
    assert host.compute_ns == 180_000


# -- set-up ----------------------------------------------------------------------------------------


def test_an_operator_that_sets_up_a_device_is_no_view(tmp_path):
    events = [
        operator("aten::empty_strided", 0, 3_800_000),
        *(operator("aten::view", 3_800_000 + i * 2.0, 1) for i in range(20)),
    ]
    verdict, host = judged(tmp_path, events)
    assert host.allocation_ns == 3_800_000_000
    assert host.view_ns == 20_000
    assert verdict.bottleneck == "allocation"
