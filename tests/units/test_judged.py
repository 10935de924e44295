"""A run is judged by what it does again and again, and compared by that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import tracekit
from tests.kit.traces import Together, operator, slice_event, step, write
from tests.units import programs
from tests.units.programs import LAYER, Program
from tracekit.compare.diff import diff
from tracekit.reporters import first_screen

RUNS = Together()


def recorded(*runs: Callable[[Program], None]) -> int:
    """The program's trace."""

    def make(path: Path, **base: object) -> None:
        program = Program(3)
        for run in runs:
            run(program)
        write(path, program.events, **base)

    return RUNS.add(make)


def start_up(program: Program) -> None:
    begin = program.now
    program.rest(400_000)
    program.events.append(operator("aten::normal_", begin, program.now - begin))


def lose_launches(program: Program) -> None:
    program.events = [
        event
        for number, event in enumerate(program.events)
        if event["cat"] != "cuda_runtime" or number % 4 == 0
    ]


def marked(lengths_us: Iterable[float], kernels: Callable[[float], int]) -> int:
    """Steps of these lengths on the host, each with a number of kernels that follows from it."""

    def run(program: Program) -> None:
        for number, us in enumerate(lengths_us):
            begin = program.now
            for _ in range(kernels(us)):
                program.kernel("gemm", 5, 20)
            program.read()
            program.now = max(program.now, begin + us)
            program.events.append(step(number, begin, program.now - begin))

    return recorded(run)


def layers(count: int, us: float) -> int:
    """A pass that was cut off after some of its layers."""

    def run(program: Program) -> None:
        program.copy()
        program.kernel("embedding")
        for _ in range(count):
            program.kernels(LAYER, us)

    return recorded(run)


def host_steps(lengths_ms: Iterable[float]) -> int:
    """Marked steps of a run without a device."""

    def make(path: Path, **base: object) -> None:
        events, now = [], 0.0
        for number, ms in enumerate(lengths_ms):
            events += [step(number, now, 1000 * ms), operator("aten::mm", now + 1, 900 * ms)]
            now += 1000 * ms
        write(path, events, **base)

    return RUNS.add(make)


def served(kind: str) -> int:
    """Steps of an inference server, as vLLM annotates them."""
    name = {"prefill": "execute_context_1(64_4096)_generation_0(0)",
            "decode": "execute_context_0(0)_generation_32(32)"}[kind]  # fmt: skip

    def run(program: Program) -> None:
        for _ in range(4):
            begin = program.now
            program.forward()
            program.read()
            span = program.now - begin
            program.events.append(slice_event("user_annotation", name, begin, span))

    return recorded(run)


DECODES = recorded(programs.prefill_and_decodes)
LOOP = recorded(lambda program: program.kernel("init"), programs.benchmark_loop)
# Three quarters of its launches were not recorded.
UNLINKED = recorded(lambda program: program.kernel("init"), programs.benchmark_loop, lose_launches)
LATE = recorded(start_up, programs.prefill_and_decodes)
COLD = recorded(programs.single_cold_pass)
ONE_LONG = marked((2_300, 2_300, 5_000), kernels=lambda us: 40 if us < 3_000 else 200)
SHORT, LONG = layers(30, 40), layers(34, 60)
FALLING = host_steps((36, 31, 26, 20, 14, 9, 6, 6, 6, 6))
SETTLED = host_steps((10, 10, 10, 10, 10, 10, 10, 10, 10, 10))
PREFILLS, SERVED_DECODES = served("prefill"), served("decode")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with RUNS.load(folder) as database, database.session.sharing():
        yield database


def screen(run: tracekit.Database, trace: int, capsys: pytest.CaptureFixture[str]) -> str:
    first_screen.render(run.verdict(trace))
    return " ".join(capsys.readouterr().out.split())


