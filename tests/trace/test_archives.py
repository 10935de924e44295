"""Hostile and damaged archives and compressed files: what is readable is read, within limits."""

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
from unittest.mock import Mock

import pytest

from tracekit.errors import TracekitError
from tracekit.trace import budget, unpacking
from tracekit.trace import source as sources
from tracekit.trace.reader import TraceReader
from tracekit.trace.source import open_streams
from tracekit.trace.unpacking import zstd

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


def sparse(name: str, is_extended: bool = False) -> bytes:
    """The header of a member with a hole, whose map of data is empty."""
    block = bytearray(header(name, 0, tarfile.GNUTYPE_SPARSE))
    block[386:482] = bytes(96)
    block[482] = is_extended
    block[483:495] = b"\x80" + (200 << 30).to_bytes(11, "big")
    return with_size(bytes(block), 512 * is_extended)


def pax(records: bytes) -> bytes:
    """A header of pax with these records."""
    return header("x", len(records), tarfile.XHDTYPE) + padded(records)


def record(text: bytes) -> bytes:
    """A record of less than 98 bytes for a header of pax."""
    return b"%d %s\n" % (len(text) + 4, text)


# More of the map of a sparse member: it is not taken for a header.
MAP = bytes(504) + b"\1" + bytes(7) + b"7" * 504 + bytes(8)
MALFORMED = (
    b"9999999999999999999999 path=a\n", b"0 path=a\n", b"5 path=a.json\n", b"99 path=a\n",
    b"path=a\n", b"\xff\xfe", b"-9 path=a\n", b"20 size=999999999\xff99\n", b"11 size=-5\n",
    b"13 size=1e99\n",
)  # fmt: skip
LONG = 3 << 20
LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE)
# Bytes between a first and a last trace, and a part of the message about them; None: no message.
BETWEEN = {
    "a sparse member": (sparse("odd.json"), "odd.json: is a sparse file"),
    "the map of a sparse member": (sparse("odd.json", True) + MAP + b"x" * 512, "is a sparse file"),
    **{
        f"a sparse member by {key.decode()}": (
            pax(record(b"%s=99999999999" % key)) + trace("odd.json"), "odd.json: is a sparse file"
        )
        for key in (b"GNU.sparse.size", b"GNU.sparse.major", b"GNU.sparse.map")
    },
    **{
        f"a {word} of type {kind.decode()}": (
            header("bad.json", kind=kind, linkname="/etc/passwd")
            + header("notes.txt", kind=kind, linkname="/etc/passwd")
            + header("folder.json/", kind=tarfile.DIRTYPE),
            f"a.tar/bad.json: is a {word}",
        )
        for kind, word in (
            (tarfile.SYMTYPE, "symbolic link"), (tarfile.LNKTYPE, "hard link"),
            (tarfile.CHRTYPE, "device"), (tarfile.BLKTYPE, "device"), (tarfile.FIFOTYPE, "pipe"),
        )
    },
    **{
        f"a member of type {kind.decode()} and size {size}": (
            with_size(header("bad.json", kind=kind), size),
            "damaged archive: the header before byte",
        )
        for kind in (tarfile.REGTYPE, *LONG_NAMES, b"Z")
        for size in (-1, -512, -(2**40))
    },
    **{str(records): (pax(records), "is incomplete") for records in MALFORMED},
    **{
        f"a name of 3 MB of type {kind.decode()}": (
            header("l", LONG, kind) + b"a" * LONG, "is too large"
        )
        for kind in LONG_NAMES
    },
    **{
        f"an archive named {name}": (
            trace(name, trace("inner.json") + END), f"{name}: is an archive in an archive"
        )
        for name in ("more.tar", "more.tar.gz", "more.tgz", "more.tar.zst")
    },
    "a damaged header": (
        trace("odd.json")[:100] + b"\xff\xff" + trace("odd.json")[102:], "damaged archive"
    ),
    "the end of another archive": (END, None),
}  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN)
def test_other_members_than_traces_do_not_disturb_the_reading(between, tmp_path, spooled):
    member, said = BETWEEN[between]
    archive = trace("first.json") + member + trace("last.json") + END
    for pack in (bytes, gzip.compress, zstd.compress):
        traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
        assert traces == {"first.json": None, "last.json": None}
        assert len(errors) == (said is not None)
        assert said is None or said in errors[0]
    assert spooled["bytes"] < 1 << 20


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, *LONG_NAMES])
def test_a_member_larger_than_the_archive_ends_where_the_archive_ends(kind, tmp_path, spooled):
    rest = padded(TRACE) if kind == tarfile.REGTYPE else trace("lost.json")
    for size in (2**62, 2**87, 1 << 40):
        for name in ("bad.json", "bad.txt"):
            member = with_size(header(name, kind=kind), size)
            path = write(tmp_path / "a.tar", trace("good.json") + member + rest)
            traces, errors = read(path)
            assert traces.pop("good.json") is None
            assert set(traces) <= {"bad.json"} and all(traces.values())
            assert len(errors) == 1
            assert ("damaged archive" if kind == tarfile.REGTYPE else "is too large") in errors[0]
    assert spooled["bytes"] < 20_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "extra",
    [
        header("l", 4, tarfile.GNUTYPE_LONGNAME) + padded(b"long"),
        pax(record(b"path=long.")),
        header("l", 0, tarfile.XGLTYPE),
    ],
    ids=["GNU", "pax", "pax global"],
)
def test_a_chain_of_headers_may_have_any_length(extra, tmp_path):
    archive = extra * 20_000 + trace("good.json") + trace("last.json") + END
    traces, _ = read(write(tmp_path / "a.tar", archive))
    assert traces["last.json"] is None


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


