"""`analyze` of several traces: side by side up to three, beyond that a row each."""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.kit import ranks_simulated
from tests.kit.atoms import MS, US, Launch, operator, step
from tests.kit.ranks_simulated import Job
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.commands import cli
from tracekit.reporters import several
from tracekit.reporters.parts import devices_of
from tracekit.run import load


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    steps = [
        step(number, *[operator("aten::mm", 20 * US, Launch(5 * US, (("math", 9 * US),)))] * 20)
        for number in range(3)
    ]
    path = write(tmp_path_factory.mktemp("several") / "run.json", Simulation(steps))
    with load(path, verdicts=False) as run:
        return run.verdict()


def like(analysis, path, number=1, rank=None, regime="overhead-bound", cause="dispatch"):
    trace = replace(analysis.trace, path=path, trace_id=number, rank=rank)
    verdict = replace(analysis.verdict, regime=regime, bottleneck=cause)
    return replace(analysis, trace=trace, verdict=verdict)


def printed(analyses, capsys):
    several.render(analyses)
    return capsys.readouterr().out.splitlines()


def test_hundreds_of_traces_have_a_row_each_that_fits(analysis, capsys):
    many = [
        like(
            analysis,
            f"/data/2026-11/{'a_long_name_of_a_host_' * 2}{number}.json.gz",
            number,
            rank=number,
            regime="compute-bound" if number % 3 else "overhead-bound",
            cause="memory-bandwidth" if number % 3 else "dispatch",
        )
        for number in range(300)
    ]
    heading, *_ = lines = printed(many, capsys)
    assert heading.split() == ["trace", "rank", "window", "busy", "verdict", "worth", "most"]
    assert max(map(len, lines)) <= 100
    table = lines[1:301]
    assert [row.split()[1] for row in table] == [str(number) for number in range(300)]
    assert all("memory-bandwidth" in row for row in table[1:3])
    told = " ".join(lines[301:])
    assert told.startswith("300 traces: 200 compute-bound (by memory-bandwidth 200); 100 over")


def test_the_end_of_a_long_name_is_what_is_shown(analysis, capsys):
    many = [like(analysis, f"/runs/{'x' * 60}/rank{number}.json", number) for number in range(4)]
    assert [row.split()[0][-5:] for row in printed(many, capsys)[1:5]] == [
        "rank0", "rank1", "rank2", "rank3",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_two_or_three_stand_side_by_side(analysis, count, capsys):
    few = [like(analysis, f"/runs/{number}/trace.json", number) for number in range(count)]
    lines = printed(few, capsys)
    assert lines[0].split() == [f"{number}/trace" for number in range(count)]
    assert lines[1].split()[:2] == ["verdict", "overhead-bound"]
    assert " ".join(lines[1:3]).count("overhead-bound") == count


def test_names_keep_only_what_differs(analysis):
    given = ["/a/b/one/rank0.json.gz", "/a/b/two/rank0.json.zst", "/a/b/two/rank1.pt.trace.json"]
    assert several.titles([like(analysis, path) for path in given]) == [
        "one/rank0", "two/rank0", "two/rank1",
    ]  # fmt: skip
    twice = [like(analysis, "/a/rank0.json", number) for number in (1, 2)]
    assert several.titles(twice) == ["rank0 (1)", "rank0 (2)"]


def test_hostile_names_and_unknown_verdicts_do_no_harm(analysis, capsys):
    many = [
        like(analysis, "/a/\x1b[31mred\u202e.json", number, regime="unknown", cause=None)
        for number in range(4)
    ]
    lines = printed(many, capsys)
    assert not set("\x1b\u202e") & set("\n".join(lines))
    assert lines[-1].startswith("4 traces: 4 unknown; windows from")


def test_a_device_without_a_name_is_not_taken_for_none(analysis):
    def of(devices, **other):
        return devices_of(
            replace(analysis, trace=replace(analysis.trace, devices=devices), **other)
        )

    assert of(["A", "A", "B"]) == "2 x A, B"
    assert of([""], top_kernels=[]) == of([], top_kernels=[]) == "unnamed device"
    assert of([], gpu=None, host=object()) == "CPU only"

    def of_kernels(*names):
        return of([], top_kernels=[{"name": name} for name in names])

    assert of_kernels("ampere_sgemm_128x64_nn", "volta_sgemm_32x32") == (
        "unnamed device (by its kernels, perhaps NVIDIA Ampere or newer)"
    )
    assert "Hopper" in of_kernels("sm80_xmma_gemm", "nvjet_sm90_tst_128x64")
    assert "CDNA 3" in of_kernels("Cijk_Ailk_Bljk_MT128x64x16_ISA942_IU1", "gfx942_conv")
    assert of_kernels("vectorized_elementwise_kernel") == "unnamed device"
    assert of([], gpu=None) == "no device"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The database of five ranks, of which one is late."""
    folder = tmp_path_factory.mktemp("job")
    ranks_simulated.write(folder, Job(data=5, steps=2, late={2: 3 * MS}))
    load(folder, folder / "run.duckdb").close()
    return str(folder / "run.duckdb")


def invoke(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_ranks_that_agree_are_one_line(job):
    lines = invoke("analyze", job).stdout.splitlines()
    shown = [line.split()[:4] for line in lines if line.startswith(("4 like", "rank"))]
    assert [each[:3] for each in shown] == [["4", "like", "rank0"], ["rank2", "2", "3.31"]]


def test_advice_on_a_run_is_on_the_rank_that_sets_its_pace(job):
    done = invoke("advise", job, "--json")
    assert "advice on rank 2, which sets the pace" in done.stderr
    assert json.loads(done.stdout)["advice"][0]["remedy"] == "python-lines"


def test_stragglers_begin_with_the_rank_to_blame(job):
    rows = json.loads(invoke("query", "stragglers", job, "--json").stdout)
    assert [each["rank"] for each in rows[:2]] == [2] * 2
    assert {each["rank"] for each in rows} == set(range(5))