def test_the_decodes_after_a_prefill_are_judged_and_it_has_a_line(runs, capsys):
    analysis = runs.verdict(DECODES)
    decodes, prefill = analysis.units
    assert (decodes.count, decodes.is_main, prefill.count, prefill.is_main) == (9, True, 1, False)
    assert decodes.verdict == analysis.verdict.regime == "overhead-bound"
    assert prefill.verdict == "compute-bound"
    assert analysis.judged.window.span_ns < 1.2 * decodes.median_ns
    shown = screen(runs, DECODES, capsys)
    assert "9 passes of " in shown and ", median " in shown
    assert "Beside them: 1 pass of" in shown


def test_a_gap_before_a_loop_is_not_judged(runs):
    analysis = runs.verdict(LOOP)
    assert analysis.judged.window.name == "149 iterations"
    assert analysis.judged.gpu.busy_ns > 0.97 * analysis.judged.window.span_ns
    assert analysis.verdict.regime == "compute-bound"
    assert 0.5 < analysis.happened.share < 0.6


def test_a_loop_of_ops_without_launches_is_not_judged_by_the_hosts_clock(runs):
    analysis = runs.verdict(UNLINKED)
    assert 2 * analysis.gpu.linked < analysis.gpu.gpu_ops
    assert (analysis.judged.window.kind, analysis.steps) == ("gpu_active", [])


def test_a_start_before_the_first_unit_is_a_note(runs):
    late, usual = runs.verdict(LATE), runs.verdict(DECODES)
    assert late.verdict.bottleneck == usual.verdict.bottleneck
    assert late.headline.partition(" (")[0] == usual.headline.partition(" (")[0]
    assert any("Not judged: 379 ms before" in note for note in late.verdict.notes)


def test_a_cold_recording_says_so_first_and_is_never_sure(runs):
    verdict = runs.verdict(COLD).verdict
    assert verdict.headline.startswith("This recording is cold: ")
    assert verdict.confidence != "high"


def test_of_two_equal_steps_and_one_that_does_more_an_equal_one_is_judged(runs):
    analysis = runs.verdict(ONE_LONG)
    assert analysis.judged.window.name in ("ProfilerStep#0", "ProfilerStep#1")
    assert [each.count for each in analysis.units if each.is_main] == [2]


def test_a_run_that_settles_is_compared_by_its_settled_steps(runs):
    assert [each.trend for each in runs.verdict(FALLING).units] == ["settling"]
    assert diff(runs.session, FALLING, SETTLED).ratio == pytest.approx(10 / 6, rel=0.02)


def test_passes_that_were_cut_off_are_compared_by_their_layers(runs):
    compared = diff(runs.session, SHORT, LONG)
    assert compared.title.startswith("b takes 1.")
    assert compared.title.endswith("for each layer (30 layers in a, 34 layers in b)")
    # In the look-alike, both ran equally many layers.
    assert "layer" not in diff(runs.session, SHORT, SHORT).title


def test_prefills_and_decodes_are_not_compared(runs):
    compared = diff(runs.session, PREFILLS, SERVED_DECODES)
    assert compared.title == (
        "The two do different work, prefills in a and decodes in b, so their lengths do not compare"
    )
    assert compared.ratio is None


@pytest.mark.parametrize("trace", [DECODES, LOOP, LATE, ONE_LONG])
def test_what_lies_outside_of_steps_adds_up_with_them(trace, runs):
    rows = runs.ask("outside_units", trace=trace)
    (whole,) = runs.ask("partition", trace=trace, kind="trace")
    assert sum(row["part_ns"] for row in rows) == whole["span_ns"]
    assert all(row["part_ns"] > 0 for row in rows)
    assert {row["part"] for row in rows} >= {"steps"}


def test_a_window_may_be_a_kind_of_units_and_its_number(runs):
    usual, third = (runs.verdict(DECODES, window=each) for each in ("pass", "pass@3"))
    assert (usual.judged.window.kind, third.judged.window.name) == ("step", "pass 3")
    assert runs.whatif("host*0.5", trace=DECODES, window="pass@3").window == "pass 3"
    with pytest.raises(tracekit.TracekitError, match="there is no number 99: only 10 have that"):
        runs.verdict(DECODES, window="pass@99")
