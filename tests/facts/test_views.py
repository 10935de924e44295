"""The views: old and foreign spellings, odd events, and the findings of `health`."""

import re

from tests.kit import traces


def scalar(database, query: str):
    return database.fetch(query)[1][0][0]


SPELLINGS = {
    "kernels": "kernel Kernel",
    "memcpys": "gpu_memcpy Memcpy",
    "memsets": "gpu_memset Memset",
    "cpu_ops": "cpu_op Operator",
    "runtime_calls": "cuda_runtime Runtime hip_runtime xpu_runtime mtia_runtime "
    "privateuse1_runtime cuda_driver privateuse1_driver",
    "python_frames": "python_function",
    "annotations": "user_annotation gpu_user_annotation",
}


def test_views_accept_every_spelling_of_a_category(tmp_path):
    words = [word for listed in SPELLINGS.values() for word in listed.split()]
    events = [traces.slice_event(word, f"a {word}", 10 * i, 5) for i, word in enumerate(words)]
    with traces.load(tmp_path, events) as database:
        for view, listed in SPELLINGS.items():
            found = {name for (name,) in database.fetch(f"SELECT name FROM {view}")[1]}
            assert found == {f"a {word}" for word in listed.split()}, view


LAUNCHING = """
    cudaLaunchKernel cudaLaunchKernelExC cuLaunchKernel cuLaunchKernelEx cudaLaunchCooperativeKernel
    cudaGraphLaunch hipLaunchKernel hipExtLaunchKernel hipModuleLaunchKernel
    hipExtModuleLaunchKernel hipGraphLaunch cudaMemcpyAsync cudaMemcpy hipMemcpyWithStream
    cudaMemsetAsync urEnqueueKernelLaunch
"""


def test_calls_that_enqueue_work_are_launches_and_others_are_not(tmp_path):
    names = [*LAUNCHING.split(), "cudaEventRecord", "cudaDeviceSynchronize", "cudaMalloc"]
    events = [traces.launch(10 * i, 1, i + 1, name=name) for i, name in enumerate(names)]
    with traces.load(tmp_path, events) as database:
        found = [
            name for (name,) in database.fetch("SELECT name FROM launches ORDER BY event_id")[1]
        ]
    assert found == LAUNCHING.split()


def test_every_result_of_a_classifying_macro_is_in_its_enumeration(tmp_path):
    with traces.load(tmp_path, [traces.slice_event("cpu_op", "thing", 0, 5)]) as database:
        for macro, column_type in (
            ("kernel_class", "gpu_op_class"), ("slice_activity", "host_activity"),
            ("activity_of_call", "host_activity"),
        ):  # fmt: skip
            of_macro = f"FROM duckdb_functions() WHERE function_name = '{macro}'"
            definition = scalar(database, f"SELECT macro_definition {of_macro}")
            known = scalar(database, f"SELECT enum_range(NULL::{column_type})")
            said = set(re.findall(r"(?:THEN|ELSE) \(?'(\w+)'", definition, re.IGNORECASE))
            assert len(said) > 4
            assert said <= set(known)


