"""Copies of what many questions read: the same answers, sooner, and nothing left behind."""

import threading

import pytest

import tracekit
from tests.conftest import own_trace_names, trace_file
from tracekit.database import kept, reader
from tracekit.database.kept import Kept, needed_by

# Every kept relation, as questions read it, and relations that read several of them.
READ = [
    *kept._VIEWS,
    "worked_operators()",
    "worked_operators(also_captures := TRUE)",
    "measured_work()",
    "collectives()",
    "timed_collectives()",
    "matched_collectives()",
    "awaited_collectives()",
    "fusable_pairs()",
    "gpu_op_origin",
]


def loaded():
    return tracekit.load([trace_file(name) for name in own_trace_names()])


@pytest.fixture(scope="module")
def several():
    """A database of several traces."""
    with loaded() as database:
        yield database


@pytest.fixture(scope="module")
def keeping():
    with loaded() as database, database.keeping():
        yield database


@pytest.mark.parametrize("relation", READ)
def test_copies_hold_the_same_rows(relation, keeping):
    query = f"FROM {relation}"
    for trace in (None, 2):
        with keeping._plain({"trace": trace}) as cursor:
            plain = cursor.execute(query).fetchall()
        answer = keeping.fetch(query, {"trace": trace})[1]
        assert sorted(map(repr, answer)) == sorted(map(repr, plain))


def test_each_copy_comes_after_those_that_it_is_made_from():
    names = [*kept._VIEWS, *kept._MACROS]
    for at, name in enumerate(names):
        assert set(needed_by(f"FROM {name}")) <= set(names[: at + 1])


def test_a_question_reads_copies_through_other_relations():
    assert needed_by("FROM fusable_pairs()")[-2:] == ["worked_operators", "measured_work"]
    assert needed_by("FROM aligned_clocks()")[-2:] == ["matched_collectives", "awaited_collectives"]
    assert needed_by("SELECT 1") == []


def test_nothing_is_kept_after_a_verdict(several):
    with several.keeping():
        several.ask("overview")
    listed = several.sql("SELECT database_name AS name FROM duckdb_databases() WHERE NOT internal")
    assert not [name for name in listed["name"] if "kept" in name]


def test_a_parameter_of_one_question_is_not_one_of_the_next(several):
    sql = "SELECT getvariable('top'), getvariable('trace')"
    with several.keeping():
        assert several.fetch(sql, {"top": 3, "trace": 1})[1] == [(3, 1)]
        assert several.fetch(sql, {"trace": 2})[1] == [(None, 2)]
        assert several.fetch(sql, {})[1] == [(None, None)]


def test_a_question_that_fails_leaves_the_next_one_its_copies(several):
    with several.keeping():
        with pytest.raises(tracekit.TracekitError):
            several.fetch("SELECT error('no') FROM slices")
        assert several.fetch("SELECT count(*) > 0 FROM slices")[1] == [(True,)]


def test_copies_cannot_be_changed_by_a_query(several):
    with several.keeping(), pytest.raises(tracekit.TracekitError, match="read-only"):
        several.fetch("SELECT count(*) FROM slices")
        several.fetch(f"DELETE FROM {several._kept._name}.slices")


def test_of_large_traces_nothing_is_kept(several, monkeypatch):
    monkeypatch.setattr(reader, "_FEW_EVENTS", 0)
    monkeypatch.delitem(several.__dict__, "_is_small", raising=False)
    with several.keeping():
        assert several._kept is None
    several.__dict__.pop("_is_small")


def test_databases_on_one_file_keep_copies_at_once(tmp_path):
    path = tmp_path / "t.duckdb"
    tracekit.load(trace_file(own_trace_names()[0]), path).close()
    sql = "SELECT count(*) FROM slices"
    with (
        tracekit.open_database(path) as a,
        tracekit.open_database(path) as b,
        a.keeping(),
        b.keeping(),
    ):
        assert a.fetch(sql) == b.fetch(sql)


def test_a_copy_is_made_once_for_questions_side_by_side(several, monkeypatch):
    made = []

    def counted(self, cursor, name):
        made.append(name)
        make(self, cursor, name)

    make = Kept._make_one
    monkeypatch.setattr(Kept, "_make_one", counted)
    with several.keeping():
        asked = [
            threading.Thread(target=several.fetch, args=["FROM measured_work()"]) for _ in range(3)
        ]
        for each in asked:
            each.start()
        for each in asked:
            each.join()
    assert len(made) == len(set(made)) > 0
