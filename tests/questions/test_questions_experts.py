"""Kernels and exchanges of a mixture of experts."""

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import gpu_op, launch, launched, operator, recorded, slice_event, step

FUSED = "fused_moe_kernel"
ALIGN = "void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int)"
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
CUTLASS = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::"
DEEP_GEMM = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 132u, (deep_gemm::GemmType)"


def on_grid(event, blocks):
    event["args"]["grid"] = [blocks, 1, 1]
    return event


def exchange(start_us, dur_us, sent, received, *, name=SENDRECV):
    event = gpu_op(start_us, dur_us, name=name, stream=9)
    event["args"] |= {
        "Collective name": "all_to_allv", "In msg nelems": 800, "Out msg nelems": 800,
        "Group size": 4, "dtype": "BFloat16", "In split size": sent, "Out split size": received,
    }  # fmt: skip
    return event


PARTS = {
    FUSED: "experts",
        "fused_moe_kernel_gptq_awq": "experts",
        "void marlin_moe_wna16::Marlin<1125899906909960l, 128, 1, 8, 4>": "experts",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": "experts",
        "void ck::kernel_moe_gemm_2lds<ck::GridwiseMoeGemm<ck::tensor_layout>>": "experts",
        "_ZN5aiter47fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_32x256E": "experts",
        f"{CUTLASS}GroupProblemShape<cute::tuple<int, int, int>>>>": "experts",
        "void cutlass::Kernel<cutlass::gemm::kernel::GemmGrouped<float>>": "experts",
        f"{DEEP_GEMM}1>": "experts",
        f"{DEEP_GEMM}2>": "experts",
        ALIGN: "routing",
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32, int>": "routing",
        "void ck_tile::kentry<1, ck_tile::MoeSortingKernel<int>>": "routing",
        "void expandInputRowsKernel<TmaWarpSpecializedGroupedGemmInput>": "routing",
        "void at::cuda::detail::prepare_grouped_gemm_data<float>": "routing",
        # Products of one matrix, batched products, a neighbour's name, and other words.
        f"{DEEP_GEMM}0>": None,
        f"{DEEP_GEMM}4>": None,
        f"{CUTLASS}collective::CollectiveMma<MainloopSm90TmaGmmaWarpSpecialized>>>": None,
        "triton_poi_fused_constant_pad_nd_moe_forward_0": None,
        "void warpgroup_gemm<float>": None,
        "void smoother_kernel(float*)": None,
}  # fmt: skip


def test_names_of_kernels_tell_experts_from_routing(tmp_path):
    events = [gpu_op(10 * i, 5, name=name) for i, name in enumerate(PARTS)]
    with traces.load(tmp_path, events) as run:
        found = {row["name"]: row["part"] for row in run.ask("expert_balance", top=100)}
    assert found == {name: part for name, part in PARTS.items() if part}


def test_calls_at_the_same_place_of_a_step_are_compared(tmp_path):
    # Two layers in each of three steps; the second layer of the last step is slow.
    events = []
    for i, slow in enumerate([12, 11, 40]):
        at = 1000 * i
        events += [step(i + 1, at, 900)]
        for n, (name, dur, blocks) in enumerate(
            [(ALIGN, 2, 4), (FUSED, 10, 64), (ALIGN, 2, 4), (FUSED, slow, 64), ("sgemm", 4, 1)]
        ):
            moe = operator("vllm::moe_forward", at + 20 * n, 10)
            call = launched(
                [moe] if n < 4 else [],
                at + 20 * n + 2,
                at + 200 + 100 * n,
                dur,
                10 * i + n + 1,
                name=name,
            )
            events += [*call[:-1], on_grid(call[-1], blocks)]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("expert_balance")
    whole = 3 * (2 + 10 + 2 + 4) + 12 + 11 + 40
    assert [(row["part"], row["place"], row["count"]) for row in rows] == [
        ("experts", 2, 3), ("experts", 1, 3), ("routing", 1, 3), ("routing", 2, 3)
    ]  # fmt: skip
    slow, even, *_ = rows
    assert (slow["min_ns"], slow["p50_ns"], slow["max_ns"]) == (11_000, 12_000, 40_000)
    assert (even["min_ns"], even["p50_ns"], even["max_ns"]) == (10_000, 10_000, 10_000)
    assert slow["anywhere_p50_ns"] == even["anywhere_p50_ns"] == 11_000
    assert (slow["operator"], slow["placed_by"], slow["module"]) == (
        "vllm::moe_forward",
        "step",
        None,
    )
    assert slow["grid"] == "[64,1,1]"
    assert slow["part_share"] == pytest.approx((63 + 30) / whole)
    assert slow["share_of_kernel_time"] == pytest.approx(63 / whole)
    assert rows[2]["part_share"] == pytest.approx(12 / whole)
    assert (slow["split_calls"], slow["sent_imbalance_p50"]) == (0, None)


