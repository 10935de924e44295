"""The texts of queries and the page's script are read from the user's cache only if nobody else can
have written them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit import files
from tracekit.database import packaged


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "user_cache_path", lambda name: folder)
    return folder


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


@pytest.mark.sampled(3)
@pytest.mark.skipif(os.name != "posix", reason="on Windows, user folders are private")
@pytest.mark.parametrize("others", ["write the file", "own the file", "own the folder"])
def test_cache_files_that_others_could_have_written_are_not_read(
    cache: Path, script: Callable[[], str], others: str
) -> None:
    if others != "write the file" and os.getuid():
        pytest.skip("only root can give a file to another user")
    cache.mkdir(mode=0o775)
    before = os.umask(0o002)
    try:
        assert script() == "bundle"
        whole = packaged.texts.__wrapped__()
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    stored_script, texts = sorted(cache.iterdir(), key=lambda each: each.suffix)
    assert [each.stat().st_mode & 0o777 for each in (stored_script, texts)] == [0o600, 0o600]
    stored_script.write_text("cached")
    assert script() == "cached"
    texts.write_text("{}")
    assert packaged.texts.__wrapped__() == {}
    for each in [cache] if others == "own the folder" else [stored_script, texts]:
        if others == "write the file":
            each.chmod(0o664)
        else:
            os.chown(each, 12345, -1)
    assert script() == "bundle"
    assert packaged.texts.__wrapped__() == whole
