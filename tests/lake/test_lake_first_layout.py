"""A lake of the first layout is read and added to: an upgrade costs no history."""

import json
import shutil

import pytest

from tests.conftest import OWN_TRACES
from tests.kit.lakes import add, files_in_use, in_first_layout, statuses, write_rank
from tracekit.lake.layout import MARK
from tracekit.lake.upkeep import clean
from tracekit.run import open_lake

ODD = "lr=3e-4 bs/8"
SHOWN = "SELECT run, rank, regime, sentence FROM verdict JOIN trace USING (trace_id) ORDER BY ALL"


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """A folder with the lake `now` of two runs, and the same ranks in the first layout."""
    folder = tmp_path_factory.mktemp("lakes")
    for rank in range(2):
        write_rank(folder / "odd", rank, 2)
    add(folder / "now", folder / "odd", run=ODD, judges=True)
    source = folder / "night" / "simulated.json.gz"
    source.parent.mkdir()
    shutil.copy(OWN_TRACES / "simulated-overhead-bound.json.gz", source)
    add(folder / "now", source)
    in_first_layout(folder / "now", folder / "first")
    return folder


@pytest.fixture
def first(lakes, tmp_path):
    return shutil.copytree(lakes / "first", tmp_path / "first")


def told(lake):
    with open_lake(str(lake)) as opened:
        answers = [
            sorted(opened.query(name).rows(), key=str)
            for name in ("run_metrics", "partition", "idle_causes", "overview", "health")
        ]
        return opened.notes, answers, opened.fetch(SHOWN)[1]


def test_the_first_layout_says_what_the_present_one_does(lakes):
    _, answers, verdicts = told(lakes / "now")
    notes, before, judged = found = told(lakes / "first")
    assert (before, judged) == (answers, verdicts)
    assert {(run, rank) for run, rank, *_ in answers[0]} == {(ODD, 0), (ODD, 1), ("night", None)}
    assert {row[:2] for row in verdicts} == {(ODD, 0), (ODD, 1)}
    assert notes[0].startswith("3 of 3 ranks are from another version of tracekit: their figures")
    with open_lake(f"{lakes}/first/run={ODD.replace('/', '%2F')}/rank=1") as part:
        assert part.fetch("SELECT run, rank, labels FROM trace")[1] == [(ODD, 1, None)]
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (the extra `lake`)")
    fs = fsspec.filesystem("memory")
    fs.put(str(lakes / "first"), "/first", recursive=True)
    try:
        assert told("memory://first") == found
    finally:
        fs.rm("/first", recursive=True)


def test_adding_keeps_what_is_there_and_replaces_what_is_new(lakes, first, tmp_path):
    write_rank(tmp_path / "new", 0, 1)
    assert statuses(add(first, tmp_path / "new")) == ["added"]
    assert json.loads((first / MARK).read_text())["layout"] == 2
    assert statuses(add(first, lakes / "odd" / "trace_rank1.json", run=ODD, judges=True)) == [
        "replaced"
    ]
    before = told(first)
    notes, answers, verdicts = before
    assert notes[0].startswith("2 of 4 ranks")
    assert {row[:2] for row in answers[0]} == {(ODD, 0), (ODD, 1), ("night", None), ("new", 0)}
    assert {row[:2] for row in verdicts} == {(ODD, 0), (ODD, 1)}
    removed = clean(str(first), 0).removed
    assert any(f"/run={ODD.replace('=', '%3D').replace('/', '%2F')}/rank=1/" in e for e in removed)
    assert told(first) == before
    left = {each.relative_to(first).as_posix() for each in first.rglob("*.parquet")}
    assert left == files_in_use(first)


def test_questions_that_need_events_are_refused_in_one_line(lakes, run, tmp_path):
    for command in ("advise", "whatif host*0.5", "report -o p", "export -o e.json"):
        name, *given = command.split()
        done = run(name, f"{lakes}/first/run=night", *given)
        assert (done.returncode, done.stdout) == (2, "")
        assert "events cannot be read: run `tracekit lake add`" in done.stderr.splitlines()[-1]
        assert [*tmp_path.iterdir()] == []


def test_a_manifest_that_is_not_sound_is_refused_in_one_line(first, refused):
    (path,) = (first / "manifests" / "run=night").iterdir()
    sound = json.loads(path.read_text())
    for changed in (
        {"token": "../../x"}, {"run": "other"}, {"name": "rank=0"}, {"files": {"trace": "x"}},
    ):  # fmt: skip
        path.write_text(json.dumps(sound | changed))
        assert "manifest" in refused("query", "run_metrics", str(first)), changed
