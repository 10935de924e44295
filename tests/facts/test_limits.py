"""The limits of kernels: by shapes, siblings, graphs' captures or step names, or unknown."""

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit import traces
from tests.kit.traces import device, gpu_op, launch, operator, slice_event

BF16 = "c10::BFloat16"
A100 = "NVIDIA A100-SXM4-80GB"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128"
OPEN, BYTES = ("math-or-memory", None), ("memory-bandwidth", "tokens")


def kernel(at, dur, correlation, name=GEMM, **args):
    op = gpu_op(at, dur, correlation, name=name)
    op["args"] |= args
    return op


def product(at, number, n, dur, **args):
    """A matrix product of n x n with its launch and its kernel, 1 ms later."""
    shapes = ([[n, n], [n, n]], [BF16, BF16]) if n else ()
    return [
        operator("aten::mm", at, 10, *shapes),
        launch(at + 2, 3, number),
        kernel(at + 1000, dur, number, **args),
    ]


def limits(run):
    rows = run.ask("device_limits")
    return [(row["cause"], row["known_by"]) for row in rows]


def found(folder, events, name=A100):
    with traces.load(folder, events, **device(name)) as run:
        return limits(run)


def test_a_matrix_product_without_shapes_may_be_limited_by_math_or_memory(tmp_path):
    assert found(tmp_path, product(0, 1, None, 100)) == [("math-or-memory", None)]
    assert found(tmp_path, product(0, 1, 2224, 100)) == [("math", "roofline")]


def test_what_only_moves_bytes_is_limited_by_memory_and_what_is_short_by_latency(tmp_path):
    names = ["vectorized_elementwise_kernel", "layer_norm", "triton_poi_fused_add_0"]
    names += ["void cudnn::bn_fw_tr_1C11_singleread<float>", "max_pool_forward_nchw", "fc", "fc"]
    durations = [50, 50, 50, 50, 50, 50, 5]
    events = [
        kernel(100 * i, ns, name=n, correlation=None)
        for i, (n, ns) in enumerate(zip(names, durations, strict=True))
    ]
    moved = ("memory-bandwidth", "class")
    others = [("math-or-memory", None), ("latency", "duration")]
    assert found(tmp_path, events) == [moved] * 5 + others


def test_a_copy_inside_a_matrix_product_is_not_limited_by_math(tmp_path):
    copy = [launch(6, 2, 2), kernel(1200, 20, 2, name="batched_transpose_32x32")]
    expected = [("math", "roofline"), ("memory-bandwidth", "class")]
    assert found(tmp_path, [*product(0, 1, 2224, 100), *copy]) == expected


def test_a_launch_without_shapes_has_the_limit_of_its_kernels_others_on_the_same_grid(tmp_path):
    gemm = "cutlass::device_kernel<gemm>"
    known = product(0, 1, 2224, 100, name=gemm, grid=[18, 18, 1])
    alike = product(20, 2, None, 110, name=gemm, grid=[18, 18, 1])
    longer = product(40, 3, None, 400, name=gemm, grid=[18, 18, 1])
    wider = product(60, 4, None, 100, name=gemm, grid=[36, 18, 1])
    events = [*known, *alike, *longer, *wider]
    for at, event in enumerate(each for each in events if each["cat"] == "kernel"):
        event["ts"] = 1000 + 500 * at
    assert found(tmp_path, events) == [
        ("math", "roofline"), ("math", "sibling"), ("math-or-memory", None),
        ("math-or-memory", None),
    ]  # fmt: skip


SGEMM = "ampere_sgemm_128x64_tn"


@pytest.mark.parametrize(
    ("name", "grid", "dur", "limit"),
    [
        (SGEMM, [7, 1024, 1], 600, ("math", "tiles")),
        (SGEMM, [1, 1024, 1], 600, ("math-or-memory", None)),
        # Writing the result takes all of its time.
        (SGEMM, [64, 256, 1], 100, ("math-or-memory", None)),
        (GEMM, [18, 18, 1], 100, ("math", "tiles")),
        (GEMM, [2, 2, 1], 100, ("math-or-memory", None)),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", [66, 2, 1], 100, ("math-or-memory", None)),
    ],
)
def test_a_product_whose_grid_needs_more_arithmetic_than_bytes_is_limited_by_math(
    name, grid, dur, limit, tmp_path
):
    assert found(tmp_path, product(0, 1, None, dur, name=name, grid=grid)) == [limit]


