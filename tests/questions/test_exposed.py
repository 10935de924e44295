"""Why collectives are exposed: simulated programs with each reason, beside their look-alikes."""

from dataclasses import dataclass, field

import pytest

import tracekit
from tests.controls import CONTROLS
from tests.controls.planting import PAUSE, SYNC, Atoms, products, reading, reduced, steps
from tests.kit.atoms import US, Launch, Op, StreamWait, Sync, Work, line, operator
from tests.kit.programs import random_program
from tests.kit.sampling import sample
from tests.kit.simulated import write
from tests.kit.simulator import Machine, Simulation

MODEL = products(6, 60 * US)
READY, BACK = StreamWait(2 * US, 7, 20), StreamWait(2 * US, 20, 7)
SUM = reduced(300 * US, 1 << 20)
BUCKETS = CONTROLS["overlap_communication"]


def in_turns(*atoms):
    """The model and these atoms three times, and the model."""
    return steps(*[*MODEL, *atoms] * 3, *MODEL, SYNC, PAUSE)


def without_wait_calls(events):
    """Loses the calls that make streams wait."""
    lost = ("cudaStreamWaitEvent", "cudaEventRecord")
    return [each for each in events if each["name"] not in lost]


@dataclass(frozen=True)
class Exposed:
    """A program, the reason for most of its exposed time, and what is said of it."""

    reason: str
    because: str
    atoms: Atoms
    machine: Machine = field(default_factory=lambda: Machine(records_waits=True))
    lose: object = list


def moved(ns: int):
    copy = Op("copy", ns, "Memcpy DtoD (Device -> Device)", {"bytes": 4096})
    return operator("aten::copy_", 4 * US, Launch(5 * US, (copy,), stream=13))


READ_SUM = line("log.py(9): log", operator("aten::item", US, Sync(US, 20)))
PROGRAMS = {
    "the next product needs each sum": Exposed(
        "needed at once", "as recorded", in_turns(READY, SUM, BACK)
    ),
    "the same, with waits that were not recorded": Exposed(
        "needed at once", "by their times", in_turns(READY, SUM, BACK), Machine()
    ),
    "the same, without the calls that make streams wait": Exposed(
        "device full or waiting", "no waits of streams",
        in_turns(READY, SUM, moved(5 * US), BACK), Machine(), without_wait_calls,
    ),
    "sums on the stream of the products": Exposed(
        "same stream", "on its stream", in_turns(reduced(300 * US, 1 << 20, stream=7))
    ),
    "the host reads each sum": Exposed(
        "late host", "cudaStreamSynchronize", in_turns(READY, SUM, READ_SUM)
    ),
    "the host reads each sum, and the next product needs it": Exposed(
        "late host", "cudaStreamSynchronize", in_turns(READY, SUM, BACK, READ_SUM)
    ),
    "the host computes while sums are sent": Exposed(
        "late host", "dispatch", in_turns(Sync(US, 7), READY, SUM, Work(500 * US))
    ),
    "the host computes for less time than sums take that the next product needs": Exposed(
        "needed at once", "as recorded", in_turns(Sync(US, 7), READY, SUM, BACK, Work(150 * US))
    ),
    "an average for a log": Exposed(
        "end of the unit", "no kernel follows", steps(*MODEL, READY, SUM, SYNC, PAUSE)
    ),
    "sums that outlast the products beside them": Exposed(
        "longer than compute", "ends earlier",
        in_turns(READY, SUM, *products(2, 60 * US), BACK),
    ),
    "the host reads a loss before it sends what was ready": Exposed(
        "issued late", "in cudaStreamSynchronize", in_turns(READY, *MODEL, reading(), SUM, BACK)
    ),
    "the host reads a loss before it sends what needs it": Exposed(
        "needed at once", "as recorded", in_turns(*MODEL, reading(), READY, SUM, BACK)
    ),
    "gradients in one bucket": Exposed("issued late", "a bucket of 100.0 MiB", BUCKETS.faulty),
    "the last of four buckets": Exposed("needed at once", "as recorded", BUCKETS.fixed),
}  # fmt: skip


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """The rows of each program, by its name; calls that block the host come with verdicts."""
    folder, paths = tmp_path_factory.mktemp("exposed"), []
    for number, each in enumerate(PROGRAMS.values(), start=1):
        run = Simulation(each.atoms, each.machine)
        times = {"baseTimeNanoseconds": number * 10**15}
        paths.append(write(folder / f"{number}.json", run, each.lose, **times))
    with tracekit.load(paths) as run:
        rows = run.ask("exposed_collectives")
    return {name: [row for row in rows if row["trace_id"] == number]
            for number, name in enumerate(PROGRAMS, start=1)}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_most_of_the_exposed_time_has_the_reason_that_was_planted(name, answered):
    rows, wanted = answered[name], PROGRAMS[name]
    most = max(rows, key=lambda row: row["reason_ns"])
    assert most["reason"] == wanted.reason, rows
    assert wanted.because in most["because"], rows
    assert 2 * most["reason_ns"] > sum(row["reason_ns"] for row in rows), rows


def test_the_call_that_blocks_the_host_is_named_with_its_place(answered):
    rows = answered["the host reads each sum"]
    (late,) = [row for row in rows if row["reason"] == "late host"]
    assert late["look_at"] == "log.py(9): log"


def test_reasons_add_up_to_the_exposed_time_in_random_programs(tmp_path):
    seeds = sample("random programs, for exposed collectives", range(60), range(0, 60, 8))
    paths = []
    for number, seed in enumerate(seeds, start=1):
        atoms, machine = random_program(seed)
        times = {"baseTimeNanoseconds": number * 10**15}
        paths.append(write(tmp_path / f"{seed}.json", Simulation(atoms, machine), **times))
    with tracekit.load(paths, verdicts=False) as run:
        for kind in ("gpu_active", "step"):
            rows = run.ask("exposed_collectives", kind=kind)
            exposed = {
                (row["trace_id"], row["name"]): row["exposed_ns"]
                for row in run.ask("comm_overlap", kind=kind)
                if row["exposed_ns"]
            }
            found, groups = dict.fromkeys(exposed, 0), {}
            for row in rows:
                found[row["trace_id"], row["name"]] += row["reason_ns"]
                key = row["trace_id"], row["name"], row["type"], row["group_name"], row["place"]
                total, parts = groups.get(key, (row["exposed_ns"], 0))
                assert total == row["exposed_ns"] <= row["total_ns"]
                groups[key] = total, parts + row["reason_ns"]
            assert found == exposed
            assert all(total == parts for total, parts in groups.values())
            assert len(exposed) >= 3
