"""Questions about bytes and FLOPs: work from shapes, compared with known peaks."""

import json

import pytest

import tracekit
from tests.conftest import trace_file
from tests.facts.test_limits import captured, replayed
from tests.kit import traces
from tests.kit.traces import device, gpu_op, launch, launched, launches_of, operator, recorded
from tracekit.database.catalog import queries

BF16 = "c10::BFloat16"
A100 = "NVIDIA A100-SXM4-80GB"
A100_BF16, A100_MEMORY = 312e12, 2039e9


def work_of(folder, name, shapes, types, concrete=None, kernel="k"):
    """Rows of `operator_traffic` and `roofline` for one call on an A100."""
    more = {} if concrete is None else {"Concrete Inputs": concrete}
    events = launched([operator(name, 0, 20, shapes, types, **more)], 5, 30, 100, 1, name=kernel)
    with traces.load(folder, events, **device(A100)) as run:
        return run.ask("roofline"), run.ask("operator_traffic")


# FLOPs as torch.utils.flop_counter counts them; bytes read and written once, by hand.
CASES = [
    ("aten::mm", [[8, 16], [16, 4]], None, 2 * 8 * 16 * 4, 2 * (8 * 16 + 16 * 4), 2 * 8 * 4),
    ("aten::addmm", [[4], [8, 16], [16, 4], [], []], None, 1024, 2 * (4 + 128 + 64), 64),
    ("aten::bmm", [[3, 8, 16], [3, 16, 4]], None, 3 * 1024, 3 * 2 * (128 + 64), 3 * 64),
    ("aten::baddbmm", [[3, 8, 4], [3, 8, 16], [3, 16, 4]], None, 3072, 2 * (96 + 384 + 192), 192),
    ("aten::linear", [[2, 4, 16], [4, 16], [4]], None, 1024, 2 * (128 + 64 + 4), 64),
    (
        "aten::convolution",
        [[2, 3, 8, 8], [5, 3, 3, 3], [5], [], [], [], [], [], []],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
        2 * 2 * 5 * 4 * 4 * 27,
        2 * (2 * 3 * 64 + 5 * 27 + 5),
        2 * 2 * 5 * 16,
    ),
    (
        "aten::cudnn_convolution",
        [[2, 3, 8, 8], [5, 3, 3, 3], [], [], [], [], [], [], []],
        ["", "", "[0, 0]", "[1, 1]", "[2, 2]", "1", "False", "False", "True"],
        2 * 2 * 5 * 4 * 4 * 27,
        2 * (2 * 3 * 64 + 5 * 27),
        2 * 2 * 5 * 16,
    ),
    (
        "aten::convolution_backward",
        [[2, 5, 4, 4], [2, 3, 8, 8], [5, 3, 3, 3], [], [], [], [], [], [], [], []],
        ["", "", "", "[5]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1",
         "[True, True, False]"],
        2 * 2 * 2 * 5 * 16 * 27,
        2 * (2 * 5 * 16 + 2 * 3 * 64 + 5 * 27),
        2 * (2 * 3 * 64 + 5 * 27),
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [[2, 4, 16, 8], [2, 4, 16, 8], [2, 4, 16, 8], [], [], [], []],
        ["", "", "", "0.", "False", "False", ""],
        4 * 2 * 4 * 16 * 16 * 8,
        2 * 3 * 1024,
        2 * 1024,
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [[2, 4, 16, 8], [2, 4, 16, 8], [2, 4, 16, 8], [], [], [], []],
        ["", "", "", "0.", "True", "False", ""],
        2 * 4 * 2 * 8 * 2 * (16 * 17 // 2),
        2 * 3 * 1024,
        2 * 1024,
    ),
    # Heads are the third dimension, and keys have fewer heads.
    (
        "aten::_flash_attention_forward",
        [[2, 16, 4, 8], [2, 16, 1, 8], [2, 16, 1, 8], [], [], [], []],
        None,
        4 * 2 * 4 * 16 * 16 * 8,
        2 * (1024 + 2 * 256),
        2 * 1024,
    ),
    (
        "aten::_scaled_dot_product_flash_attention_backward",
        [[2, 4, 16, 8]] * 4,
        None,
        int(2.5 * 4 * 2 * 4 * 16 * 16 * 8),
        2 * 4 * 1024,
        2 * 3 * 1024,
    ),
    ("aten::native_layer_norm", [[4, 8], [], [8], [8], []], None, 8 * 32, 2 * (32 + 16), 64),
    ("aten::_softmax", [[4, 8], [], []], None, 5 * 32, 64, 64),
    ("aten::add", [[4, 1], [1, 8], []], None, 32, 2 * 12, 64),
    ("aten::mul_", [[4, 8], []], None, 32, 64, 64),
    ("aten::gt", [[4, 8], []], None, 32, 64, 32),
    ("aten::sum", [[4, 8], [], [], []], ["", "[-1]", "False", ""], 32, 64, 8),
    ("aten::sum", [[4, 8], []], ["", ""], 32, 64, 2),
    ("aten::fill_", [[4, 8], []], None, 0, 0, 64),
    # The destination of the result (out=) is not read.
    ("aten::addmm", [[4], [8, 16], [16, 4], [], [], [8, 4]], None, 1024, 2 * (4 + 128 + 64), 64),
    (
        "aten::baddbmm", [[3, 8, 4], [3, 8, 16], [3, 16, 4], [], [], [3, 8, 4]], None,
        3072, 2 * (96 + 384 + 192), 192,
    ),
    ("aten::mm", [[8, 16], [16, 4], [8, 4]], None, 1024, 2 * (128 + 64), 64),
    ("triton_poi_fused_add_mul_0", [[4, 8], [4, 8], [4, 8], []], None, 64, 128, 64),
    # Two products of x, and three; then the activation and the product of their results.
    ("tracekit::gate_up", [[2, 4, 16], [5, 16], [5, 16], []], None,
     2 * 1280, 2 * (128 + 160), 2 * 40),
    ("tracekit::block", [[8, 16], [5, 16], [5, 16], [16, 5], [64], [1], []], None,
     3 * 1280, 2 * (128 + 240), 2 * 128),
    ("tracekit::glu", [[4, 8], [4, 8], []], None, 32, 128, 64),
    ("tracekit::glu_", [[4, 8], [4, 8], []], None, 32, 128, 64),
    ("LigerGELUMulFunction", [[4, 8], [4, 8]], None, 32, 128, 64),
    ("tracekit::act_mul", [[4, 16], []], None, 32, 128, 64),
    # In place: one tensor, or a bias that cannot be the result.
    ("triton_poi_fused_relu_3", [[4, 8], []], ["", "32"], 32, 64, 64),
    ("triton_poi_fused_add_relu_3", [[4, 8], [8], []], ["", "", "32"], 64, 64 + 16, 64),
    ("triton_poi_fused_zeros_1", [[4, 8], []], ["", "32"], 0, 0, 64),
    ("triton_poi_fused_new_zeros_like_1", [[4, 8], []], ["", "32"], 0, 0, 64),
    # A slice of a larger tensor, and a sum over rows, are written elsewhere.
    ("triton_poi_fused_add_0", [[4, 8], [8], []], ["", "", "8"], 32, 64, 16),
    ("triton_red_fused_sum_0", [[4, 8], [4], [], []], ["", "", "4", "8"], 32, 64, 8),
]  # fmt: skip


def test_a_number_does_not_widen_the_tensors(tmp_path):
    # A wrapped number is a tensor without dimensions.
    types = [BF16, "double"]
    _, (traffic,) = work_of(tmp_path, "aten::mul", [[4, 8], []], types)
    assert (traffic["read_bytes"], traffic["written_bytes"]) == (64 + 8, 64)


def test_where_the_result_goes_is_not_read(tmp_path):
    _, (traffic,) = work_of(tmp_path, "aten::mul", [[4, 8], [4, 8], [4, 8]], ["float"] * 3)
    assert (traffic["read_bytes"], traffic["written_bytes"]) == (256, 128)


def test_a_copy_over_the_bus_is_not_held_against_the_memory(tmp_path):
    op = operator("aten::copy_", 0, 20, [[8], [8], []], [BF16, BF16, "Scalar"])
    for name, rows in (("Memcpy HtoD (Pageable -> Device)", 0), ("Memcpy DtoD", 1)):
        events = launched([op], 5, 30, 9, 1, category="gpu_memcpy", name=name)
        with traces.load(tmp_path, events, **device(A100)) as run:
            assert len(run.ask("roofline")) == rows


@pytest.mark.sampled(5, of=36)
@pytest.mark.parametrize(("name", "shapes", "concrete", "flops", "read", "written"), CASES)
def test_work_follows_from_shapes(name, shapes, concrete, flops, read, written, tmp_path):
    types = [BF16 if shape else "Scalar" for shape in shapes]
    (roof,), (traffic,) = work_of(tmp_path, name, shapes, types, concrete)
    assert roof["flops"] == flops
    assert (traffic["read_bytes"], traffic["written_bytes"]) == (read, written)
    assert roof["moved_bytes"] == read + written


def test_matrix_products_count_as_pytorch_counts_them(tmp_path):
    torch = pytest.importorskip("torch", reason="torch counts the FLOPs to compare with")
    from torch.utils.flop_counter import FlopCounterMode

    image, weight = torch.ones(2, 6, 9, 7), torch.ones(4, 3, 3, 2)
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.conv2d(image, weight, stride=(2, 1), padding=(1, 0), groups=2)
    settings = ["", "", "", "[2, 1]", "[1, 0]", "[1, 1]", "False", "[0, 0]", "2"]
    shapes = [[2, 6, 9, 7], [4, 3, 3, 2], *([[]] * 7)]
    types = ["float", "float", *(["Scalar"] * 7)]
    (roof,), _ = work_of(tmp_path, "aten::convolution", shapes, types, settings)
    assert roof["flops"] == counter.get_total_flops()


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize(
    ("name", "shapes", "types"),
    [
        ("aten::convolution", [[2, 3, 8, 8], [5, 3, 3, 3]], [BF16, BF16]),
        ("aten::mm", [[8, 16]], [BF16]),
        ("aten::mm", [[0, 16], [16, 4]], ["Scalar", "Scalar"]),
        ("aten::add", [[[4], [4]], [[4], [4]]], ["TensorList", "TensorList"]),
        ("aten::_flash_attention_forward", [[99, 4, 8]] * 3, [BF16] * 3),
        ("aten::nonzero", [[4]], [BF16]),
    ],
)
def test_what_shapes_do_not_tell_is_not_guessed(name, shapes, types, tmp_path):
    assert work_of(tmp_path, name, shapes, types) == ([], [])


def test_the_inner_operator_does_the_work(tmp_path):
    outer = operator("aten::linear", 0, 40, [[8, 16], [4, 16], []], [BF16, BF16, ""])
    inner = operator("aten::mm", 5, 20, [[8, 16], [16, 4]], [BF16, BF16])
    events = [outer, *launched([inner], 8, 50, 10, 1), *launched([], 30, 70, 5, 2)]
    with traces.load(tmp_path, events, **device(A100)) as run:
        rows = {row["operator"]: row for row in run.ask("roofline")}
    assert rows["aten::mm"]["gpu_ns"] == 10_000
    # Launches of the outer operator outside the inner one count for the outer one.
    assert rows["aten::linear"]["gpu_ns"] == 5_000


def test_an_operators_time_is_the_union_of_its_kernels(tmp_path):
    mm = operator("aten::mm", 0, 40, [[8, 16], [16, 4]], [BF16, BF16])
    events = [
        mm, launch(1, 1, 1), gpu_op(50, 10, 1), launch(3, 1, 2), gpu_op(55, 10, 2, stream=8),
    ]  # fmt: skip
    with traces.load(tmp_path, events, **device(A100)) as run:
        (row,) = run.ask("roofline")
    assert row["gpu_ns"] == 15_000


def test_the_roof_that_takes_longer_binds(tmp_path):
    # 100 us; the products take 70.5 us at the peak, the sum 10.3 us at the bandwidth.
    n = 2224
    (mm,), _ = work_of(tmp_path, "aten::mm", [[n, n], [n, n]], [BF16, BF16])
    (add,), _ = work_of(tmp_path, "aten::add", [[3500, 1000], [3500, 1000]], [BF16, BF16])
    (tiny,), _ = work_of(tmp_path, "aten::add", [[8], [8]], [BF16, BF16])
    assert mm["math_ns"] == round(2 * n**3 / A100_BF16 * 1e9)
    assert (mm["bound"], round(mm["share_of_roof"], 3)) == ("math", 0.705)
    assert add["memory_ns"] == round(3 * 2 * 3_500_000 / A100_MEMORY * 1e9)
    assert (add["bound"], add["format"]) == ("memory", "fp32")
    assert tiny["bound"] == "latency"


@pytest.mark.parametrize(
    ("kernel", "format_"), [("sm80_xmma_gemm_f32f32_tf32f32", "tf32"), ("ampere_sgemm", "fp32")]
)
def test_the_kernel_tells_fp32_from_tf32(kernel, format_, tmp_path):
    shapes, types = [[8, 16], [16, 4]], ["float", "float"]
    (row,), _ = work_of(tmp_path, "aten::mm", shapes, types, kernel=kernel)
    assert row["format"] == format_


def test_an_unknown_device_is_held_against_nothing_and_says_so(tmp_path):
    mm = operator("aten::mm", 0, 20, [[8, 16], [16, 4]], [BF16, BF16])
    events = launched([mm], 5, 30, 100, 1)
    with traces.load(tmp_path, events, **device("Frobnicator 9000")) as run:
        (row,) = run.ask("roofline")
        codes = [each["code"] for each in run.doubts("roofline")]
    assert row["flops"] == 1024
    assert (row["math_ns"], row["bound"], row["share_of_roof"]) == (None, None, None)
    assert "unknown_device" in codes


def test_a_users_hardware_file_comes_first(tmp_path):
    (tmp_path / "mine.toml").write_text(
        "[[device]]\nname = 'mine'\nmatch = 'A100'\nmemory_gb_per_s = 1\n"
        "tflops = { bf16 = 1 }\nsource = 'measured'\n"
    )
    mm = operator("aten::mm", 0, 20, [[8, 16], [16, 4]], [BF16, BF16])
    path = traces.write(tmp_path / "t.json", launched([mm], 5, 30, 100, 1), **device(A100))
    with tracekit.load(path, hardware=tmp_path / "mine.toml") as run:
        (row,) = run.ask("roofline")
    assert (row["math_ns"], row["memory_ns"]) == (1, 448)


def test_mfu_is_the_time_at_the_peak_over_the_step(tmp_path):
    n = 2224
    mm = operator("aten::mm", 10, 20, [[n, n], [n, n]], [BF16, BF16])
    events = [
        traces.step(1, 0, 400),
        *launched([mm], 15, 40, 100, 1),
        *launched([operator("aten::unknown", 50, 10)], 55, 200, 100, 2),
    ]
    with traces.load(tmp_path, events, **device(A100)) as run:
        row = next(row for row in run.ask("mfu") if row["kind"] == "step")
    assert row["flops"] == 2 * n**3
    assert row["share_of_peak"] == pytest.approx(2 * n**3 / A100_BF16 / 400e-6)
    assert row["tflop_per_s"] == pytest.approx(2 * n**3 / 400e-6 / 1e12)
    assert row["share_counted"] == 0.5


def test_a_steps_work_is_what_the_host_called_in_it(tmp_path):
    # The device runs one step behind the host.
    mm = [[64, 64], [64, 64]]
    events = [
        traces.step(1, 0, 100),
        *launched([operator("aten::mm", 10, 20, mm, [BF16, BF16])], 15, 150, 20, 1),
        traces.step(2, 100, 100),
    ]
    with traces.load(tmp_path, events, **device(A100)) as run:
        flops = {row["name"]: row["flops"] for row in run.ask("mfu", kind="step")}
    assert flops == {"ProfilerStep#1": 2 * 64**3}


def test_two_copies_in_a_row_are_not_fused(tmp_path):
    shape, types = [[1000], [1000]], [BF16, BF16]
    events = [
        *launched([operator("aten::copy_", 0, 10, shape, types)], 5, 30, 10, 1),
        *launched([operator("aten::copy_", 10, 10, shape, types)], 15, 40, 10, 2),
    ]
    with traces.load(tmp_path, events, **device(A100)) as run:
        assert run.ask("fusion_savings") == []


def test_fusing_neighbours_saves_the_intermediate(tmp_path):
    shape = [[1000, 1000], [1000, 1000]]
    events = [
        *launched([operator("aten::mul", 0, 10, shape, [BF16, BF16])], 5, 30, 100, 1),
        *launched([operator("aten::add", 10, 10, shape, [BF16, BF16])], 15, 130, 100, 2),
        *launched([operator("aten::unknown", 20, 10)], 25, 230, 100, 3),
        *launched([operator("aten::relu", 30, 10, shape[:1], [BF16])], 35, 330, 100, 4),
    ]
    with traces.load(tmp_path, events, **device(A100)) as run:
        (row,) = run.ask("fusion_savings")
    assert (row["first"], row["second"], row["count"]) == ("aten::mul", "aten::add", 1)
    # The intermediate is written once and read once: 4 MB of the 12 MB that the two move.
    assert (row["intermediate_bytes"], row["gpu_ns"]) == (4_000_000, 200_000)
    assert row["saved_ns"] == pytest.approx(200_000 / 3, abs=1)


def memory(at_us, address, n_bytes, allocated):
    return {
        "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t",
        "pid": traces.HOST, "tid": traces.THREAD, "ts": at_us,
        "args": {
            "Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": n_bytes,
            "Total Allocated": allocated, "Total Reserved": 4096,
        },
    }  # fmt: skip


def test_the_peak_says_which_operators_hold_the_memory(tmp_path):
    events = [
        operator("aten::empty", 0, 10), memory(5, 1, 100, 600),
        operator("aten::mm", 20, 20), operator("aten::empty", 22, 5), memory(23, 2, 300, 900),
        memory(30, 1, -100, 800),
        operator("aten::empty", 50, 5), memory(52, 1, 50, 850),
    ]  # fmt: skip
    with traces.load(tmp_path, events) as run:
        rows = {row["operator"]: row for row in run.ask("memory_peak")}
        series = [row["allocated_bytes"] for row in run.ask("memory_timeline")]
    assert series == [600, 900, 800, 850]
    assert rows["aten::empty"]["live_bytes"] == 400
    assert rows["aten::empty"]["tensors"] == 2
    assert rows["before recording"]["live_bytes"] == 500
    assert {(r["peak_bytes"], r["peak_at_ns"]) for r in rows.values()} == {(900, 23_000)}


def test_the_work_of_graph_replays_is_that_of_their_capture(shared_database):
    run = shared_database("a100-vit-recapture.json.gz")
    events = recorded(trace_file("a100-vit-recapture.json.gz"))
    ran = [op for op, call in launches_of(events) if "GraphLaunch" in call["name"]]
    rows = [row for row in run.ask("roofline", top=100) if row["known_from"] == "capture"]
    for row in (row for row in rows if row["operator"] == "aten::mm"):
        (m, k), (_, n) = json.loads(row["shapes"])[:2]
        # A replay runs 12 layers.
        assert row["calls"] == 12 * sum("GraphLaunch" in e["name"] for e in events) == 60
        assert row["flops"] == row["calls"] * 2 * m * k * n
    gpu_ns = sum(row["gpu_ns"] for row in rows if "attention" in row["operator"])
    assert gpu_ns == sum(op["end"] - op["begin"] for op in ran if "flash_fwd" in op["name"])
    whole = next(row for row in run.ask("mfu") if row["kind"] == "trace")
    flops = sum(row["flops"] for row in rows)
    assert whole["captured_flops"] == whole["flops"] == flops == 175_630_602_240


def test_what_is_asked_about_one_trace_tells_of_no_other(tmp_path):
    # The work of graph replays may be in the trace of the capture.
    mm = operator("aten::mm", 3000, 20, [[64, 64], [64, 64]], [BF16, BF16])
    eager = launched([mm], 3005, 3030, 100, 7)
    graphs = [*captured(0, [2224, 16]), *replayed(1000, [100, 100], 1), *eager]
    first = traces.write(tmp_path / "eager.json", eager, **device(A100))
    second = traces.write(tmp_path / "graphs.json", graphs, **device(A100))
    with tracekit.load([first, second]) as run:
        for name, question in queries().items():
            if "trace_id" in (column.name for column in question.columns) and "trace" in (
                parameter.name for parameter in question.parameters
            ):
                assert {row["trace_id"] for row in run.ask(name, trace=1)} <= {1}, name
        for name in ("mfu", "roofline"):
            assert {row["trace_id"] for row in run.ask(name)} == {1, 2}
            assert run.ask(name, trace=1)


def test_a_step_has_the_work_of_the_replays_that_it_launches(tmp_path):
    # Replayed in the second step, run on the device after it.
    events = [*captured(0, [2224, 16]), *replayed(1000, [100, 100], 1)]
    events += [traces.step(1, 0, 900), traces.step(2, 990, 20), traces.step(3, 1020, 1000)]
    with traces.load(tmp_path, events, **device(A100)) as run:
        row = next(row for row in run.ask("mfu", kind="step") if row["flops"])
        rows = run.ask("roofline")
    assert row["name"] == "ProfilerStep#2"
    assert row["flops"] == row["captured_flops"] == 2 * 2224**3 + 2 * 16**3
    assert row["share_counted"] == 1
    assert [(r["known_from"], r["calls"]) for r in rows] == [("capture", 1)] * 2
