"""Hostile and damaged compressed files: all readable text is read, within limits."""

import gzip
import json
from unittest.mock import Mock

import pytest
import zstandard

from tests.trace.test_archives import TRACE, read, write
from tracekit.trace import unpacking as decompressing

PACKED = {"gzip": gzip.compress(TRACE, mtime=0), "zstd": zstandard.compress(TRACE)}
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
        (zstandard.compress(TRACE[:20]) + zstandard.compress(TRACE[20:]), None),
        *((bytes(4096) + packed, "first 4,096 bytes") for packed in PACKED.values()),
        *((b"garbage" + packed, "first 7 bytes") for packed in PACKED.values()),
        (zstandard.ZstdCompressor(write_checksum=True).compress(TRACE)[:-4] + b"oops", "corrupt"),
    ],
)
def test_compressed_text_is_read_whatever_surrounds_it(data, damage, tmp_path):
    traces, errors = read(write(tmp_path / "a.json", data))
    (found,) = traces.values()
    assert errors == []
    assert found is None if damage is None else damage in found


def test_a_zstd_file_that_is_cut_off_is_noted_even_for_an_array(tmp_path):
    events = json.dumps([{"ph": "X", "name": f"{n:x}", "ts": n**5} for n in range(90_000)])
    packed = zstandard.compress(events.encode())
    (damage,) = read(write(tmp_path / "a.json", packed[: len(packed) // 2]))[0].values()
    assert "ends early" in damage


@pytest.mark.sampled(2, of=4)
@pytest.mark.parametrize(
    "nothing",
    [
        gzip.compress(b"", mtime=0),
        zstandard.compress(b""),
        SKIPPED,
        b"\x1f\x8b\x08\x08\0\0\0\0\0\0",
    ],
    ids=["gzip", "zstd", "skipped", "endless name"],
)
def test_reading_stops_in_endless_compressed_data_without_text(nothing, tmp_path, monkeypatch):
    fill = b"a" if nothing[3] == 8 else nothing
    data = nothing + fill * ((24 << 20) // len(fill))
    raw = []
    decompress = decompressing._decompress
    monkeypatch.setattr(
        decompressing,
        "_decompress",
        lambda file, codec: raw.append(Mock(wraps=file)) or decompress(raw[-1], codec),
    )
    traces, errors = read(write(tmp_path / "a.json.gz", data))
    assert traces == {}
    assert "hold no text" in errors[0]
    assert sum(each.args[0] for one in raw for each in one.read.call_args_list) < 10 << 20


@pytest.mark.parametrize("window_log", [28, 31, 41])
def test_a_zstd_window_larger_than_the_limit_is_refused(window_log, tmp_path):
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]) + b"\x01\x00\x00"
    _, errors = read(write(tmp_path / "a.json.zst", frame))
    assert "memory to decompress: decompress it first" in errors[0]
