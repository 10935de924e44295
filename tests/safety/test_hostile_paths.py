"""Hostile paths: cycles, dangling links, pipes and sockets; files that change during reading."""

import gzip
import io
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.safety.test_hostile_files import EVENTS
from tracekit.errors import TracekitError
from tracekit.trace.paths import trace_paths
from tracekit.trace.reader import TraceReader
from tracekit.trace.source import ByteStream, open_streams

TRACE = b"{" + EVENTS + b"}"


def refused(path: str) -> str:
    with pytest.raises(TracekitError) as raised:
        for each in trace_paths([path]):
            for stream in open_streams(each):
                assert isinstance(stream, ByteStream)
                stream.close()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_paths_that_lead_nowhere_are_refused(tmp_path):
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert "empty" in refused("")
    assert "null" in refused("a\0b.json")
    assert "symbolic links" in refused(str(tmp_path / "loop.json"))
    assert "no file matches" in refused(str(tmp_path / "loop.json" / "*.json"))


def test_a_folder_may_contain_itself(tmp_path):
    (tmp_path / "t.json").write_bytes(TRACE)
    for name in ("again", "and.json", "more"):
        (tmp_path / name).symlink_to(tmp_path, target_is_directory=True)
    expected = [str(tmp_path / "t.json")]
    # Whatever else the machine does, this counts what the search does.
    started_s = time.process_time()
    assert trace_paths([str(tmp_path)]) == expected
    assert trace_paths([str(tmp_path / "**" / "*.json")]) == expected
    assert trace_paths([str(tmp_path / "**")]) == expected
    assert time.process_time() - started_s < 5


def test_a_pattern_finds_what_a_shell_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a.json", "b/c.json", "b/d/e.json", ".hidden/f.json", "b/.g.json"]
    for name in names:
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_bytes(TRACE)
    assert trace_paths(["**/*.json"]) == ["a.json", "b/c.json", "b/d/e.json"]
    assert trace_paths(["b/**"]) == ["b/c.json", "b/d/e.json"]
    assert trace_paths([".hidden/**/*.json"]) == [".hidden/f.json"]
    assert trace_paths(["*/*.json"]) == ["b/c.json"]
    assert trace_paths([f"{tmp_path}/**/e.json"]) == [f"{tmp_path}/b/d/e.json"]
    assert "no file matches" in refused("**/x.json")


def test_pipes_sockets_and_folders_in_a_folder_are_skipped(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "t.json").write_bytes(TRACE)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s.json"))
        assert trace_paths([str(tmp_path)]) == [str(tmp_path / "t.json")]
        assert "cannot be read" in refused(str(tmp_path / "s.json"))


def test_a_folder_may_be_named_like_a_file(tmp_path):
    (tmp_path / "run.json").mkdir()
    assert "this directory has no traces" in refused(str(tmp_path / "run.json"))
    (tmp_path / "run.json" / "t.json").write_bytes(TRACE)
    assert trace_paths([str(tmp_path / "run.json")]) == [str(tmp_path / "run.json" / "t.json")]


def test_a_file_that_is_gone_is_reported(tmp_path):
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "t.json").write_bytes(TRACE)
    gone, there = trace_paths([str(tmp_path)])
    assert there == str(tmp_path / "t.json")
    Path(there).unlink()
    for path in (gone, there):
        with pytest.raises(TracekitError, match="No such file"):
            next(open_streams(path))


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    (tmp_path / "t.json").write_bytes(TRACE)
    scan, listed = os.scandir, os.listdir

    def closed(path: object) -> None:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", lambda path: closed(path) or scan(path))
    monkeypatch.setattr(os, "listdir", lambda path: closed(path) or listed(path))
    folder, there = trace_paths([str(tmp_path)])
    assert there == str(tmp_path / "t.json")
    with pytest.raises(TracekitError, match="closed: cannot be read: Permission denied"):
        next(open_streams(folder))


def test_a_name_that_is_not_utf8_is_read(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.json")
    Path(path).write_bytes(TRACE)
    assert trace_paths([str(tmp_path)]) == [path]
    (stream,) = open_streams(path)
    assert isinstance(stream, ByteStream)
    with stream:
        assert stream.read() == TRACE


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_shrinks_while_it_is_read_is_reported_as_damaged(pack, tmp_path):
    events = b",".join(b'{"ph":"X","name":"n%d","ts":%d}' % (n, n**6) for n in range(200_000))
    file = tmp_path / "t.json"
    file.write_bytes(pack(b'{"traceEvents":[' + events + b"]}"))
    with ByteStream("t", file.open("rb", buffering=0)) as stream:
        reader = TraceReader(stream)
        pieces = reader.pieces()
        next(pieces)
        os.truncate(file, 200_000)
        for _ in pieces:
            pass
    assert reader.damage
    assert 0 < reader.events < 200_000


def test_a_file_that_fails_while_it_is_read_is_reported(tmp_path):
    class Failing(io.BytesIO):
        def read(self, size: int = -1) -> bytes:
            if self.tell() > 3_000_000:
                raise OSError(5, "Input/output error")
            return super().read(size)

    text = b'{"traceEvents":[' + b'{"ph":"X"},' * 400_000
    threads = threading.enumerate()
    with (
        ByteStream("t", Failing(text)) as stream,
        pytest.raises(TracekitError, match="t: cannot be read: Input/output error"),
    ):
        for _ in TraceReader(stream).pieces():
            pass
    assert threading.enumerate() == threads