@pytest.mark.parametrize(
    ("us", "limit"),
    [(100, ("memory-bandwidth", "roofline")), (500, OPEN), (2000, ("latency", "roofline"))],
)
def test_memory_limits_only_products_that_come_near_its_peak(us, limit, tmp_path):
    shapes = [[65_536, 1024], [1024, 8]]
    thin = [operator("aten::mm", 0, 10, shapes, [BF16, BF16]), launch(2, 3, 1)]
    assert found(tmp_path, [*thin, kernel(1000, us, 1)]) == [limit]


def test_a_grid_that_fills_little_of_the_device_is_limited_by_latency(tmp_path):
    few, many = {"blocks per SM": 0.04}, {"blocks per SM": 2.0}
    assert found(tmp_path, product(0, 1, None, 100, **few)) == [("latency", "grid")]
    assert found(tmp_path, product(0, 1, None, 100, **many)) == [("math-or-memory", None)]


@pytest.mark.sampled(4, of=11)
@pytest.mark.parametrize(
    ("step", "name", "limit"),
    [
        ("step[DECODE bs=32]", GEMM, BYTES),
        ("step[DECODE bs=32]", "paged_attention", BYTES),
        ("step[DECODE bs=32]", "mla_decode_attention", OPEN),
        ("step[DECODE bs=512]", GEMM, OPEN),
        ("step[EXTEND bs=1 toks=16]", GEMM, BYTES),
        ("step[EXTEND bs=1 toks=16]", "flash_fwd", OPEN),
        ("step[EXTEND bs=1 toks=4096]", GEMM, OPEN),
        ("step[VERIFY bs=4]", GEMM, OPEN),
        ("execute_context_0(0)_generation_8(8)", GEMM, BYTES),
        ("execute_context_1(888_788544)_generation_0(0)", GEMM, OPEN),
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk9sqsq32sqsk9)", GEMM, BYTES),
    ],
)
def test_a_servers_step_tells_how_many_tokens_share_the_weights(step, name, limit, tmp_path):
    events = [slice_event("user_annotation", step, 0, 50), *product(5, 1, None, 100, name=name)]
    assert found(tmp_path, events, "NVIDIA H100 80GB HBM3") == [limit]


def captured(at, shapes, named=False, first=100):
    """A capture of matrix products, one of each shape, as CUDA or (with names) ROCm records it."""
    api = "hip" if named else "cuda"
    events = [launch(at, 1, first, f"{api}StreamBeginCapture")]
    for place, n in enumerate(shapes):
        start = at + 2 + 10 * place
        call = launch(start + 1, 3, first + 1 + place, f"{api}LaunchKernel")
        if named:
            call["args"]["kernel"] = f"{GEMM}_{n}"
        events += [operator("aten::mm", start, 8, [[n, n], [n, n]], [BF16, BF16]), call]
    return [*events, launch(at + 500, 1, first + 90, f"{api}StreamEndCapture")]


def replayed(at, durations, correlation, names=None):
    """A graph's replay with kernels of these durations, 100 us apart."""
    names = names or [GEMM] * len(durations)
    ops = [
        kernel(at + 50 + 200 * i, ns, correlation, name=names[i]) for i, ns in enumerate(durations)
    ]
    return [launch(at, 5, correlation, "cudaGraphLaunch"), *ops]


def test_a_replays_kernels_have_the_operators_and_shapes_of_the_capture(tmp_path):
    events = [*captured(0, [2224, 16]), *replayed(1000, [100, 100], 1), *replayed(2000, [90, 9], 2)]
    with traces.load(tmp_path, events, **device(A100)) as run:
        sites = run.fetch("SELECT cpu_op, dims, told_share FROM graph_sites() ORDER BY event_id")[1]
        assert limits(run) == [("math", "roofline"), ("latency", "roofline")] * 2
    assert [dims for _, dims, _ in sites] == ["[[2224,2224],[2224,2224]]", "[[16,16],[16,16]]"] * 2
    assert {(op, told) for op, _, told in sites} == {("aten::mm", 0)}


