"""XLA profiles: copies of TPUs between the memories of host and device, and the threads of
TensorFlow's executor and input pipeline."""

import json

import pytest

import tracekit
from tests.kit.xplane_made import plane, profile

# What a TPU does, and the copy that it is.
HLO = {
    "%copy-start.1 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(%p.1)": "DtoH",
    "%copy-done.1 = f32[8]{0:S(5)} copy-done(%copy-start.1)": "DtoH",
    # The end does not tell from where it copied: the start does.
    "%copy-done.2 = f32[8]{0:T(128)} copy-done(%copy-start.2)": "HtoD",
    "%copy-start.2 = (f32[8]{0:T(128)}, f32[8]{0:T(128)S(5)}, u32[]{:S(2)}) copy-start(%q)": "HtoD",
    # Its start was not recorded, but some versions print the operand's layouts.
    "%copy-done.3 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0:S(5)}, u32[]) %copy-start.3)": "HtoD",
    "%copy.5 = f32[8]{0:S(5)} copy(f32[8]{0} %x)": "DtoH",
    # Within the device's memory, or the host's.
    "%copy-done.4 = f32[8]{0:T(128)S(1)} copy-done(%copy-start.4)": None,
    "%copy-start.4 = (f32[8]{0:T(128)S(1)}, f32[8]{0:T(128)}, u32[]) copy-start(%r)": None,
    "%copy.6 = f32[8]{0:S(5)} copy(f32[8]{0:S(5)} %y)": None,
    "%copy-done.7 = f32[8]{0} copy-done(%copy-start.7)": None,
    # No copies, though one is an operand.
    "%fusion.8 = f32[8]{0} fusion(f32[8]{0:S(5)} %copy-done.9), kind=kLoop": None,
    "%custom-call.9 = (f32[8]{0:S(5)}, f32[8]{0}) custom-call(%copy(%z))": None,
}  # fmt: skip
NAMES = {each: each[1:].partition(" ")[0] for each in HLO}
EXPECTED = sorted(
    ("memcpy", f"Memcpy {way} ({NAMES[each]})", way) if way else ("kernel", NAMES[each], None)
    for each, way in HLO.items()
)
OPS = [(each, 1_000 * at, 500) for at, each in enumerate(HLO)]
TPU = profile(plane("/device:TPU:0", {"XLA Ops": OPS, "Async XLA Ops": OPS[:1]}))
ASKED = "SELECT kind, name, copy_kind FROM gpu_ops ORDER BY ALL"


