"""The launching thread's activity while the GPU waited: one small trace for each cause."""

import pytest

from tests.kit import traces


def causes_of(folder, host_events) -> dict[str, int]:
    """Causes of the one gap, from 10 to 100 us, that the launch at 90 us ends."""
    events = [
        traces.launch(0, 5, 1),
        traces.gpu_op(5, 5, 1),
        *host_events,
        traces.launch(90, 4, 2),
        traces.gpu_op(100, 5, 2),
    ]
    with traces.load(folder, events) as database:
        return database.verdict().idle.causes


LAUNCH = {"launch": 4_000, "launch_latency": 6_000}


CAUSES = [
    ("cpu_op", "aten::add", "dispatch"),
    ("python_function", "train.py(10): step", "python"),
    ("user_annotation", "forward", "untraced"),
    ("cuda_runtime", "cudaStreamSynchronize", "sync"),
    ("cuda_runtime", "hipDeviceSynchronize", "sync"),
    ("cuda_runtime", "cudaMemcpy", "copy"),
    ("cuda_runtime", "cudaMalloc", "allocation"),
    ("cuda_driver", "cuMemCreate", "allocation"),
    ("cuda_driver", "cuModuleLoadData", "compilation"),
    ("cuda_runtime", "cudaEventRecord", "runtime"),
    ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input"),
    ("user_annotation", "## data_load ##", "input"),
    ("python_function", "torch/_inductor/compile_fx.py(600): compile_fx", "compilation"),
    ("python_function", "triton/compiler/compiler.py(220): compile", "compilation"),
    # Code that runs at each call of compiled code does not compile.
    ("python_function", "torch/_inductor/codecache.py(874): __call__", "python"),
    ("python_function", "triton/compiler/compiler.py(400): launch_metadata", "python"),
    ("user_annotation", "## Call CompiledFxGraph abc ##", "dispatch"),
]


def test_a_slice_gives_its_time_to_its_cause(tmp_path):
    # In each step, a gap from 10 to 100 us.
    events = []
    for i, (category, name, _) in enumerate(CAUSES):
        at, number = 1000 * i, 2 * i + 1
        events += [traces.step(i, at + 5, 100), *traces.launched([], at, at + 5, 5, number)]
        events.append(traces.slice_event(category, name, at + 20, 50))
        events += [traces.launch(at + 90, 4, number + 1), traces.gpu_op(at + 100, 5, number + 1)]
    with traces.load(tmp_path, events) as database:
        rows = database.ask("idle_causes", kind="step")
    for i, (_, name, cause) in enumerate(CAUSES):
        found = {r["cause"]: r["idle_ns"] for r in rows if r["name"] == f"ProfilerStep#{i}"}
        expected = {"untraced": 30_000, **LAUNCH}
        expected[cause] = expected.get(cause, 0) + 50_000
        assert found == expected, name


def test_data_loading_counts_what_runs_inside_it(tmp_path):
    found = causes_of(
        tmp_path,
        [
            traces.slice_event("user_annotation", "enumerate(DataLoader)#next", 10, 80),
            traces.slice_event("cpu_op", "aten::stack", 20, 40),
        ],
    )
    assert found == {"input": 80_000, **LAUNCH}


def test_inner_slices_take_their_time_from_outer_ones(tmp_path):
    found = causes_of(
        tmp_path,
        [
            traces.slice_event("cpu_op", "aten::item", 10, 80),
            traces.launch(30, 20, 9, name="cudaStreamSynchronize"),
        ],
    )
    assert found == {"dispatch": 60_000, "sync": 20_000, **LAUNCH}


def test_a_copy_that_its_call_awaits_is_a_blocking_copy(tmp_path):
    found = causes_of(
        tmp_path,
        [
            traces.launch(20, 30, 5, name="cudaMemcpyAsync"),
            traces.gpu_op(40, 5, 5, category="gpu_memcpy", name="Memcpy DtoH"),
        ],
    )
    # The call is in the gap from 10 to 40 us from 20 us on, and for 5 us in the gap from 45 us.
    assert found == {"untraced": 50_000, "launch": 4_000, "copy": 25_000, "launch_latency": 6_000}


def test_another_threads_work_is_not_charged(tmp_path):
    other = traces.slice_event("cpu_op", "aten::mm", 20, 50) | {"tid": 777}
    assert causes_of(tmp_path, [other]) == {"untraced": 80_000, **LAUNCH}


