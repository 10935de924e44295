"""Thousands of damaged traces: no traceback, no hang, and no event disappears silently.

TRACEKIT_TEST_ALL=1 runs twenty times as many.
"""

import gzip
import io
import json
import random
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest

from tests.kit.sampling import sample
from tracekit.errors import TracekitError
from tracekit.ingest.writer import Ingest, create_tables
from tracekit.trace.reader import TraceReader
from tracekit.trace.source import ByteStream, open_streams
from tracekit.trace.unpacking import zstd

_MORE = sample("odd files and archives, in rounds", 20, 1)
CASES_PER_SEED = sample("damaged files, for each of 8 seeds", 5_000, 50)
_NAMES = re.compile(rb'"op (\d+)"')


def trace(indent: int | None) -> bytes:
    """Sixty events, each with its own name and text that looks like a boundary between events."""
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": f"op {place}", "pid": 1, "tid": 1,
            "ts": 1000 + place, "dur": 0.5,
            "args": {"External id": place, "deep": [{"a": [1]}, {"b": "},{"}], "text": '"ph": {'},
        }
        for place in range(60)
    ]  # fmt: skip
    whole = {"schemaVersion": 1, "traceEvents": events, "traceName": "t", "INFO": ["]}"]}
    return json.dumps(whole, indent=indent).encode()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The trace with one to three random errors."""
    for _ in range(rng.randint(1, 3)):
        data = data or b" "
        at = rng.randrange(len(data))
        kind = rng.choice(["cut", "flip", "delete", "insert", "double", "nest"])
        if kind == "cut":
            data = data[: max(1, at)]
        elif kind == "flip":
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif kind == "delete":
            data = data[:at] + data[at + rng.randint(1, 400) :]
        elif kind == "insert":
            data = (
                data[:at]
                + rng.choice([b'"', b"\\", b"}", b"]", b"{", b"\x00", b"\xff"])
                + data[at:]
            )
        elif kind == "double":
            data = data[:at] + data[max(0, at - rng.randint(1, 400)) :]
        else:
            data = data[:at] + b"[" * rng.choice([1, 50, 5000]) + data[at:]
    return data


@pytest.fixture
def ingest():
    """One database for all cases of a test: making one takes longer than a load."""
    with duckdb.connect(config={"threads": 1}) as connection:
        create_tables(connection)
        yield Ingest(connection), connection


def account(data: bytes, file, ingest) -> None:
    """Loads the trace; each name in it must be in a row, in `rejected` or in the metadata."""
    file.write_bytes(data)
    loader, connection = ingest
    try:
        with ByteStream(str(file), file.open("rb")) as stream:
            loader.load(stream, trace_id=1)
    except TracekitError as error:
        assert "\n" not in str(error)
        return
    kept = connection.execute("""
        SELECT concat_ws(' ', '"' || name || '"', args::VARCHAR, raw::VARCHAR), event_id FROM event
        UNION ALL SELECT text, NULL FROM rejected
        UNION ALL SELECT metadata::VARCHAR, NULL FROM trace
    """).fetchall()
    events, rejected, damage = connection.execute(
        "SELECT events, rejected, damage FROM trace"
    ).fetchone()
    for table in ("event_row", "label", "rejected", "verbatim", "device", "trace"):
        connection.execute(f"DELETE FROM {table}")
    assert sorted(row[1] for row in kept if row[1] is not None) == list(range(events))
    found = set(_NAMES.findall("\n".join(row[0] or "" for row in kept).encode()))
    lost = set(_NAMES.findall(data)) - found
    assert not lost, (sorted(lost), rejected, damage)


# Text that parsers may stumble over, as values, keys or parts of them.
ODD = [
    b"9" * 5000, b"-" + b"1" * 5000 + b".5", b"1e999999", b"NaN", b"-Infinity", b"nan", b"-inf",
    b"[" * 2000 + b"]" * 2000, b'{"a":' * 70_000, b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff\xfe"',
    b'"\x00\x01"', b'"\\x"', b"tru", b"[1,]", b'{"a":1,}', b"\x00" * 700, b'"traceEvents":[]',
    b'"traceEvents":5', b'"\\u0074raceEvents":[{"ph":"X","name":"op 7"}]', b"]", b"}", b'"', b"\\",
    b'{"computeMajor":"\\ud83d","name":"\\udfff","id":NaN,"totalGlobalMem":' + b"8" * 5000 + b"}",
]  # fmt: skip


def odd(data: bytes, rng: random.Random) -> bytes:
    """The trace with one to four odd texts inserted, some of which replace other text."""
    for _ in range(rng.randint(1, 4)):
        # At the trace's beginning, at its end, or in an event.
        at = rng.choice([rng.randrange(80), rng.randrange(len(data)), -1 - rng.randrange(60)])
        end = at + rng.choice([0, 0, 1, 5])
        at, end = (len(data) + each if at < 0 else each for each in (at, end))
        data = data[:at] + rng.choice(ODD) + data[end:]
    return data


def test_no_event_is_lost_to_odd_values_near_damage(ingest, tmp_path):
    for value in ODD:
        events = [b'{"ph":"X","name":"op %d","ts":1,"args":{"a":1}}' % n for n in range(9)]
        events[3] = events[3].replace(b'"a":1', b'"a":' + value)
        events[4] = b'{"ph":"X","name":"op 4","ts":}'
        account(b'{"traceEvents":[' + b",".join(events) + b"]}", tmp_path / "odd.json", ingest)


def described() -> bytes:
    """A trace with metadata before, between and after its events."""
    devices = [{"id": 0, "name": "GPU", "computeMajor": 9, "computeMinor": 0}]
    info = {"distributedInfo": {"rank": 1}, "with_stack": 1, "host_name": "h"}
    events = [{"ph": "X", "name": f"op {place}", "ts": place} for place in range(12)]
    head = {"deviceProperties": devices, **info}
    return json.dumps({**head, "traceEvents": events, **info, "tail": devices}).encode()


@contextmanager
def kept(data: bytes, path: Path) -> Iterator[None]:
    """Keeps what makes a test fail."""
    try:
        yield
    except BaseException:
        path.write_bytes(data)
        raise


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("spoil", "seed"),
    [*((damaged, seed) for seed in range(8)), *((odd, seed) for seed in range(4))],
)
def test_no_event_of_a_spoiled_trace_disappears(spoil, seed, ingest, tmp_path):
    rng = random.Random(seed)
    whole = trace([None, 1][seed % 2]) if spoil is damaged else described()
    for _ in range(CASES_PER_SEED if spoil is damaged else 60 * _MORE):
        data = spoil(whole, rng)
        with kept(data, tmp_path / "failed.json"):
            account(data, tmp_path / "spoiled.json", ingest)


def archive(rng: random.Random) -> bytes:
    """A few traces, links, long names and folders, compressed or not."""
    packed = io.BytesIO()
    format_ = rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tarfile.open(fileobj=packed, mode="w", format=format_) as tar:
        for place in range(rng.randint(1, 4)):
            member = tarfile.TarInfo(rng.choice(["a.json", "b" * 90 + "\u00e9" * 20 + ".json.gz"]))
            member.type = rng.choice([tarfile.REGTYPE] * 4 + [tarfile.SYMTYPE, tarfile.DIRTYPE])
            content = trace(None)[: rng.randint(1, 3000)] if place else trace(None)
            content = gzip.compress(content) if member.name.endswith("gz") else content
            member.size = len(content) if member.isreg() else 0
            if format_ == tarfile.PAX_FORMAT and rng.random() < 0.5:
                member.pax_headers = {
                    rng.choice(["size", "path", "GNU.sparse.size", "mtime", "GNU.sparse.map"]):
                    rng.choice(["-1", "9" * 30, "a" * 300, "1,2,3", "7"])
                }  # fmt: skip
            tar.addfile(member, io.BytesIO(content))
    return rng.choice([bytes, gzip.compress, zstd.compress])(packed.getvalue())


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """The archive with random damage, mostly in header fields, with or without a valid checksum."""
    for _ in range(rng.randint(0, 3)):
        data = data or b" "
        at = rng.randrange(len(data))
        if rng.random() < 0.5 and data[257:262] == b"ustar":
            block = at // 512 * 512
            header = bytearray(data[block : block + 512].ljust(512, b"\0"))
            field = rng.choice([(124, 136), (156, 157), (0, 100), (345, 500), (257, 265)])
            size = field[1] - field[0]
            header[slice(*field)] = rng.choice([
                rng.randbytes(size), b"\xff" * size, b"\x80" + rng.randbytes(size - 1),
                b"7" * size, bytes(size), rng.choice(b"0123456789LKxgSXV").to_bytes() * size,
            ])  # fmt: skip
            header[148:156] = b"%06o\0 " % (sum(header) - sum(header[148:156]) + 256)
            data = data[:block] + bytes(header) + data[block + 512 :]
        else:
            data = damaged(data, rng)
    return data


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_archive_gives_traces_and_error_messages(seed, tmp_path):
    rng = random.Random(seed)
    file = tmp_path / "a.tar"
    for _ in range(100 * _MORE):
        data = spoiled(archive(rng), rng)
        file.write_bytes(data)
        with kept(data, tmp_path / "failed.tar"), suppress(TracekitError):
            for stream in open_streams(str(file)):
                if isinstance(stream, TracekitError):
                    continue
                with stream, suppress(TracekitError):
                    for _ in TraceReader(stream).pieces():
                        pass
