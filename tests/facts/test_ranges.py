"""Annotated ranges as windows: `--window NAME`."""

from __future__ import annotations

from functools import partial

import pytest

import tracekit
from tests.kit.atoms import US, Launch, Slice, Sync, Work, operator
from tests.kit.simulated import write
from tests.kit.simulator import Simulation


def ranged(name, ops, kernel_ns):
    """A range that launches kernels and waits for them."""
    launches = (operator("aten::mm", 20 * US, Launch(6 * US, (("math", kernel_ns),))),) * ops
    return Slice(name, "user_annotation", (*launches, Sync(2 * US)))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    # Prefills that the device bounds, decodes that the host bounds, and Python between them.
    atoms = [
        atom
        for number in range(5)
        for atom in (
            ranged("prefill", 10, 300 * US),
            Work(100 * US),
            ranged("decode", 10 + 2 * number, 3 * US),
        )
    ]
    folder = tmp_path_factory.mktemp("ranges")
    written = write(folder / "t.json", Simulation(atoms))
    tracekit.load(written, folder / "t.duckdb", verdicts=False).close()
    return folder / "t.duckdb"


def test_the_range_of_median_length_is_judged(path):
    with tracekit.open_database(path) as database:
        prefill = database.verdict(window="prefill")
        decode = database.verdict(window="decode")
    assert prefill.verdict.regime == "compute-bound"
    assert decode.verdict.regime == "overhead-bound"
    assert decode.window.name == "decode@3"
    assert decode.window.kind == "range"


@pytest.mark.thorough
def test_one_of_several_ranges_is_chosen_by_its_number(path):
    with tracekit.open_database(path) as database:
        last = database.verdict(window="decode@5")
        first = database.whatif("device*1", window="decode@1")
        with pytest.raises(tracekit.TracekitError, match="there is no number 6"):
            database.verdict(window="decode@6")
        with pytest.raises(tracekit.TracekitError, match="there is no window or range named 'dec'"):
            database.whatif("host*0.5", window="dec")
    assert last.gpu.kernels == 18
    assert first.window == "decode@1"
    assert first.predicted_ns == first.window_ns


def test_the_parts_of_a_range_add_up_to_it(path):
    with tracekit.open_database(path) as database:
        analysis = database.verdict(window="prefill@2")
    gpu, idle = analysis.gpu, analysis.idle
    parts = gpu.compute_ns + gpu.exposed_comm_ns + gpu.exposed_memcpy_ns + gpu.idle_ns
    assert parts == analysis.window.span_ns
    assert gpu.busy_ns >= 10 * 300 * US
    assert sum(idle.causes.values()) == idle.host_late_ns


def test_an_interval_of_the_whole_span_has_the_windows_partition(shared_ask):
    ask = partial(shared_ask, "a100-nccl.json.gz")
    (whole,) = ask("partition", kind="gpu_active")
    (interval,) = ask("interval_partition")
    causes = {row["cause"]: row["idle_ns"] for row in ask("idle_causes", kind="gpu_active")}
    assert interval.pop("causes") == causes
    assert interval.items() <= whole.items()