def test_the_damage_of_a_member_says_that_it_is_cut_off(tmp_path):
    events = json.dumps([{"ph": "X", "name": "a" * 100, "ts": n} for n in range(50)]).encode()
    archive = trace("a.json") + header("b.json", len(events)) + events[:3000]
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces["a.json"] is None
    assert "the archive ends inside it" in traces["b.json"]
    assert "damaged archive" in errors[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_an_archive_of_zeros_is_stopped(pack, tmp_path, monkeypatch, spooled):
    monkeypatch.setattr(budget, "TEXT_BYTES", 48 << 20)
    size = 128 << 20 if pack is gzip.compress else 648 << 20
    archive = trace("good.json") + header("zeros.json", size) + bytes(size)
    traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
    assert traces == {"good.json": None}
    assert "250 times its size" in errors[0]
    assert spooled["bytes"] < size


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bombs_inside_an_archive_count_together(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "TEXT_BYTES", 4 << 20)
    blank = gzip.compress(b"[" + b" " * (1 << 20) + b"]", mtime=0)
    archive = b"".join(trace(f"{n}.json.gz", blank) for n in range(30)) + END
    traces, errors = read(write(tmp_path / "a.tar", pack(archive)))
    limit_bytes = max(4 << 20, 250 * len(pack(archive)))
    assert len(traces) <= limit_bytes >> 20
    assert ("250 times its size" in errors[0]) if pack is not bytes else True


@pytest.fixture
def small_disk(monkeypatch, spooled):
    disk = namedtuple("disk", "total used free")
    monkeypatch.setattr(sources, "_CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: disk(100 << 20, 0, (20 << 20) - spooled["bytes"])
    )


def test_a_copy_does_not_fill_the_disk(tmp_path, small_disk, spooled):
    big = b"[" + b" " * (40 << 20) + b"]"
    archive = trace("big.json", big) + trace("lost.json") + END
    traces, errors = read(write(tmp_path / "a.tar", archive))
    assert traces == {}
    assert "big.json: its temporary copy does not fit" in errors[0]
    assert spooled["bytes"] < 13 << 20


def test_an_endless_pipe_does_not_fill_the_disk(tmp_path, small_disk):
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


# -- compressed files ------------------------------------------------------------------------------

PACKED = {"gzip": gzip.compress(TRACE, mtime=0), "zstd": zstd.compress(TRACE)}
CHECKED = zstd.compress(TRACE, options={zstd.CompressionParameter.checksum_flag: 1})
SKIPPED = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (SKIPPED + PACKED["zstd"], None),
        (SKIPPED * 3 + PACKED["zstd"] + SKIPPED, None),
        (PACKED["zstd"] + b"garbage after it", "corrupt"),
        (PACKED["zstd"] + bytes(5000), None),
        (PACKED["gzip"] + bytes(5000), None),
        (PACKED["gzip"] + b"garbage after it", "corrupt"),
        (PACKED["zstd"] + PACKED["zstd"][:9], "ends early"),
        (zstd.compress(TRACE[:20]) + zstd.compress(TRACE[20:]), None),
        *((bytes(4096) + packed, "first 4,096 bytes") for packed in PACKED.values()),
        *((b"garbage" + packed, "first 7 bytes") for packed in PACKED.values()),
        (
            zstd.compress(TRACE, options={zstd.CompressionParameter.checksum_flag: 1})[:-4]
            + b"oops",
            "corrupt",
        ),
    ],
)
def test_compressed_text_is_read_whatever_surrounds_it(data, damage, tmp_path):
    traces, errors = read(write(tmp_path / "a.json", data))
    (found,) = traces.values()
    assert errors == []
    assert found is None if damage is None else damage in found


def test_a_zstd_file_that_is_cut_off_is_noted_even_for_an_array(tmp_path):
    events = json.dumps([{"ph": "X", "name": f"{n:x}", "ts": n**5} for n in range(90_000)])
    packed = zstd.compress(events.encode())
    (damage,) = read(write(tmp_path / "a.json", packed[: len(packed) // 2]))[0].values()
    assert "ends early" in damage


@pytest.mark.thorough
@pytest.mark.parametrize(
    "nothing",
    [
        gzip.compress(b"", mtime=0),
        zstd.compress(b""),
        SKIPPED,
        b"\x1f\x8b\x08\x08\0\0\0\0\0\0",
    ],
    ids=["gzip", "zstd", "skipped", "endless name"],
)
def test_reading_stops_in_endless_compressed_data_without_text(nothing, tmp_path, monkeypatch):
    fill = b"a" if nothing[3] == 8 else nothing
    data = nothing + fill * ((6 << 20) // len(fill))
    raw = []
    decompress = unpacking._decompress
    monkeypatch.setattr(unpacking, "_SILENT_BYTES", 1 << 20)
    monkeypatch.setattr(
        unpacking,
        "_decompress",
        lambda file, codec: raw.append(Mock(wraps=file)) or decompress(raw[-1], codec),
    )
    traces, errors = read(write(tmp_path / "a.json.gz", data))
    assert traces == {}
    assert "hold no text" in errors[0]
    assert sum(each.args[0] for one in raw for each in one.read.call_args_list) < 4 << 20


@pytest.mark.parametrize("window_log", [28, 31, 41])
def test_a_zstd_window_larger_than_the_limit_is_refused(window_log, tmp_path):
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]) + b"\x01\x00\x00"
    _, errors = read(write(tmp_path / "a.json.zst", frame))
    assert "memory to decompress: decompress it first" in errors[0]
