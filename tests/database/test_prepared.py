"""The prepared copy of the vocabulary gives the database that its SQL gives, and is optional.

It and the page's script are read from the user's cache only if nobody else can have written
them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import tracekit
from tests.kit import traces
from tracekit import files
from tracekit.database import packaged, prepared, stored

TRACE = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "user_cache_path", lambda name: folder)
    return folder


def _copies(cache: Path) -> list[Path]:
    return list(cache.glob("*.duckdb"))


def test_the_copy_holds_what_the_statements_make(cache: Path) -> None:
    with duckdb.connect() as connection:
        assert prepared.create_all(connection)
        assert stored.entries(connection, "memory") == stored.ours()


def test_a_database_from_the_copy_has_the_rows_of_one_from_sql(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = traces.operator("aten::mm", 10, 20, [[4, 4], [4, 4]], ["float", "float"])
    events = [traces.step(1, 0, 90), *traces.launched([product], 15, 40, 20, correlation=1)]
    trace = traces.write(tmp_path / "trace.json", events)
    contents = []
    for is_copied in (True, False):
        if not is_copied:
            monkeypatch.setattr(prepared, "_prepared", lambda: None)
        with tracekit.load(trace) as database:
            _, tables = database.fetch("SELECT table_name FROM duckdb_tables() ORDER BY ALL")
            contents.append(
                {
                    name: database.fetch(f"SELECT * FROM {name} ORDER BY ALL")[1]
                    for (name,) in tables
                }
            )
    assert contents[0] == contents[1]
    assert contents[0]["gpu_timeline"] and contents[0]["operator_time"]


@pytest.mark.sampled(4, of=5)
@pytest.mark.parametrize(
    "damage", ["none", "empty", "text", "folder is a file", "others may write"]
)
def test_a_trace_loads_whatever_the_cache_holds(tmp_path: Path, cache: Path, damage: str) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(TRACE)
    if damage == "folder is a file":
        cache.write_text("")
    else:
        tracekit.load(trace).close()
        (copy,) = _copies(cache)
        if damage in ("empty", "text"):
            copy.write_text("" if damage == "empty" else "no database" * 100)
        elif damage == "others may write":
            copy.chmod(0o666)
    # Twice: the first one may remove a damaged copy, the second one makes a new one.
    for _ in range(2):
        with tracekit.load(trace, tmp_path / "t.duckdb") as database:
            assert database.ask("overview")[0]["events"] == 1
    if damage != "folder is a file":
        assert len(_copies(cache)) == 1


def test_a_copy_of_other_sql_is_replaced(tmp_path: Path, cache: Path) -> None:
    cache.mkdir()
    old = cache / "vocabulary-0123456789abcdef.duckdb"
    old.write_text("")
    with duckdb.connect() as connection:
        assert prepared.create_all(connection)
    (copy,) = _copies(cache)
    assert copy != old


def test_a_database_that_holds_something_is_left_alone(cache: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE a (b INTEGER)")
        assert not prepared.create_all(connection)
        assert [each.name for each in stored.entries(connection, "memory")] == ["a"]


@pytest.mark.parametrize("damage", ["none", "no text", "no object", "others may write", "a folder"])
def test_texts_are_those_of_the_files_whatever_the_cache_holds(cache: Path, damage: str) -> None:
    files = [*packaged.root().glob("*.csv"), *packaged.root().glob("*/*.[sc][qs][lv]")]
    whole = {each.relative_to(packaged.root()).as_posix(): each.read_text() for each in files}
    assert packaged.texts.__wrapped__() == whole
    (kept,) = cache.glob("queries-*.json")
    if damage == "others may write":
        kept.write_text(json.dumps(dict.fromkeys(whole, "DROP TABLE event")))
        kept.chmod(0o666)
    elif damage == "a folder":
        kept.unlink()
        kept.mkdir()
    elif damage != "none":
        kept.write_text("" if damage == "no text" else "[1]")
    assert packaged.texts.__wrapped__() == whole


def test_texts_are_read_from_the_cache_until_a_file_changes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged.texts.__wrapped__()
    (kept,) = cache.glob("queries-*.json")
    kept.write_text(json.dumps({"host/a.sql": "-- kept"}))
    assert packaged.texts.__wrapped__() == {"host/a.sql": "-- kept"}
    path, size, changed = packaged.stamps()[0]
    monkeypatch.setattr(packaged, "stamps", lambda: ((path, size, changed + 1),))
    assert list(packaged.texts.__wrapped__()) == [path]
    assert [*cache.glob("queries-*.json")] != [kept]


@pytest.fixture
def script(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """The page's script, as a new process gets it; bundling takes no time."""
    pytest.importorskip("vl_convert")
    from tracekit.reporters.html import page

    monkeypatch.setattr(page.vl_convert, "javascript_bundle", lambda: "bundle")
    return page.vega.__wrapped__


@pytest.mark.sampled(3, of=3)
@pytest.mark.skipif(os.name != "posix", reason="on Windows, user folders are private")
@pytest.mark.parametrize("others", ["write the file", "own the file", "own the folder"])
def test_what_others_can_have_written_is_not_read_from_the_cache(
    cache: Path, script: Callable[[], str], others: str
) -> None:
    if others != "write the file" and os.getuid():
        pytest.skip("only root can give a file to another user")
    cache.mkdir(mode=0o775)
    before = os.umask(0o002)
    try:
        assert script() == "bundle"
        with duckdb.connect() as connection:
            assert prepared.create_all(connection)
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    stored_script, copy = sorted(cache.iterdir(), key=lambda each: each.suffix, reverse=True)
    assert [each.stat().st_mode & 0o777 for each in (stored_script, copy)] == [0o600, 0o600]
    stored_script.write_text("cached")
    assert script() == "cached"
    with duckdb.connect(str(copy)) as connection:
        connection.execute("CREATE TABLE foreign_table (a INTEGER)")
    for each in [cache] if others == "own the folder" else [stored_script, copy]:
        if others == "write the file":
            each.chmod(0o664)
        else:
            os.chown(each, 12345, -1)
    assert script() == "bundle"
    with duckdb.connect() as connection:
        assert prepared.create_all(connection)
        assert stored.entries(connection, "memory") == stored.ours()
