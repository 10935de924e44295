"""What a verdict suggests to try next: nothing that the run does already."""

import inspect
import re

import pytest

from tests.kit.traces import Together, device, gpu_op, launch, operator
from tracekit.causes import words
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Launch
from tracekit.verdict.next_steps import next_step

NEXT = words("next")
A100 = "NVIDIA A100-SXM4-80GB"


def step_for(bottleneck, graph_share=0.0, compiled_share=None):
    given = Launch(
        count=100,
        delay_p50_ns=6000,
        delay_p90_ns=9000,
        first_delay_p50_ns=6000,
        launch_call_p50_ns=5000,
        queue_depth_p50=1,
        dispatch_per_launch_ns=10_000,
        graph_share=graph_share,
        compiled_share=compiled_share,
    )
    return next_step(bottleneck, given, Thresholds())


@pytest.mark.parametrize("bottleneck", ["launch", "dispatch", "python"])
def test_work_in_graphs_gets_no_advice_to_capture_or_compile_it(bottleneck):
    assert "torch.compile" in step_for(bottleneck, 0.4) or bottleneck == "launch"
    assert step_for(bottleneck, 0.4) == NEXT[bottleneck]
    captured = step_for(bottleneck, 0.6)
    assert "torch.compile" not in captured
    assert "capture the step" not in captured


@pytest.mark.parametrize("bottleneck", ["dispatch", "python", "memory-bandwidth"])
def test_inductors_kernels_get_no_advice_to_compile_them(bottleneck):
    compiled = step_for(bottleneck, compiled_share=0.9)
    assert compiled != NEXT[bottleneck]
    assert "torch.compile the model" not in compiled
    assert "fuse neighboring" not in compiled


def test_other_bottlenecks_keep_their_advice():
    assert step_for("math", 1.0, 1.0) == NEXT["math"]
    assert next_step("python", None, Thresholds()) == NEXT["python"]


def replays():
    for number in range(1, 21):
        at = 1000 * number
        yield from (operator("aten::run", at, 500), launch(at + 400, 20, number, "cudaGraphLaunch"))
        yield from (gpu_op(at + 430, 20, number), gpu_op(at + 455, 20, number))


TRACES = Together()
PRODUCTS = [launch(10 * i, 5, i) for i in range(1, 41)]
PRODUCTS += [gpu_op(20 + 100 * i, 99, i, name="my_kernel") for i in range(1, 41)]
SHAPELESS = TRACES.events(PRODUCTS, **device(A100))
SHAPED = TRACES.events(PRODUCTS, **device(A100), record_shapes=1)
REPLAYED = TRACES.events(list(replays()), **device(A100))


@pytest.mark.parametrize(("trace", "is_told"), [(SHAPELESS, True), (SHAPED, False)])
def test_recorded_shapes_are_not_asked_for_again(trace, is_told, loaded):
    verdict = loaded.verdict(trace).verdict
    (missing,) = (row for row in loaded.ask("missing", trace=trace) if row["code"] == "no_shapes")
    assert verdict.bottleneck == "math-or-memory"
    for each in [*verdict.try_next, missing["message"]]:
        assert ("record_shapes=True" in each) == is_told


def test_replays_of_a_graph_get_no_advice_to_capture_a_graph(loaded):
    verdict = loaded.verdict(REPLAYED).verdict
    assert verdict.regime == "overhead-bound"
    assert not any("as in a CUDA graph" in why for why in verdict.why)
    assert not any("torch.compile" in each for each in verdict.try_next)


def test_pytorch_takes_the_arguments_that_are_advised():
    profiler = pytest.importorskip("torch").profiler
    taken = inspect.signature(profiler.profile).parameters
    for text in words("record").values():
        for schedule in re.findall(r"torch\.profiler\.schedule\(([^()]*)\)", text):
            assert callable(eval(f"schedule({schedule})", {"schedule": profiler.schedule}))
        apart = re.sub(r"schedule\([^()]*\)|Event\([^()]*\)", "", text)
        assert set(re.findall(r"\b([a-z_]+)=", apart)) <= taken.keys(), text
