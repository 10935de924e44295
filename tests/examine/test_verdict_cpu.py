"""Bounds of a run without GPU ops: other ranks, memory, math, or a GPU that was not recorded."""

import pytest
from msgspec.structs import asdict

import tracekit
from tests.kit.lakes import add
from tests.kit.traces import Together, frame, operator, slice_event, step, write
from tracekit.compare.diff import fails
from tracekit.lake.comparing import history
from tracekit.run import open_lake

TRACES = Together()
FLOAT = ["float", "float"]
GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42_000_000_000}]}


@pytest.fixture(scope="module")
def judged(analyses):
    return lambda trace: (analyses[trace].verdict, analyses[trace].host)


def products():
    """Products of 1000 x 1000 matrices on the host, back to back."""
    shape = [[1000, 1000], [1000, 1000]]
    return [operator("aten::mm", i * 1000.0, 900.0, shape, FLOAT) for i in range(20)]


MEMORY = {
    "ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5,
    "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 1},
}  # fmt: skip
# Signs of a job with a GPU that was not recorded, with metadata of the trace; the machine of a job
# without one may have a GPU, too.
SIGNS = [
    (slice_event("user_annotation", "nccl:all_reduce", 20_000, 5), {}),
    (operator("aten::cudnn_convolution", 20_000, 5), {}),
    (operator("triton_poi_fused_add_0", 20_000, 5), {}),
    (operator("aten::add", 20_000, 5), GPU | {"distributedInfo": {"backend": "nccl"}}),
    (MEMORY, {}),
]
MACHINES = [
    GPU,
    GPU | {"distributedInfo": {"backend": "gloo"}},
    GPU | {"distributedInfo": {"backend": "cpu:gloo,cuda:nccl"}},
    {"distributedInfo": {"backend": "nccl"}},
]
WORK = [step(1, 0, 10_000), *(operator("aten::mm", i * 50.0, 40) for i in range(20))]
GLOO = slice_event("user_annotation", "gloo:all_reduce", 1000, 8600)
REMOTE = "forward(worker0 -> worker1)"
WAITS = {
    "a collective": [GLOO],
    "an operator": [operator("c10d::allreduce_", 1000, 8600)],
    "MPI": [slice_event("user_annotation", "mpi:all_reduce", 1000, 8600)],
    "a remote call": [slice_event("user_annotation", f"rpc_async#{REMOTE}", 1000, 8600)],
    "a remote call's operator": [operator(f"rpc_sync#{REMOTE}", 1000, 8600)],
    "frames": [
        frame("torch/distributed/distributed_c10d.py(2501): all_reduce", 1000, 8600),
        frame("<built-in method wait of PyCapsule object at 0x7f>", 1100, 8400),
    ],
    # While the thread with the operators has nothing open.
    "a thread of its own": [GLOO | {"tid": 7}],
}
# Traces, and what the verdict or the host's numbers are.
NUMBERS = {
    **{
        f"a job with a GPU is not a CPU run: {number}": (
            [*products(), sign], {"regime": "unknown", "bottleneck": None}, metadata,
        )
        for number, (sign, metadata) in enumerate(SIGNS)
    },
    **{
        f"a GPU in the machine does not make a job with a GPU: {number}": (
            products(), {"regime": "compute-bound", "bottleneck": "math", "confidence": "high"},
            metadata,
        )
        for number, metadata in enumerate(MACHINES)
    },
    **{
        f"a wait for other ranks is communication: {title}": (
            [*WORK, *wait],
            {"regime": "compute-bound", "bottleneck": "communication",
             "communication_ns": 8_600_000},
        )
        for title, wait in WAITS.items()
    },
    "operators inside a call of another worker do not count as a wait": (
        [
            step(1, 0, 10_000),
            slice_event("user_annotation", "rpc_remote#forward(worker0 -> worker0)", 0, 10_000),
            *(operator("aten::mm", i * 400.0, 400) for i in range(20)),
        ],
        {"compute_ns": 8_000_000, "communication_ns": 2_000_000},
    ),
    "a backward pass or other work on another thread during a collective is not a wait": (
        [
            step(1, 0, 10_000),
            *(operator("aten::mm", i * 40.0, 40) for i in range(200)),
            *(operator("aten::mm", i * 400.0, 400) | {"tid": 5} for i in range(15)),
            slice_event("user_annotation", "gloo:all_reduce", 0, 9000) | {"tid": 7},
        ],
        {"compute_ns": 8_000_000, "communication_ns": 1_000_000, "untraced_ns": 1_000_000},
    ),
    "shapes tell memory: 120 MB in each addition": (
        [
            operator("aten::add", i * 10_000.0, 9000, [[10_000_000], [10_000_000]], FLOAT)
            for i in range(20)
        ],
        {"bottleneck": "memory-bandwidth", "confidence": "high", "memory_ns": 180_000_000,
         "compute_ns": 180_000_000, "math_ns": 0},
    ),
    "shapes tell math": (
        products(),
        {"bottleneck": "math", "confidence": "high", "math_ns": 18_000_000,
         "compute_ns": 18_000_000, "memory_ns": 0},
    ),
    "without shapes the limit is doubtful": (
        [operator("aten::mm", i * 1000.0, 900) for i in range(20)],
        {"bottleneck": "math", "confidence": "medium"},
    ),
    "little work in much time is limited by neither": (
        [operator("aten::add", i * 100.0, 99, [[4_000], [4_000]], FLOAT) for i in range(20)],
        {"compute_ns": 1_980_000, "memory_ns": 0, "math_ns": 0},
    ),
    "operators of few numbers are dispatch, however long they take": (
        [operator("aten::add", i * 10.0, 9, [[4], [4]], FLOAT) for i in range(20)],
        {"compute_ns": 0, "dispatch_ns": 180_000},
    ),
    "quick operators of unknown work are dispatch": (
        [operator("aten::add", i * 10.0, 2 + 2 * (i % 2)) for i in range(20)],
        {"compute_ns": 40_000, "dispatch_ns": 20_000},
    ),
    "an operator that sets up a device is not a view": (
        [
            operator("aten::empty_strided", 0, 3_800_000),
            *(operator("aten::view", 3_800_000 + i * 2.0, 1) for i in range(20)),
        ],
        {"bottleneck": "allocation", "allocation_ns": 3_800_000_000, "view_ns": 20_000},
    ),
}  # fmt: skip
NUMBERED = {
    TRACES.events(events, **dict(*metadata)): expected
    for events, expected, *metadata in NUMBERS.values()
}


