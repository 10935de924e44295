"""A part of a trace is a valid trace, and agrees with the whole trace on its events."""

import json

import click
import pytest

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit import traces
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.perfetto.part import PartChoice

# For each trace, a step with others before and after it.
STEPS = {
    "a100-nccl.json.gz": 5,
    "mi300x-resnet-checkpoint.json.gz": 16,
    "a100-diff-control.json.gz": 1011,
    "v100-ns-resolution.json.gz": 103,
    "v100-compiled-ddp.json.gz": 4,
}
RANK = "simulated-2-ranks-rank0.json.gz"


@pytest.fixture
def overhead(shared_database):
    return shared_database("simulated-overhead-bound.json.gz")


def export(database, *arguments):
    cli.main(["export", database.name, *map(str, arguments)], standalone_mode=False)


def said(run, window):
    found = run.verdict(window=window)
    verdict = found.verdict
    return found.judged.window, found.gpu, verdict.regime, verdict.bottleneck


def events(path):
    return json.loads(path.read_text())["traceEvents"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "step"), {RANK: 1, **STEPS}.items())
def test_the_verdict_on_a_step_is_that_of_the_whole_trace(name, step, shared_database, tmp_path):
    whole = shared_database(name)
    count = PartChoice(step=step).write(whole.session, tmp_path / "part.json")
    with tracekit.load(tmp_path / "part.json", verdicts=False) as part:
        assert part.traces()[0]["events"] == count < whole.traces()[0]["events"]
        window = f"ProfilerStep#{step}"
        assert said(part, window) == said(whole, window)
        assert [row["name"] for row in part.ask("replay_steps")] == [window]
        # Its events equal those of the whole trace, and do not refer to missing events.
        unlinked = "SELECT count(*) FROM gpu_ops WHERE launch_id IS NULL"
        assert part.fetch(unlinked)[1] <= whole.fetch(unlinked)[1]
        loose = "SELECT flow_id FROM flows GROUP BY flow_id, category HAVING count(*) = 1"
        assert set(part.fetch(loose)[1]) <= set(whole.fetch(loose)[1])
        assert name == RANK or part.fetch("SELECT count(*) > 100 FROM flows")[1] == [(True,)]


def test_an_interval_has_all_that_overlaps_it_with_its_launches(overhead, tmp_path):
    export(overhead, "-o", tmp_path / "part.json", "--from", "1", "--to", "2")
    start = overhead.traces()[0]["start_ns"]
    inside = f"WHERE start_ns <= {start + 2_000_000} AND end_ns >= {start + 1_000_000}"
    ((expected,),) = overhead.fetch(f"SELECT count(*) FROM kernels {inside}")[1]
    linked = f"SELECT count(*) FROM gpu_ops {inside} AND kind = 'kernel' AND launch_id IS NOT NULL"
    with tracekit.load(tmp_path / "part.json", verdicts=False) as part:
        assert part.fetch(linked)[1] == [(expected,)]
    assert expected > 0


def test_a_part_is_no_larger_than_allowed(overhead, tmp_path):
    path = tmp_path / "part.json"
    for max_mb in (0.004, 0.008, 0.012):
        PartChoice(max_mb=max_mb).write(overhead.session, path)
        assert max_mb / 2 < len(path.read_bytes()) / 1e6 <= max_mb
    with pytest.raises(TracekitError, match="even one event exceeds this limit"):
        PartChoice(max_mb=0.0001).write(overhead.session, path)


def test_a_range_is_a_part_by_its_name_and_number(tmp_path):
    text = []
    for number, at in enumerate((0, 100, 200)):
        text += [
            traces.slice_event("user_annotation", "eval", at, 50),
            *traces.launched(
                [traces.operator("aten::mm", at + 10, 20)], at + 15, at + 25, 9, number
            ),
        ]
    with traces.load(tmp_path, text) as run:
        run.export(tmp_path / "part.json", window="eval@2")
    assert sorted(each["ts"] for each in events(tmp_path / "part.json")) == [100, 110, 115, 125]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--step", "77"], "has no step 77; its steps: "),
        (["--window", "nope"], "there is no window or range named 'nope'"),
        (["--rank", "9"], "has no rank 9; its ranks are unknown"),
        (["--from", "99999"], "nothing is there: it lasts "),
        *(
            ([option, value], f"must be below 1e12, not {value}")
            for option, value in (("--from", "nan"), ("--to", "inf"), ("--max-mb", "nan"))
        ),
        (["--step", "1", "--window", "trace"], "choose one of --step, --window, and --from"),
        (["--step", "1", "--format", "speedscope"], "a part is written as a trace"),
    ],
)
def test_missing_things_are_reported_in_one_line(given, message, overhead, tmp_path):
    refused = (TracekitError, click.UsageError)
    with pytest.raises(refused, match=f"^[^\n]*{message}[^\n]*$"):
        export(overhead, "-o", tmp_path / "part.json", *given)
    assert not (tmp_path / "part.json").exists()


def test_a_rank_is_chosen_out_of_several(tmp_path):
    ranks = [OWN_TRACES / f"simulated-2-ranks-rank{rank}.json.gz" for rank in (0, 1)]
    with tracekit.load(ranks, tmp_path / "run.duckdb", verdicts=False) as run:
        export(run, "-o", tmp_path / "one.json", "--rank", "1")
    assert json.loads((tmp_path / "one.json").read_text())["distributedInfo"]["rank"] == 1
