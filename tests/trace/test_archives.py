"""Hostile and damaged archives: every readable trace is read, within limits."""

import gzip
import io
import json
import os
import shutil
import tarfile
import tempfile
import threading
from collections import namedtuple
from pathlib import Path

import pytest
import zstandard

from tracekit.errors import TracekitError
from tracekit.trace import source as sources
from tracekit.trace.reader import TraceReader
from tracekit.trace.source import open_streams

TRACE = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1}]}).encode()


def read(path: Path) -> tuple[dict[str, str | None], list[str]]:
    """Reads the file at `path`; returns the damage of each trace by name, and the errors."""
    traces: dict[str, str | None] = {}
    errors: list[str] = []
    streams = open_streams(str(path))
    while True:
        try:
            stream = next(streams, None)
            if stream is None:
                return traces, errors
            if isinstance(stream, TracekitError):
                raise stream
            with stream:
                reader = TraceReader(stream)
                for _ in reader.pieces():
                    pass
            traces[stream.path.removeprefix(f"{path}/")] = reader.damage
        except TracekitError as error:
            errors.append(str(error))


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, **more: object) -> bytes:
    """One block."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    for key, value in more.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.GNU_FORMAT)


def with_size(block: bytes, size: int) -> bytes:
    """The header with the given size, even an impossible one, and the right checksum."""
    field = (
        b"\x80" + size.to_bytes(11, "big")
        if size >= 0
        else (b"\xff" + (2**88 + size).to_bytes(11, "big"))
    )
    block = block[:124] + field + block[136:]
    total = sum(block[:148]) + sum(block[156:]) + 8 * 32
    return block[:148] + b"%06o\0 " % total + block[156:]


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def trace(name: str, content: bytes = TRACE) -> bytes:
    return header(name, len(content)) + padded(content)


END = bytes(1024)


@pytest.fixture(autouse=True)
def spooled(monkeypatch):
    """Counts the bytes that go to temporary copies."""
    counted = {"bytes": 0}

    class Copy(tempfile.SpooledTemporaryFile):
        def write(self, data: bytes) -> int:
            counted["bytes"] += len(data)
            return super().write(data)

    monkeypatch.setattr(sources.tempfile, "SpooledTemporaryFile", Copy)
    return counted


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_sparse_member_takes_no_disk_space(tmp_path, spooled):
    huge = 200 << 30
    sparse = bytearray(header("huge.json", 0, tarfile.GNUTYPE_SPARSE))
    # An empty map of data, and the size with the hole.
    sparse[386:482] = bytes(96)
    sparse[483:495] = b"\x80" + huge.to_bytes(11, "big")
    archive = with_size(bytes(sparse), 0) + trace("good.json") + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces == {"good.json": None}
    assert [error.split(": ", 1)[1][:13] for error in errors] == ["is a sparse f"]
    assert spooled["bytes"] < 1 << 20


def test_the_map_of_a_sparse_member_is_not_taken_for_a_header(tmp_path):
    sparse = bytearray(header("odd.json", 512, tarfile.GNUTYPE_SPARSE))
    sparse[386:482] = bytes(96)
    sparse[482] = 1
    more = bytes(504) + b"\1" + bytes(7)
    last = b"7" * 504 + bytes(8)
    archive = with_size(bytes(sparse), 512) + more + last + b"x" * 512 + trace("good.json") + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert (list(traces), len(errors)) == (["good.json"], 1)


@pytest.mark.parametrize("key", ["GNU.sparse.size", "GNU.sparse.major", "GNU.sparse.map"])
def test_a_sparse_member_declared_by_pax_is_refused(key, tmp_path):
    record = b" %s=99999999999\n" % key.encode()
    record = b"%d" % (len(record) + 2) + record
    archive = header("x", len(record), tarfile.XHDTYPE) + padded(record) + trace("odd.json")
    traces, errors = read(write(tmp_path / "a.tar", archive + trace("good.json") + END))
    assert traces == {"good.json": None}
    assert len(errors) == 1
    assert "odd.json: is a sparse file" in errors[0]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "pipe"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_other_members_are_read_beside_a_link_or_device(kind, word, pack, tmp_path):
    archive = (
        trace("first.json")
        + header("bad.json", kind=kind, linkname="/etc/passwd")
        + header("notes.txt", kind=kind, linkname="/etc/passwd")
        + header("folder.json/", kind=tarfile.DIRTYPE)
        + trace("last.json")
        + END
    )
    traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
    assert traces == {"first.json": None, "last.json": None}
    assert len(errors) == 1
    assert "a.tar/bad.json: is a " + word in errors[0]


@pytest.mark.parametrize("size", [2**62, 2**87, 1 << 40])
@pytest.mark.parametrize("name", ["bad.json", "bad.txt"])
def test_a_member_larger_than_the_archive_ends_where_the_archive_ends(
    name, size, tmp_path, spooled
):
    archive = trace("good.json") + with_size(header(name), size) + padded(TRACE)
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces.pop("good.json") is None
    assert set(traces) <= {"bad.json"}
    assert all(traces.values())
    assert len(errors) == 1
    assert "damaged archive" in errors[0]
    assert spooled["bytes"] < 2048


@pytest.mark.parametrize("size", [-1, -512, -(2**40)])
@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, b"Z"]
)
def test_other_members_are_read_beside_one_of_negative_size(kind, size, tmp_path):
    archive = trace("first.json") + with_size(header("bad.json", kind=kind), size)
    traces, errors = read(write(tmp_path / "a.tar", archive + trace("last.json") + END))
    assert list(traces) == ["first.json", "last.json"]
    assert len(errors) == 1
    assert "damaged archive: the header before byte" in errors[0]


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_long_name_of_any_size_takes_no_memory(kind, tmp_path):
    size = 3 << 20
    archive = header("l", size, kind) + b"a" * size + trace("first.json")
    archive += with_size(header("l", kind=kind), 2**50) + trace("lost.json")
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces == {"first.json": None}
    assert len(errors) == 1
    assert "is too large" in errors[0]


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize(
    "extra",
    [
        header("l", 4, tarfile.GNUTYPE_LONGNAME) + padded(b"long"),
        header("l", 14, tarfile.XHDTYPE) + padded(b"14 path=long.\n"),
        header("l", 0, tarfile.XGLTYPE),
    ],
    ids=["GNU", "pax", "pax global"],
)
def test_a_chain_of_headers_may_have_any_length(extra, tmp_path):
    archive = extra * 20_000 + trace("good.json") + trace("last.json") + END
    traces, _ = read(write(tmp_path / "a.tar", archive))
    assert traces["last.json"] is None


@pytest.mark.parametrize(
    "records",
    [
        b"9999999999999999999999 path=a\n",
        b"0 path=a\n",
        b"5 path=a.json\n",
        b"99 path=a\n",
        b"path=a\n",
        b"\xff\xfe",
        b"-9 path=a\n",
        b"20 size=999999999\xff99\n",
        b"11 size=-5\n",
        b"13 size=1e99\n",
    ],
)
def test_traces_are_read_despite_malformed_pax_records(records, tmp_path):
    archive = header("x", len(records), tarfile.XHDTYPE) + padded(records) + trace("good.json")
    traces, errors = read(write(tmp_path / "a.tar", archive + trace("last.json") + END))
    assert traces == {"good.json": None, "last.json": None}
    assert len(errors) == 1
    assert "is incomplete" in errors[0]


def test_names_of_every_kind_are_kept(tmp_path):
    names = ["r\u00e9sum\u00e9.json", "a" * 300 + ".json", "b/" * 90 + "c.json", "n\xfc.json"]
    for format_ in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=format_, encoding="utf-8") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(TRACE)
                archive.addfile(member, io.BytesIO(TRACE))
        assert read(tmp_path / "a.tar") == (dict.fromkeys(names), [])


def test_a_name_that_is_not_utf8_is_kept(tmp_path):
    archive = trace("aXb.json").replace(b"aXb", b"a\xffb", 1)
    archive = with_size(archive[:512], len(TRACE)) + archive[512:] + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert (list(traces), errors) == (["a\udcffb.json"], [])


def test_traces_after_a_damaged_header_are_found(tmp_path):
    parts = [trace(f"{n}.json") for n in range(4)]
    parts[1] = parts[1][:100] + b"\xff\xff" + parts[1][102:]
    traces, errors = read(write(tmp_path / "a.tar", b"".join(parts) + END))
    assert list(traces) == ["0.json", "2.json", "3.json"]
    assert len(errors) == 1
    assert "damaged archive" in errors[0]


def test_concatenated_archives_are_both_read(tmp_path):
    archive = trace("a.json") + END + trace("b.json") + END
    assert read(write(tmp_path / "a.tar", archive)) == ({"a.json": None, "b.json": None}, [])


def test_the_damage_of_a_member_says_that_it_is_cut_off(tmp_path):
    events = json.dumps([{"ph": "X", "name": "a" * 100, "ts": n} for n in range(50)]).encode()
    archive = trace("a.json") + header("b.json", len(events)) + events[:3000]
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces["a.json"] is None
    assert "the archive ends inside it" in traces["b.json"]
    assert "damaged archive" in errors[0]


@pytest.mark.sampled(2, of=2)
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_an_archive_of_zeros_is_stopped(pack, tmp_path, monkeypatch, spooled):
    monkeypatch.setattr(sources, "BOMB_BYTES", 48 << 20)
    archive = trace("good.json") + header("zeros.json", 648 << 20) + bytes(648 << 20)
    traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
    assert traces == {"good.json": None}
    assert "250 times as large" in errors[0]
    assert spooled["bytes"] < 648 << 20


@pytest.mark.parametrize("name", ["more.tar", "more.tar.gz", "more.tgz", "more.tar.zst"])
def test_an_archive_in_an_archive_is_named(name, tmp_path):
    archive = trace("a.json") + trace(name, trace("inner.json") + END) + trace("b.json") + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert set(traces) == {"a.json", "b.json"}
    assert len(errors) == 1
    assert f"{name}: is an archive in an archive" in errors[0]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bombs_inside_an_archive_count_together(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BOMB_BYTES", 4 << 20)
    blank = gzip.compress(b"[" + b" " * (1 << 20) + b"]", mtime=0)
    archive = b"".join(trace(f"{n}.json.gz", blank) for n in range(30)) + END
    traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
    limit_bytes = max(4 << 20, 250 * len(pack(archive)))
    assert len(traces) <= limit_bytes >> 20
    assert ("250 times as large" in errors[0]) if pack is not bytes else True


def test_a_copy_does_not_fill_the_disk(tmp_path, monkeypatch, spooled):
    disk = namedtuple("disk", "total used free")
    monkeypatch.setattr(sources, "_CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: disk(100 << 20, 0, (20 << 20) - spooled["bytes"])
    )
    big = b"[" + b" " * (40 << 20) + b"]"
    archive = trace("big.json", big) + trace("lost.json") + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces == {}
    assert "big.json: its temporary copy does not fit" in errors[0]
    assert spooled["bytes"] < 13 << 20


def test_an_endless_pipe_does_not_fill_the_disk(tmp_path, monkeypatch, spooled):
    disk = namedtuple("disk", "total used free")
    monkeypatch.setattr(sources, "_CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: disk(100 << 20, 0, (20 << 20) - spooled["bytes"])
    )
    os.mkfifo(tmp_path / "pipe")

    def endless() -> None:
        with pytest.raises(BrokenPipeError), (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            while True:
                pipe.write(bytes(1 << 16))

    writer = threading.Thread(target=endless)
    writer.start()
    _, errors = read(tmp_path / "pipe")
    writer.join()
    assert "does not fit" in errors[0]