def test_devices_are_kept_apart(tmp_path):
    events = [
        traces.launch(0, 1, 1),
        traces.gpu_op(1, 10, 1, device=0),
        traces.launch(2, 1, 2),
        traces.gpu_op(3, 30, 2, device=1),
    ]
    with traces.load(tmp_path, events) as database:
        analysis = database.verdict()
    assert [(gpu.device_id, gpu.busy_ns) for gpu in analysis.devices] == [(1, 30_000), (0, 10_000)]
    assert analysis.gpu.device_id == 1


def test_correlations_are_joined_within_a_trace(tmp_path):
    import tracekit

    first = traces.write(tmp_path / "a.json", [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)])
    second = traces.write(tmp_path / "b.json", [traces.gpu_op(5, 5, 1)])
    with tracekit.load([first, second]) as database:
        linked = [row["linked"] for row in database.traces()]
    assert linked == [1, 0]


def test_a_slice_that_outlasts_its_outer_one_gives_nothing_to_what_has_ended(tmp_path):
    events = []
    for place in range(1, 6):
        at = 1000 * place
        events.append(traces.slice_event("cpu_op", "aten::mm", at, 20))
        events.append(traces.launch(at + 10, 11, place))
        events.append(traces.gpu_op(at + 25, 30, place))
    with traces.load(tmp_path, events) as database:
        _, rows = database.fetch("SELECT max(self_ns) FROM host_slice")
        causes = database.verdict().idle.causes
    assert rows[0][0] <= 11_000
    assert causes["dispatch"] == 4 * 10_000
    assert causes["untraced"] > 4 * 900_000


def test_a_correlation_of_two_processes_links_nothing(tmp_path):
    events = [traces.launch(0, 1, 1), traces.launch(0, 1, 1) | {"pid": 200}, traces.gpu_op(5, 5, 1)]
    with traces.load(tmp_path, events) as database:
        assert database.verdict().gpu.linked == 0
        assert "ambiguous_correlation" in [row["code"] for row in database.ask("health")]


def test_a_zero_that_many_calls_carry_is_no_correlation(tmp_path):
    events = [
        traces.launch(0, 1, 0, name="cudaGetDevice"),
        traces.launch(2, 1, 0),
        traces.gpu_op(5, 5, 0),
    ]
    with traces.load(tmp_path, events) as database:
        assert database.verdict().gpu.linked == 0


def test_a_step_on_two_threads_is_one_window_and_borders_count_once(tmp_path):
    step = traces.slice_event("user_annotation", "ProfilerStep#1", 0, 100)
    events = [
        step,
        step | {"tid": 9},
        traces.slice_event("user_annotation", "ProfilerStep#2", 100, 100),
        *(traces.gpu_op(at, 10) for at in (0, 50, 100, 150)),
    ]
    with traces.load(tmp_path, events) as database:
        steps = database.verdict().steps
    assert [(s.window.span_ns, s.gpu.busy_ns + s.gpu.idle_ns, s.gpu.kernels) for s in steps] == [
        (100_000, 100_000, 2),
        (100_000, 100_000, 2),
    ]


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize(
    ("name", "dur_us", "launches", "cause"),
    [
        ("aten::normal_", 4000, [], "input"),
        ("aten::randperm", 4000, [], "input"),
        ("aten::sort", 4000, [], "input"),
        # It waits for its launch, or describes memory, or takes no longer than dispatch may.
        (
            "aten::normal_",
            4000,
            [traces.launch(3900, 50, 3), traces.gpu_op(3960, 1, 3)],
            "dispatch",
        ),
        ("aten::view", 4000, [], "dispatch"),
        ("aten::normal_", 400, [], "dispatch"),
    ],
)
def test_what_operators_compute_on_the_host_is_input(tmp_path, name, dur_us, launches, cause):
    events = [
        traces.launch(0, 5, 1),
        traces.gpu_op(5, 5, 1),
        traces.operator(name, 20, dur_us),
        *launches,
        traces.launch(5000, 4, 2),
        traces.gpu_op(5010, 5, 2),
    ]
    with traces.load(tmp_path, events) as database:
        causes = database.verdict().idle.causes
    assert causes[cause] >= (dur_us - 200) * 1000
    assert {"input", "dispatch"} & set(causes) == {cause}


def test_the_shared_alexnet_draws_its_weights_on_the_host(shared_database):
    query = """
        SELECT activity, sum(s.end_ns - s.start_ns)::BIGINT FROM host_segment AS s
        JOIN cpu_ops USING (trace_id, event_id) WHERE name = 'aten::uniform_' AND dur_ns > 1e6
        GROUP BY ALL
    """
    ((activity, ns),) = shared_database("a100-alexnet.json.gz").fetch(query)[1]
    assert activity == "input"
    assert ns > 400_000_000
