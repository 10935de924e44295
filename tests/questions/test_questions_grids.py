"""Questions about grids and occupancy, by hand and against Kineto's own estimates."""

import math

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import gpu_op, recorded

A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108,
    "warpSize": 32, "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip


def kernel(start_us, dur_us, blocks, threads, registers, shared_bytes, sms=108, **more):
    event = gpu_op(start_us, dur_us, **more)
    event["args"] |= {
        "grid": [blocks, 1, 1], "block": [threads, 1, 1], "blocks per SM": blocks / sms,
        "registers per thread": registers, "shared memory": shared_bytes,
    }  # fmt: skip
    return event


# Threads and registers of a block, its shared memory, and how many of it an SM holds.
RESIDENT = [
    (1024, 32, 0, 2),  # threads: 2048 / 1024
    (32, 16, 0, 32),  # blocks: no more than 32
    (256, 128, 0, 2),  # registers: 65536 / (128 * 256)
    (128, 122, 0, 4),  # a warp gets 4096 registers, and each quarter holds 4 warps
    (128, 32, 98304, 1),  # shared memory: 167936 / (98304 + 1024)
    (100, 32, 0, 16),  # 100 threads are 4 warps
]


def test_an_sm_holds_as_many_blocks_as_its_scarcest_resource(tmp_path):
    events = [
        kernel(20 * i, 10, 324 * each[-1], *each[:-1], name=str(i))
        for i, each in enumerate(RESIDENT)
    ]
    with traces.load(tmp_path, events, deviceProperties=[A100]) as run:
        rows = run.ask("kernel_grids")
    found = {int(row["name"]): (row["resident_blocks"], row["waves"]) for row in rows}
    assert found == {i: (each[-1], 3) for i, each in enumerate(RESIDENT)}
    assert {row["share_of_last_wave_empty"] for row in rows} == {0}


def test_grids_are_sorted_by_how_they_fill_the_device(tmp_path):
    events = [
        kernel(0, 10, 27, 1024, 32, 0, name="few"),
        kernel(20, 20, 162, 1024, 32, 0, name="part"),
        kernel(50, 30, 270, 1024, 32, 0, name="tail"),
        kernel(90, 40, 4, 1024, 32, 0, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        gpu_op(140, 50, name="no grid"),
    ]
    with traces.load(tmp_path, events, deviceProperties=[A100]) as run:
        grids = {row["name"]: row for row in run.ask("kernel_grids")}
        fills = {row["fill"]: row for row in run.ask("device_fill")}
    assert grids["few"]["share_of_sms_without_block"] == 0.75
    assert (grids["part"]["waves"], grids["part"]["occupancy"]) == (0.75, 0.75)
    assert (grids["tail"]["waves"], grids["tail"]["share_of_last_wave_empty"]) == (1.25, 0.75)
    assert grids["no grid"]["waves"] is None
    assert {fill: (row["total_ns"], row["empty_ns"]) for fill, row in fills.items()} == {
        "SMs without a block": (10_000, 8_750),
        "part of a wave": (20_000, 5_000),
        "several waves": (30_000, 11_250),
        "unknown": (50_000, None),
    }


def test_without_device_properties_a_grid_is_compared_with_the_sms_that_kineto_counted(tmp_path):
    events = [kernel(0, 10, 54, 256, 32, 0), kernel(20, 10, 216, 256, 32, 0)]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("kernel_grids")
        fills = {row["fill"] for row in run.ask("device_fill")}
    assert {row["sm_count"] for row in rows} == {108}
    assert {row["resident_blocks"] for row in rows} == {None}
    assert fills == {"SMs without a block", "each SM has a block"}


def test_the_blocks_that_kineto_counted_are_taken(tmp_path):
    event = kernel(0, 10, 432, 256, 32, 0)
    event["args"]["occupancy"] = {"activeBlocksPerMultiprocessor": 4}
    with traces.load(tmp_path, [event], deviceProperties=[A100]) as run:
        (row,) = run.ask("kernel_grids")
    assert (row["resident_blocks"], row["waves"]) == (4, 1)


@pytest.mark.parametrize(
    "name", ["a100-transformer-batch512", "h100-bert-small", "b200-vllm-eager", "v100-dlrm-rank0"]
)
def test_occupancy_is_kinetos_estimate(name, shared_database):
    """Kineto rounds to a percent, and has none for kernels with much dynamic shared memory."""
    file = f"{name}.json.gz"
    estimates = {}
    for event in recorded(trace_file(file)):
        args = event.get("args", {})
        if "blocks per SM" in args:
            key = (event["name"], math.prod(args["grid"]), math.prod(args["block"]),
                   args["registers per thread"], args["shared memory"])  # fmt: skip
            estimates[key] = args["est. achieved occupancy %"]
    rows = shared_database(file).ask("kernel_grids", top=10_000)
    keys = ("name", "blocks", "threads", "registers", "block_memory_bytes")
    found = {tuple(row[key] for key in keys): row["occupancy"] for row in rows}
    assert found.keys() == estimates.keys()
    known = {key for key, percent in estimates.items() if percent > 0}
    assert len(known) > len(estimates) / 2
    assert all(abs(100 * found[key] - estimates[key]) <= 0.5 + 1e-6 for key in known)


def test_a_grid_on_amd_is_not_known_to_count_blocks(shared_database):
    rows = shared_database("mi300x-ddp-hipfree.json.gz").ask("kernel_grids")
    assert rows
    assert {row["blocks"] for row in rows} == {row["waves"] for row in rows} == {None}