@pytest.mark.parametrize("trace", NUMBERED, ids=list(NUMBERS))
def test_time_of_a_run_without_a_gpu_is_divided_by_cause(trace, judged):
    verdict, host = judged(trace)
    known, expected = asdict(verdict) | asdict(host), NUMBERED[trace]
    assert {key: known[key] for key in expected} == expected
    if "confidence" in expected:
        is_doubtful = any("record_shapes=True" in why for why in verdict.why)
        assert is_doubtful == (verdict.confidence == "medium")
    if verdict.regime == "unknown":
        assert any("ProfilerActivity.CUDA" in advice for advice in verdict.try_next)


REDUCED = TRACES.events([*WORK, GLOO])


@pytest.mark.parametrize(("change", "left_us"), [("host*0.5", 9300), ("communication*0", 1400)])
def test_waits_for_other_ranks_take_as_long_at_any_speed_of_the_host(change, left_us, loaded):
    found = loaded.whatif(change, trace=REDUCED)
    assert (found.window_ns, found.predicted_ns) == (10_000_000, left_us * 1000)


@TRACES.of(
    step(1, 0, 40_000), *products(),
    slice_event("user_annotation", "rpc_async#f(worker0 -> worker1)", 20_000, 20_000),
)  # fmt: skip
def test_the_replay_attributes_time_as_the_verdict_does(trace, judged, loaded):
    shares = loaded.whatif("host*1", trace=trace).bound_by
    told = judged(trace)[0].shares
    assert shares == pytest.approx({"math": 0.45, "communication": 0.5, "python": 0.05})
    assert (told["compute"], told["communication"], told["untraced"]) == (0.45, 0.5, 0.05)


# -- beside each other -----------------------------------------------------------------------------


def waiting_run(folder, name, wait_us, began_ns=0):
    """Two steps: a product, then a wait for the other ranks."""
    (folder / name).mkdir(parents=True)
    events = []
    for number in range(2):
        at = number * (1000 + wait_us)
        events += [
            step(number, at, 1000 + wait_us),
            operator("aten::mm", at, 900, [[1000, 1000], [1000, 1000]], FLOAT),
            operator("c10d::allreduce_", at + 1000, wait_us),
        ]
    return write(folder / name / "rank0.json", events, baseTimeNanoseconds=began_ns)


@pytest.mark.thorough
def test_cpu_runs_are_compared_by_what_their_threads_do(tmp_path, run):
    paths = [waiting_run(tmp_path, name, us) for name, us in (("a", 500), ("b", 2500))]
    with tracekit.load(paths) as database:
        found = database.diff()
        assert not fails(database, "b.operators > a.operators")
        lanes = {row["name"]: row["activity"] for row in database.ask("timeline_lanes", trace=1)}
    parts = {row["part"]: row["change_ns"] for row in found.waterfall[1:-1]}
    assert parts == {"compute": 0, "communication": 2_000_000, "untraced": 0}
    assert (found.span, found.doubts) == ({"a": 1_500_000, "b": 3_500_000}, [])
    assert {row["metric"] for row in found.summary}.isdisjoint({"busy_ns", "active_ns"})
    # A time line paints a wait for others as such.
    assert lanes["c10d::allreduce_"] == "communication"
    first, *lines = run("diff", *map(str, paths), COLUMNS="100").stdout.splitlines()
    assert first.startswith("b takes 2.33 times as long as a: 1.5 ms in a, 3.5 ms in b; most of")
    assert first.endswith("communication: +2 ms")
    assert not any("gpu" in line.lower() for line in lines)


@pytest.mark.thorough
def test_a_lake_of_cpu_runs_has_a_history(tmp_path):
    for number, us in enumerate((500, 500, 2500)):
        waiting_run(tmp_path / "in", f"night{number}", us, 1_700_000_000 * 10**9 + number)
    add(tmp_path / "lake", tmp_path / "in")
    with open_lake(str(tmp_path / "lake")) as lake:
        found = history(lake)
    (change,) = found.changes
    assert (change.run, change.before_ns, change.after_ns) == ("night2", 1_500_000, 3_500_000)
    assert found.runs[0].figures["busy_ns"] is None
    assert found.diff.waterfall
