"""The page's script is read from the user's cache only if nobody else can have written it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit import files


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "user_cache_path", lambda name: folder)
    return folder


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
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    (stored,) = cache.iterdir()
    assert stored.stat().st_mode & 0o777 == 0o600
    stored.write_text("cached")
    assert script() == "cached"
    changed = cache if others == "own the folder" else stored
    if others == "write the file":
        changed.chmod(0o664)
    else:
        os.chown(changed, 12345, -1)
    assert script() == "bundle"