def test_copies_between_host_and_device_have_their_direction(tmp_path):
    (tmp_path / "t.xplane.pb").write_bytes(TPU)
    with tracekit.load(tmp_path / "t.xplane.pb", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == EXPECTED
        (window,) = run.ask("partition", kind="gpu_active")
        kinds = run.fetch("SELECT kind, name FROM slices WHERE kind = 'gpu_annotation'")[1]
        (full,) = run.fetch(
            "SELECT args->>'full name' FROM event WHERE name = 'Memcpy HtoD (copy-done.2)'"
        )[1]
    assert window["exposed_memcpy_ns"] == 6 * 500 and window["compute_ns"] == 6 * 500
    # The line of asynchronous operations repeats what the copies' start and end show.
    assert kinds == [("gpu_annotation", "copy-start.1")]
    assert full == ("%copy-done.2 = f32[8]{0:T(128)} copy-done(%copy-start.2)",)


def test_a_chrome_trace_of_the_same_run_has_the_same_copies(tmp_path):
    lanes = [
        {"ph": "M", "name": kind, "pid": 1, "tid": 1, "args": {"name": name}}
        for kind, name in (("process_name", "/device:TPU:0"), ("thread_name", "XLA Ops"))
    ]
    # Events are in the order of their times: a copy's start is before its end.
    texts = sorted(HLO, key=lambda text: "copy-start(" not in text)
    ops = [
        {"ph": "X", "name": NAMES[each], "pid": 1, "tid": 1, "ts": at, "dur": 0.5,
         "args": {"long_name": each}}
        for at, each in enumerate(texts)
    ]  # fmt: skip
    (tmp_path / "t.trace.json").write_text(json.dumps({"traceEvents": [*lanes, *ops]}))
    with tracekit.load(tmp_path / "t.trace.json", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == EXPECTED


@pytest.mark.parametrize("text", ["%a = (" + "f32[8]{0}, " * 20_000, "%a = " + "x " * 100_000])
def test_long_texts_that_are_no_copies_take_no_time(text, tmp_path):
    (tmp_path / "t.trace.json").write_text(
        json.dumps(
            [
                {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}},
                {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "XLA Ops"}},
                {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 1,
                 "args": {"long_name": text}},
            ]
        )
    )  # fmt: skip
    with tracekit.load(tmp_path / "t.trace.json", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == [("kernel", "a", None)]


# -- TensorFlow ------------------------------------------------------------------------------------

_US = 1_000
HOST = {
    "python": [
        ("train", 0, 100 * _US, {"step_num": 3}),
        ("EagerLocalExecute: PartitionedCall", 1 * _US, 20 * _US),
        ("$train.py:12 step", 500, 90 * _US),
        ("IteratorGetNext:IteratorGetNext", 30 * _US, 40 * _US),
        ("stage:Forward", 80 * _US, 5 * _US),
    ],
    "tf_Compute/7": [
        ("ExecutorState::Process", 2 * _US, 15 * _US, {"id": 1}),
        ("model/dense/MatMul:MatMul", 3 * _US, 6 * _US),
        ("cuLaunchKernel", 4 * _US, 2 * _US, {"correlation_id": 5}),
        ("model/Relu:Relu#id=1,shape=(float[4,8])#", 10 * _US, 4 * _US),
    ],
    "tf_data_private_threadpool/9": [
        ("Iterator::Root::Prefetch::Map", 5 * _US, 60 * _US),
        ("Iterator::Root::Prefetch::Map::TFRecord", 6 * _US, 20 * _US),
    ],
}
GPU = {"Stream #13(Compute)": [("gemm", 20 * _US, 50 * _US, {"correlation_id": 5})]}
TENSORFLOW = profile(plane("/host:CPU", HOST, 2), plane("/device:GPU:0", GPU))


def host_slices(run):
    return run.fetch("SELECT kind, name, tid FROM slices WHERE device_id IS NULL ORDER BY ALL")[1]


def test_tensorflow_s_operators_and_input_pipeline_are_operators_of_the_host(tmp_path):
    (tmp_path / "t.xplane.pb").write_bytes(TENSORFLOW)
    with tracekit.load(tmp_path / "t.xplane.pb", verdicts=False) as run:
        assert host_slices(run) == [
            ("annotation", "ProfilerStep#3", 1),
            ("cpu_op", "EagerLocalExecute: PartitionedCall", 1),
            ("cpu_op", "ExecutorState::Process", 2), ("cpu_op", "Forward", 1),
            ("cpu_op", "Iterator::Map", 3), ("cpu_op", "Iterator::TFRecord", 3),
            ("cpu_op", "IteratorGetNext", 1), ("cpu_op", "MatMul", 2), ("cpu_op", "Relu", 2),
            ("driver", "cuLaunchKernel", 2), ("python", "train.py(12): step", 1),
        ]  # fmt: skip
        origins = run.fetch("SELECT name, launch_name, cpu_op FROM gpu_op_origin")[1]
        assert origins == [("gemm", "cuLaunchKernel", "MatMul")]
        inputs = run.fetch("SELECT name FROM slice_label WHERE activity = 'input' ORDER BY 1")[1]
        assert inputs == [("Iterator::Map",), ("Iterator::TFRecord",), ("IteratorGetNext",)]
        full = "SELECT args->>'full name' FROM event WHERE name = 'MatMul'"
        assert run.fetch(full)[1] == [("model/dense/MatMul:MatMul",)]


def test_without_tensorflow_s_runtime_only_its_input_pipeline_is_known(tmp_path):
    """JAX's programs may read tf.data, and may call a range anything."""
    plain = {
        name: [each for each in events if not each[0].startswith(("Eager", "Executor"))]
        for name, events in HOST.items()
    }
    (tmp_path / "t.xplane.pb").write_bytes(profile(plane("/host:CPU", plain, 2)))
    with tracekit.load(tmp_path / "t.xplane.pb", verdicts=False) as run:
        operators = [name for kind, name, _ in host_slices(run) if kind == "cpu_op"]
        assert operators == ["Iterator::Map", "Iterator::TFRecord"]
        assert run.fetch("SELECT profiler FROM trace")[1] == [("jax",)]


def test_a_chrome_trace_of_tensorflow_has_the_same_operators(tmp_path):
    """Its runtime may be seen after the first operators."""
    lanes = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/host:CPU"}}]
    names = [("MatMul", "a/MatMul:MatMul"), ("Iterator::Map", "Iterator::Root::Map"),
             ("ExecutorState::Process", None)]  # fmt: skip
    events = [
        {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 10 * at, "dur": 1,
         "args": {"long_name": full} if full else {}}
        for at, (name, full) in enumerate(names)
    ]  # fmt: skip
    (tmp_path / "t.trace.json").write_text(json.dumps({"traceEvents": [*lanes, *events]}))
    with tracekit.load(tmp_path / "t.trace.json", verdicts=False) as run:
        assert host_slices(run) == [
            ("cpu_op", "ExecutorState::Process", 1), ("cpu_op", "Iterator::Map", 1),
            ("cpu_op", "MatMul", 1),
        ]  # fmt: skip


def test_an_input_pipeline_that_the_step_waits_for_is_the_bottleneck(tmp_path):
    """Ten steps of 10 ms, of which the main thread waits 8 for tf.data."""
    ms = 1_000_000
    steps = range(10)
    main = [("train", 10 * n * ms, 10 * ms - 1, {"step_num": n}) for n in steps]
    main += [("IteratorGetNext:IteratorGetNext", 10 * n * ms + 1, 8 * ms) for n in steps]
    main += [("EagerLocalExecute: MatMul", (10 * n + 8) * ms + 2, ms) for n in steps]
    main += [("cuLaunchKernel", (10 * n + 8) * ms + 9, 9_000, {"correlation_id": n}) for n in steps]
    pipeline = [("Iterator::Root::Map", 10 * n * ms + 2, 8 * ms - 9) for n in steps]
    kernels = [("gemm", (10 * n + 8) * ms + 20_000, ms, {"correlation_id": n}) for n in steps]
    space = profile(
        plane("/host:CPU", {"python": main, "tf_data": pipeline}, 2),
        plane("/device:GPU:0", {"Stream #13(Compute)": kernels}),
    )
    (tmp_path / "t.xplane.pb").write_bytes(space)
    with tracekit.load(tmp_path / "t.xplane.pb") as run:
        verdict = run.verdict().verdict
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", "input")
