"""The limits of kernels in graph replays, known from captures in other traces; their verdicts."""

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit import traces
from tests.kit.traces import device, gpu_op, launch, operator

BF16 = "c10::BFloat16"
A100 = device("NVIDIA A100-SXM4-80GB")
GEMM = "ampere_bf16_s16816gemm_bf16_128x128"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("api", "order", "causes"),
    [
        ("hip", [2224, 16], ["math", "latency"]),
        # CUDA does not record the names of captured kernels.
        ("cuda", [2224, 16], ["math-or-memory"] * 2),
        ("hip", [16, 2224], ["math-or-memory"] * 2),
    ],
)
def test_a_capture_in_another_trace_counts_if_its_kernels_agree(api, order, causes, tmp_path):
    capture = [launch(0, 1, 100, f"{api}StreamBeginCapture")]
    for i, n in enumerate([2224, 16]):
        capture.append(operator("aten::mm", 2 + 10 * i, 8, [[n, n], [n, n]], [BF16, BF16]))
        capture.append(launch(3 + 10 * i, 3, 101 + i, f"{api}LaunchKernel"))
        if api == "hip":
            capture[-1]["args"]["kernel"] = f"{GEMM}_{n}"
    capture.append(launch(500, 1, 190, f"{api}StreamEndCapture"))
    replay = [launch(1000, 5, 1, "cudaGraphLaunch")]
    replay += [gpu_op(1050 + 200 * i, 100, 1, name=f"{GEMM}_{n}") for i, n in enumerate(order)]
    one = traces.write(tmp_path / "capture.json", capture, **A100)
    two = traces.write(tmp_path / "replay.json", replay, **A100)
    with tracekit.load([one, two]) as run:
        assert [row["cause"] for row in run.ask("device_limits")] == causes


def test_a_verdict_by_kernels_of_unknown_limit_gives_ranges(tmp_path):
    events = []
    for i in range(20):
        events += [operator("aten::mm", 20 * i, 10), launch(20 * i + 2, 3, i + 1)]
        events.append(gpu_op(100 + 100 * i, 100, i + 1, name=GEMM))
    with traces.load(tmp_path, events, **A100) as run:
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
    shares = "SELECT count(*), count(cpu_op), min(matched_share) FROM graph_site"
    assert run.fetch(shares)[1] == [(620, 620, 1.0)]


def test_a_real_replay_is_matched_with_its_capture_in_another_trace():
    files = [SHARED_TRACES / f"mi300x-vllm-{part}.json.gz" for part in ("decode", "capture")]
    if not files[0].exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(files) as run:
        sites = run.fetch("""
            SELECT s.trace_id, capture_trace_id, count(*), min(matched_share), min(told_share),
                   count(*) FILTER (cpu_op = 'aten::addmm')
            FROM graph_site AS s GROUP BY ALL
        """)[1]
    assert sites == [(1, 2, 421, 1.0, 1.0, 72)]