def test_a_kernel_without_a_name_has_the_class_other(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    with traces.load(tmp_path, [kernel]) as database:
        _, rows = database.fetch("SELECT kind, activity, class, name FROM gpu_ops")
        assert rows == [("kernel", "compute", "other", None)]


def test_absurd_times_are_kept_but_left_out_of_sums(tmp_path):
    events = [
        traces.gpu_op(0, 10),
        traces.gpu_op(5, -3),
        traces.gpu_op(7, 9_000_000_000_000_000),
        traces.gpu_op(8, None),
        traces.gpu_op(1e300, 1),
    ]
    with traces.load(tmp_path, events) as database:
        assert scalar(database, "SELECT count(*) FROM event") == 5
        assert scalar(database, "SELECT min(dur_ns) FROM event") == -3000
        gpu = database.verdict().gpu
        assert (gpu.gpu_ops, gpu.busy_ns) == (1, 10_000)
        codes = {row["code"]: row["count"] for row in database.ask("health")}
    assert codes["negative_duration"] == 1
    assert codes["no_time"] == 3


def test_health_finds_what_makes_numbers_doubtful(tmp_path):
    events = [
        traces.launch(10, 1, 1),
        traces.gpu_op(5, 8, 1),
        traces.gpu_op(6, 2, 99),
        traces.launch(20, 1, 2, name="cudaGraphLaunch"),
        *(
            traces.slice_event("user_annotation", f"ProfilerStep#{i}", 100 * i, 90 if i == 1 else 9)
            for i in range(1, 5)
        ),
    ]
    measured = {"profiled_step_ns": 30, "unprofiled_step_ns": 10}
    with traces.load(tmp_path, events, tracekit=measured) as database:
        found = {row["code"]: row for row in database.ask("health")}
    assert {
        "unlinked_gpu_ops", "graph_without_kernels", "starts_before_launch", "stream_overlap",
        "cold_first_step", "profiler_dilation", "no_stacks",
    } == set(found)  # fmt: skip
    assert "3.0 times" in found["profiler_dilation"]["message"]
    assert "5000 ns" in found["starts_before_launch"]["message"]


def test_metadata_and_devices_are_columns_and_nothing_is_lost(tmp_path):
    whole = {
        "distributedInfo": {"rank": 3, "world_size": 8},
        "record_shapes": 1,
        "with_stack": 0,
        "baseTimeNanoseconds": 1711964646000000000,
        "host_name": "node7",
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85, "numSms": 132,
             "computeMajor": 9, "computeMinor": 0}
        ],
        "odd": {"nested": [1, 2.5, None]},
    }  # fmt: skip
    with traces.load(tmp_path, [traces.gpu_op(0, 1)], **whole) as database:
        _, rows = database.fetch(
            "SELECT rank, world_size, record_shapes, with_stack, profile_memory, base_time_ns,"
            " host, metadata->>'$.odd.nested[1]' FROM trace"
        )
        assert rows == [(3, 8, True, False, None, 1711964646000000000, "node7", "2.5")]
        _, rows = database.fetch(
            "SELECT name, memory_bytes, sm_count, compute_capability FROM device"
        )
        assert rows == [("NVIDIA H100", 85, 132, "9.0")]


def test_memory_events_and_counters_are_rows(tmp_path):
    events = [
        {"ph": "i", "name": "[memory]", "s": "t", "pid": 1, "tid": 1, "ts": 5,
         "args": {"Device Type": 1, "Device Id": 0, "Addr": 2**63, "Bytes": -512,
                  "Total Allocated": 1024, "Total Reserved": 4096}},
        {"ph": "C", "name": "clock", "pid": 0, "ts": 1, "args": {"sm": 1980, "mem": 3.5}},
    ]  # fmt: skip
    with traces.load(tmp_path, events) as database:
        _, memory = database.fetch("SELECT device_type, address, bytes FROM memory_events")
        _, counters = database.fetch("SELECT counter, value FROM counters ORDER BY counter")
    assert memory == [(1, 2**63, -512)]
    assert counters == [("mem", 3.5), ("sm", 1980.0)]


def test_a_slice_without_a_name_is_nested_too(tmp_path):
    outer, inner = (
        traces.slice_event("cpu_op", "", at, length) for at, length in ((0, 10), (2, 3))
    )
    del outer["name"], inner["name"]
    with traces.load(tmp_path, [outer, inner]) as database:
        found = database.fetch(
            "SELECT event_id, depth, parent_id, self_ns FROM host_slice ORDER BY 1"
        )
    assert found[1] == [(0, 1, None, 7000), (1, 2, 0, 3000)]


def test_a_range_that_outlasts_the_frame_that_opened_it_keeps_its_time(tmp_path):
    # `with record_function(...)`: opened in __enter__, closed in __exit__.
    events = [
        traces.frame("train.py(1): step", 0, 100),
        traces.frame("profiler.py(700): __enter__", 10, 5),
        traces.slice_event("user_annotation", "forward", 12, 70),
        traces.frame("model.py(5): call", 30, 20),
        traces.frame("profiler.py(710): __exit__", 80, 5),
    ]
    with traces.load(tmp_path, events) as run:
        _, rows = run.fetch("SELECT name, self_ns FROM host_slice JOIN event USING (event_id)")
    assert dict(rows) == {
        "train.py(1): step": 25_000,
        "profiler.py(700): __enter__": 2_000,
        "forward": 48_000,
        "model.py(5): call": 20_000,
        "profiler.py(710): __exit__": 5_000,
    }


def test_former_names_are_the_same_rows(tmp_path):
    events = [traces.launch(0, 5, 1), traces.gpu_op(10, 5, 1), traces.operator("aten::mm", 0, 9)]
    with traces.load(tmp_path, events) as database:
        for former, name in (("gpu_op_link", "gpu_op_launch"), ("gpu_op_host", "launch_site")):
            rows = database.fetch(f"FROM {name}")
            assert rows[1]
            assert database.fetch(f"FROM {former}") == rows
        assert scalar(database, "SELECT count(*) FROM launches WHERE activity = launched_kind") == 1