def test_other_grids_and_unplaced_calls_are_kept_apart(tmp_path):
    events = [on_grid(gpu_op(100 * i, 5 + i, name=FUSED), 32 << (i // 2)) for i in range(4)]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("expert_balance")
    assert [(r["grid"], r["count"], r["min_ns"], r["max_ns"]) for r in rows] == [
        ("[64,1,1]", 2, 7000, 8000), ("[32,1,1]", 2, 5000, 6000)
    ]  # fmt: skip
    assert {(r["place"], r["placed_by"], r["operator"], r["module"]) for r in rows} == {(None,) * 4}


def test_layers_are_modules_or_places_in_a_replay(tmp_path):
    frame = {"Python id": 1, "Python parent id": None, "Python module id": 0}
    events = [
        slice_event("python_function", "nn.Module: FusedMoE_3", 0, 50, args=frame),
        *launched([], 10, 100, 5, 1, name=FUSED),
        launch(300, 5, 2, "cudaGraphLaunch"),
        *(gpu_op(400 + 20 * i, 6 + i, 2, name=FUSED) for i in range(2)),
    ]
    with traces.load(tmp_path, events) as run:
        rows = run.ask("expert_balance")
    assert [(row["placed_by"], row["module"], row["place"], row["total_ns"]) for row in rows] == [
        ("graph", None, 2, 7000), ("graph", None, 1, 6000), ("module", "FusedMoE_3", 1, 5000)
    ]  # fmt: skip


def test_products_that_an_operator_of_experts_launches_itself_are_experts(tmp_path):
    inner = [operator("vllm::moe_forward", 100, 50), operator("aten::mm", 110, 20)]
    events = [
        *launched([operator("vllm::moe_forward", 0, 50)], 10, 200, 9, 1, name="bmm_Bfloat16_t128"),
        # A shared expert's product: it has an operator of its own.
        *launched(inner, 115, 300, 7, 2, name="nvjet_tst_64x64"),
    ]
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("expert_balance")
    assert (row["part"], row["name"], row["part_share"]) == ("experts", "bmm_Bfloat16_t128", 9 / 16)


def test_split_sizes_tell_how_uneven_an_exchange_is(tmp_path):
    events = [
        exchange(0, 10, "[100, 100, 100, 100]", "[10, 10, 10, 370]"),
        exchange(20, 30, "[400, 0, 0, 0]", "[50, 50, 50, 50]"),
        # Equal parts, and a list that the recorder cut.
        exchange(60, 5, "[]", "[]"),
        exchange(70, 5, f"[{', '.join(['7'] * 30)}, ...]", "[1, 1, 1, 1]"),
        gpu_op(100, 50, name=FUSED),
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["part"]: row for row in run.ask("expert_balance")}
    row = rows["exchange"]
    assert (row["count"], row["total_ns"], row["split_calls"]) == (4, 50_000, 3)
    assert (row["sent_rows"], row["received_rows"]) == (800, 604)
    assert (row["sent_imbalance_p50"], row["sent_imbalance_max"]) == (4, 4)
    assert (row["received_imbalance_p50"], row["received_imbalance_max"]) == (1, 3.7)
    assert row["part_share"] == 0.5 == rows["experts"]["part_share"]


def test_an_all_to_all_is_the_experts_only_where_something_says_so(tmp_path):
    plain = exchange(0, 10, "[]", "[]")
    with traces.load(tmp_path, [plain]) as run:
        assert run.ask("expert_balance") == []
    with traces.load(tmp_path, [plain, gpu_op(20, 5, name=FUSED)]) as run:
        assert [row["part"] for row in run.ask("expert_balance")] == ["exchange", "experts"]
    combine = gpu_op(0, 10, name="void dpsk::ep::internode::combine<true, __nv_bfloat16, 16>")
    with traces.load(tmp_path, [combine]) as run:
        (row,) = run.ask("expert_balance")
    assert (row["part"], row["split_calls"], row["received_rows"]) == ("exchange", 0, None)


def test_experts_of_a_recorded_server_are_those_of_its_kernels(shared_database):
    rows = shared_database("mi300x-vllm-decode.json.gz").ask("expert_balance", top=1000)
    kernels = [
        e for e in recorded(trace_file("mi300x-vllm-decode.json.gz")) if e.get("cat") == "kernel"
    ]
    kernels.sort(key=lambda e: e["begin"])
    took = [e["end"] - e["begin"] for e in kernels if e["name"].endswith("mxfp4_16x128x256x1")]
    found = {
        row["place"]: row["total_ns"] for row in rows if row["name"].endswith("mxfp4_16x128x256x1")
    }
    assert [found[i + 1] for i in range(24)] == took
    whole = sum(e["end"] - e["begin"] for e in kernels)
    experts = sum(e["end"] - e["begin"] for e in kernels if "_matmul_ogs" in e["name"])
    assert rows[0]["part_share"] == pytest.approx(experts / whole)


def test_all_to_alls_of_embeddings_are_no_experts(shared_database):
    assert shared_database("v100-dlrm-rank0.json.gz").ask("expert_balance") == []
