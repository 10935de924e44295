"""Captures of CUDA graphs happen once, unless the same work is captured again and again."""

import pytest

from tests.kit.atoms import MS, US, Call, Launch, Op, Sync, Work, operator, step
from tests.kit.simulated import Programs

TRACES = Programs()
SMALL = operator("aten::add", 9 * US, Launch(6 * US, (("memory-bandwidth", 9 * US),)))


def captured():
    ops = [operator("aten::mm", 3 * US, Call("cudaLaunchKernel", 5 * US, "launch"))] * 20
    return (
        Work(MS, "dispatch"), Call("cudaStreamBeginCapture", 9 * US, "launch"), *ops,
        Call("cudaStreamEndCapture", 9 * US, "launch"),
        Call("cudaGraphInstantiateWithFlags", MS, "compilation"),
    )  # fmt: skip


def replayed(size=8):
    gemms = (Op("math", 50 * US, "gemm", {"grid": [size, 1, 1]}),) * 20
    return Launch(40 * US, gemms, name="cudaGraphLaunch")


def compiled(captures):
    return operator("CompiledFunction", 9 * US, *(captured() if captures else ()), replayed())


def passes(*each):
    return [atom for body in each for atom in (*[SMALL] * 3, *body, Sync(2 * US))]


SIZES = (64, 32, 16, 8)
LAYERS = [[compiled(True) for _ in range(12)]]
CAPTURES = {
    "every other pass": (passes(*([compiled(n % 2 == 0)] for n in range(10))), True),
    "every pass, by hand": (passes(*[[*captured(), replayed()]] * 8), True),
    "every step": ([step(n, SMALL, compiled(True)) for n in range(6)], True),
    "the first two passes": (passes(*([compiled(n < 2)] for n in range(10))), False),
    "one step of three": ([step(n, SMALL, compiled(n % 3 == 0)) for n in range(9)], False),
    "a server's start": (passes(*[captured()] * 4), False),
    "a server's start, each size run once": (
        passes(*([*captured(), replayed(size)] for size in SIZES)), False
    ),
    "layers that are the same": (passes(*LAYERS, *[[compiled(False)] * 12] * 2), False),
}  # fmt: skip
CAPTURING = {TRACES.program([*atoms, Sync(2 * US)]): recurs for atoms, recurs in CAPTURES.values()}


@pytest.mark.parametrize(("trace", "recurs"), CAPTURING.items(), ids=list(CAPTURES))
def test_captures_happen_once_unless_the_same_work_is_captured_again(trace, recurs, analyses):
    analysis = analyses[trace]
    assert any(each.kind == "capture" for each in analysis.one_offs) != recurs
    advised = {each.once for each in analysis.advice if each.remedy == "capture-once"}
    assert advised == {not recurs}