def test_captures_that_fit_equally_well_tell_nothing(tmp_path):
    events = [*captured(0, [2224, 16]), *captured(600, [16, 2224], first=300)]
    events += replayed(2000, [100, 100], 1)
    assert found(tmp_path, events) == [OPEN] * 2


@pytest.mark.parametrize(
    ("order", "expected"), [([2224, 16], ["math", "latency"]), ([16, 2224], ["math-or-memory"] * 2)]
)
def test_a_capture_in_another_trace_counts_if_its_kernels_agree(order, expected, tmp_path):
    names = [f"{GEMM}_{n}" for n in order]
    one = traces.write(tmp_path / "capture.json", captured(0, [2224, 16], True), **device(A100))
    replay = replayed(1000, [100, 100], 1, names)
    two = traces.write(tmp_path / "replay.json", replay, **device(A100))
    with tracekit.load([one, two]) as run:
        assert [cause for cause, _ in limits(run)] == expected


def test_a_capture_without_names_does_not_count_for_another_trace(tmp_path):
    one = traces.write(tmp_path / "capture.json", captured(0, [2224, 16]), **device(A100))
    two = traces.write(tmp_path / "replay.json", replayed(1000, [100, 100], 1), **device(A100))
    with tracekit.load([one, two]) as run:
        assert limits(run) == [OPEN] * 2


def test_a_verdict_by_kernels_of_unknown_limit_gives_ranges(tmp_path):
    events = []
    for at in range(0, 400, 20):
        events += product(at, at + 1, None, 100)
    kernels = [each for each in events if each["cat"] == "kernel"]
    for place, event in enumerate(kernels):
        event["ts"] = 100 + 100 * place
    with traces.load(tmp_path, events, **device(A100)) as run:
        analysis = run.verdict()
    verdict, gains = analysis.verdict, analysis.causal.gains
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "math-or-memory")
    assert verdict.confidence == "high"
    whole = gains.removed["math-or-memory"]
    assert gains.removed_at_most == {"math": whole, "memory-bandwidth": whole}
    assert any(
        "does not show whether math" in why and "math 0.0 % to" in why for why in verdict.why
    )


def test_a_real_replay_is_matched_with_its_capture_in_the_same_trace(shared_database):
    run = shared_database("a100-vit-recapture.json.gz")
    shares = "SELECT count(*), count(cpu_op), min(matched_share) FROM graph_sites()"
    assert run.fetch(shares)[1] == [(620, 620, 1.0)]


def test_a_real_replay_is_matched_with_its_capture_in_another_trace():
    files = [SHARED_TRACES / f"mi300x-vllm-{part}.json.gz" for part in ("decode", "capture")]
    if not files[0].exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(files) as run:
        sites = run.fetch("""
            SELECT s.trace_id, capture_trace_id, count(*), min(matched_share), min(told_share),
                   count(*) FILTER (cpu_op = 'aten::addmm')
            FROM graph_sites() AS s GROUP BY ALL
        """)[1]
    assert sites == [(1, 2, 421, 1.0, 1.0, 72)]


def test_the_operators_of_replays_are_listed_with_how_well_the_capture_fits(tmp_path):
    events = [*captured(0, [2224, 16]), *replayed(1000, [100, 50], 1), *replayed(2000, [90, 60], 2)]
    with traces.load(tmp_path, events, **device(A100)) as run:
        rows = run.ask("graph_operators")
    assert [(row["operator"], row["replays"], row["gpu_ns"]) for row in rows] == [
        ("aten::mm", 2, 190_000), ("aten::mm", 2, 110_000),
    ]  # fmt: skip
    assert sum(row["share_of_replays"] for row in rows) == pytest.approx(1)
    assert {(row["matched_share"], row["told_share"]) for row in rows} == {(None, 0)}
