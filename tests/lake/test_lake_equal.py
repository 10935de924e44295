"""A lake and a folder from the same ranks say the same, question by question."""

import json

import pytest

import tracekit
from tests.conftest import trace_file
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add
from tests.kit.processes import invoke
from tests.kit.ranks_simulated import Job
from tests.kit.sampling import sample
from tracekit.database import catalog
from tracekit.examine import examine_all
from tracekit.run import open_lake

# Columns that depend on a trace's path or number.
_SKIPPED = {"flame_graph": {"node", "parent"}, "diff_flame": {"node", "parent"}}
# Its rows are stored with verdicts.
_OF_VERDICTS = {"who_waits"}
_NAMES = sorted(catalog.queries())
ASKED = sample("questions asked of a lake and of a folder", _NAMES, _NAMES[::20])
_SIZES = [2, *(pytest.param(ranks, marks=pytest.mark.thorough) for ranks in (8, 128))]


@pytest.fixture(scope="module", params=_SIZES)
def both(request, tmp_path_factory):
    """A folder of ranks, the second of which is late, and a lake of them."""
    folder = tmp_path_factory.mktemp(f"ranks{request.param}")
    (folder / "night").mkdir()
    ranks_simulated.write(folder / "night", Job(data=request.param, steps=2, late={1: 9 * MS}))
    # The files are added in two calls, so the lake has two groups.
    assert not add(folder / "lake", folder / "night" / "rank0.json").failed
    assert not add(folder / "lake", folder / "night", judges=True).failed
    return folder


@pytest.mark.thorough
def test_every_question_has_the_same_rows(both):
    with tracekit.load(both / "night", verdicts=False) as plain:
        assert_same_answers(plain, f"{both}/lake/run=night")


def test_verdicts_are_the_same_whether_tables_are_copied_or_read_from_files(both, monkeypatch):
    def judged():
        with open_lake(f"{both}/lake/run=night") as lake:
            of_two = lake.session.in_order()[:2]
            return [each.as_dict() for each in examine_all(lake.session, of_two)]

    copied = judged()
    monkeypatch.setattr("tracekit.lake.binding._MOST_COPIED", 0)
    assert judged() == copied


@pytest.mark.thorough
@pytest.mark.parametrize(
    "names",
    ["v100-dlrm-rank0 v100-dlrm-rank3 v100-dlrm-rank6", "pair-rank0 pair-rank1",
     "mi300x-sglang-graph-decode", "h100-bert-small", "cpu-only"],
)  # fmt: skip
def test_questions_about_real_traces_have_the_same_rows(names, tmp_path):
    paths = [trace_file(f"{name}.json.gz") for name in names.split()]
    assert not add(tmp_path / "lake", *paths, judges=True).failed
    with tracekit.load(paths) as plain:
        assert_same_answers(plain, tmp_path / "lake")


def assert_same_answers(plain, path):
    with open_lake(str(path)) as lake:
        hashes = dict(lake.fetch("SELECT sha256, trace_id FROM trace")[1])
        moved = {
            old: hashes[sha256]
            for old, sha256 in plain.fetch("SELECT trace_id, sha256 FROM trace")[1]
        }
        two = {"a": plain.trace_ids()[0], "b": plain.trace_ids()[-1]}
        has_verdicts = bool(plain.fetch("SELECT trace_id FROM verdict LIMIT 1")[1])
        for name in ASKED:
            if name in _OF_VERDICTS and not has_verdicts:
                continue
            question = catalog.queries()[name]
            given = {each.name: 10**6 for each in question.parameters if each.name == "top"}
            given |= two if name.startswith("diff_") else {}
            here = plain.query(name, **given)
            there = lake.query(name, **{key: moved.get(n, n) for key, n in given.items()})
            assert [each for each in there.columns if each in here.columns] == here.columns, name
            assert {*there.columns} - {*here.columns} <= {"run", "rank"}, name
            skipped = {"path", *_SKIPPED.get(name, ())}
            want = [row_text(here.columns, row, skipped, moved) for row in here.iter_rows()]
            rows = there.select(here.columns).iter_rows()
            found = [row_text(here.columns, row, skipped, {}) for row in rows]
            assert sorted(found) == sorted(want), name


def row_text(columns, row, skipped, moved):
    return repr([
        moved.get(value, value) if column.endswith("trace_id")
        else float(f"{value:.9g}") if isinstance(value, float)
        else value
        for column, value in zip(columns, row, strict=True)
        if column not in skipped
    ])  # fmt: skip


def plain_of(analysis):
    found = dict(analysis)
    found["trace"] = {
        name: value for name, value in found["trace"].items() if name not in ("path", "trace_id")
    }
    for each in found["trace"]["health"]:
        each.pop("trace_id", None)
    return found


@pytest.mark.thorough
def test_every_verdict_is_the_same(both):
    told = [json.loads(invoke("analyze", each, "--json").stdout)
            for each in (f"{both}/night", f"{both}/lake/run=night")]  # fmt: skip
    numbers = [{each["trace"]["trace_id"] for each in one["analyses"]} for one in told]
    plain, lake = (
        json.loads(without_trace_ids(one, ids)) for one, ids in zip(told, numbers, strict=True)
    )
    assert lake["run"] == plain["run"]
    assert lake["run"]["pace_rank"] == 1
    ranks = [
        {each["trace"]["rank"]: plain_of(each) for each in one["analyses"]}
        for one in (plain, lake)
    ]  # fmt: skip
    assert ranks[1] == ranks[0]


def without_trace_ids(told, ids):
    """JSON in which each trace_id is the rank."""
    ranks = {each["trace"]["trace_id"]: each["trace"]["rank"] for each in told["analyses"]}

    def moved(value):
        if isinstance(value, dict):
            return {
                key: ranks.get(each, each) if key.endswith("trace_id") else moved(each)
                for key, each in value.items()
            }
        return [moved(each) for each in value] if isinstance(value, list) else value

    return json.dumps(moved(told))


@pytest.mark.thorough
def test_advice_on_one_rank_knows_the_others(both):
    done = invoke("advise", f"{both}/lake/run=night/rank=0", "--json")
    found = json.loads(done.stdout)["advice"]
    assert (found[0]["remedy"], found[0]["where"]) == ("waiting-for-a-rank", "rank 1")
