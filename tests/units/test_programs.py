"""The units of programs that are known by construction, whole and damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.kit.traces import Together, write
from tests.units import programs
from tests.units.programs import Event, Program

DATA = Path(__file__).parents[1] / "data"

TOGETHER = Together()
Run = Callable[[Program], None]
Damage = Callable[[list[Event]], list[Event]]
# The units of a level: their kind, their number, and how many do other work than the rest.
Units = tuple[str, int, int]


def undamaged(events: list[Event]) -> list[Event]:
    return events


def without_some_kernels(share: float) -> Damage:
    """The recorder lost kernels at random, not their launches."""

    def damage(events: list[Event]) -> list[Event]:
        rng = random.Random(1)
        return [e for e in events if e["cat"] != "kernel" or rng.random() >= share]

    return damage


def cut(first: float, last: float) -> Damage:
    """The recording begins and ends after these shares of the program's time."""

    def damage(events: list[Event]) -> list[Event]:
        begin, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
        since, until = begin + first * (end - begin), begin + last * (end - begin)
        host = [e for e in events if e["pid"] == e["tid"] and since <= e["ts"] < until]
        launched = {e["args"]["correlation"] for e in host if e["cat"] == "cuda_runtime"}
        ops = [e for e in events if e["pid"] != e["tid"] and e["args"]["correlation"] in launched]
        return host + ops

    return damage


def case(run: Run, level: int, *units: Units, damage: Damage = undamaged, seed: int = 3) -> Any:
    """What is expected on a level of a program."""

    def make(path: Any, **base: Any) -> None:
        program = Program(seed)
        run(program)
        write(path, damage(program.events), **base)

    name = f"{run.__name__} {level} {damage.__qualname__.partition('.')[0]} {seed}"
    return pytest.param(TOGETHER.add(make), level, units, id=name)


CASES = [
    case(programs.gradient_accumulation, 1, ("step", 5, 0)),
    case(programs.gradient_accumulation, 2, ("pass", 20, 0)),
    case(programs.prefill_and_decodes, 1, ("pass", 10, 1)),
    case(programs.prefill_and_decodes, 2, ("layer", 60, 0)),
    case(programs.mixed_prefills, 1, ("pass", 4, 0)),
    case(programs.mixed_prefills, 2, ("pass", 24, 4)),
    case(programs.chunked_prefill, 1, ("pass", 4, 0), ("pass", 12, 0)),
    case(programs.speculative_decoding, 1, ("pass", 8, 0)),
    case(programs.training_and_evaluation, 1, ("step", 8, 0), ("pass", 6, 0)),
    case(programs.stalling_loader, 1, ("step", 15, 0)),
    case(programs.warm_up, 1, ("step", 10, 0)),
    case(programs.benchmark_loop, 1, ("iteration", 149, 0)),
    case(programs.micro_batches, 1, ("step", 4, 0)),
    case(programs.single_cold_pass, 1, ("pass", 1, 0)),
    case(programs.single_cold_pass, 2, ("layer", 6, 0)),
    case(programs.retried_step, 1, ("step", 9, 1)),
    case(programs.two_models, 1, ("step", 7, 0)),
    case(programs.two_threads, 1, ("pass", 7, 0), ("pass", 9, 0)),
]
DAMAGED = [
    case(programs.gradient_accumulation, 1, ("step", 5, 0), damage=without_some_kernels(1 / 3)),
    case(programs.prefill_and_decodes, 1, ("pass", 10, 1), damage=without_some_kernels(1 / 3)),
    case(programs.stalling_loader, 1, ("step", 15, 0), damage=without_some_kernels(0.1)),
    case(programs.two_models, 1, ("step", 7, 0), damage=without_some_kernels(1 / 3)),
    case(programs.gradient_accumulation, 1, ("step", 5, 0), damage=cut(0.07, 0.93)),
    case(programs.prefill_and_decodes, 1, ("pass", 9, 0), damage=cut(0.25, 0.95)),
    case(programs.two_models, 1, ("step", 6, 0), damage=cut(0.07, 0.93)),
    *(case(programs.stalling_loader, 1, ("step", 15, 0), seed=seed) for seed in range(5)),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with TOGETHER.load(tmp_path_factory.mktemp("programs")) as loaded:
        yield loaded


def families(run, trace: int, level: int) -> list[Units]:
    """The families of units of a level, by their start; parts of several units count as one."""
    return run.sql(
        "SELECT kind, count(*), count(*) FILTER (is_odd) FROM unit"
        f" WHERE trace_id = {trace} AND level = {level}"
        " GROUP BY kind, if(level = 1, ordinal - unit_id, NULL) ORDER BY min(start_ns), count(*)"
    ).rows()


@pytest.mark.parametrize(("trace", "level", "units"), CASES)
def test_what_a_program_repeats_is_found(run, trace, level, units):
    assert families(run, trace, level) == list(units)


@pytest.mark.parametrize(("trace", "level", "units"), DAMAGED)
def test_units_are_found_in_damaged_recordings_and_with_jitter(run, trace, level, units):
    assert families(run, trace, level) == list(units)


def test_only_a_pass_that_loads_its_kernels_is_cold(run):
    cold = {case.values[0] for case in CASES if case.id.startswith("single_cold_pass 1")}
    rows = run.sql("SELECT DISTINCT trace_id FROM unit WHERE level = 1 AND is_cold").rows()
    assert {trace for (trace,) in rows} <= cold | {case.values[0] for case in CASES[13:15]}
    assert rows


def test_units_of_a_level_follow_each_other_and_parts_lie_in_their_whole(run):
    wrong = run.sql(
        "SELECT * FROM unit AS u JOIN unit AS o USING (trace_id, pid, tid, level) WHERE"
        " u.unit_id < o.unit_id AND u.end_ns > o.start_ns AND o.end_ns > u.start_ns"
        " AND u.parent_id IS NOT DISTINCT FROM o.parent_id"
    ).rows()
    outside = run.sql(
        "SELECT * FROM unit AS u JOIN unit AS w"
        " ON u.trace_id = w.trace_id AND u.parent_id = w.unit_id"
        " WHERE u.start_ns < w.start_ns OR u.end_ns > w.end_ns OR u.level <> w.level + 1"
    ).rows()
    assert (wrong, outside) == ([], [])


def test_units_of_traces_that_are_read_together_are_those_of_each_alone(monkeypatch):
    paths = [DATA / f"simulated-program-{number}.json.gz" for number in (23, 30)]
    paths += [DATA / "cpu-train-step.json.gz"]

    def units(*some):
        with tracekit.load(some, verdicts=False) as run:
            sql = "SELECT * EXCLUDE (trace_id) FROM unit ORDER BY trace_id, unit_id"
            return run.session.fetch(sql)[1]

    together = units(*paths)
    assert together == [row for path in paths for row in units(path)]
    monkeypatch.setattr("tracekit.units.rows._MOST_LAUNCHES", 1)
    assert units(*paths) == together
