"""Hostile files: odd content takes little memory and time, and everything else is read."""

import gzip
import json
import math
import random
import re
import resource
import time
from pathlib import Path

import duckdb
import pytest

import tracekit
from tests.conftest import trace_file
from tests.kit.processes import ran
from tests.kit.sampling import sample
from tracekit.errors import TracekitError
from tracekit.trace.reader import METADATA_BYTES, TraceReader
from tracekit.trace.source import ByteStream

EVENTS = b'"traceEvents":[{"ph":"X","name":"a","ts":1}]'
MB = 1_000_000


def read(data: bytes, folder: Path, **options: int) -> TraceReader:
    """Reads a trace to its end."""
    file = folder / "trace.json"
    file.write_bytes(data)
    with ByteStream(str(file), file.open("rb")) as stream:
        reader = TraceReader(stream, **options)
        for _ in reader.pieces():
            pass
    return reader


# -- metadata --------------------------------------------------------------------------------------

# Text of about `size` bytes that takes much more memory as Python objects.
LARGE = {
    "lists": lambda size: b'"x":[' + b",".join([b"[]"] * (size // 3)) + b"]",
    "objects": lambda size: b'"x":[' + b",".join([b'{"a":1}'] * (size // 8)) + b"]",
    "nested": lambda size: (
        b'"x":[' + b",".join([b'{"a":' * 9_000 + b"1" + b"}" * 9_000] * (size // 54_000)) + b"]"
    ),
    "members": lambda size: b",".join(b'"%07x":1' % n for n in range(size // 12)),
    "text": lambda size: b'"x":"' + b"a" * size + b'"',
    "control characters": lambda size: b'"x":"' + b"\x01" * size + b'"',
    "repaired strings": lambda size: b'"x":[' + b",".join([b'"\xff"'] * (size // 4)) + b"]",
}
MEASURE = """
import resource, sys
from tests.safety.test_hostile_files import read
from pathlib import Path
reader = read(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), batch_bytes=1 << 20)
assert reader.events == 1 and len(reader.metadata_text) > 5_000_000
assert reader.member("x") is None and reader.member("host_name") == "h"
# VmHWM is in kB. Unlike ru_maxrss, it does not include the parent's pages from before exec.
print(max(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", LARGE)
def test_fifteen_megabytes_of_metadata_take_little_memory_and_time(kind, where, tmp_path):
    large = LARGE[kind](MB if kind == "control characters" else 15 * MB)
    parts = [large, EVENTS] if where == "before" else [EVENTS, large]
    (tmp_path / "large").write_bytes(b'{"host_name":"h",' + b",".join(parts) + b"}")
    started = time.monotonic()
    done = ran("python", "-c", MEASURE, tmp_path / "large", tmp_path)
    assert done.returncode == 0, done.stderr
    # Imports take 60 MB, and the measured program holds the file's bytes, too.
    assert int(done.stdout) < 300_000
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("kind", ["lists", "members", "text"])
def test_more_metadata_than_allowed_is_refused_with_what_to_do(kind, tmp_path):
    half = LARGE[kind](MB)
    for parts in ([half, half, EVENTS], [EVENTS, half, half], [half, EVENTS, half]):
        data = b"{" + b",".join(parts) + b"}"
        assert read(data, tmp_path, metadata_bytes=2 * MB + 100).events == 1
        with pytest.raises(TracekitError, match=r"more than 1 MB of metadata .* \(--memory-mb\)"):
            read(data, tmp_path, metadata_bytes=MB)


def test_a_small_file_with_much_metadata_is_refused_early(tmp_path):
    packed = gzip.compress(b'{"x":[' + b",".join([b"[]"] * 6_000_000) + b"]," + EVENTS + b"}")
    assert len(packed) < 100_000
    started = time.monotonic()
    with pytest.raises(TracekitError, match="more than 16 MB of metadata"):
        read(packed, tmp_path)
    assert time.monotonic() - started < 20
    assert METADATA_BYTES == 16 * MB


def test_white_space_does_not_count_as_metadata(tmp_path):
    space = b" " * (3 * MB)
    data = b"{" + space + EVENTS + space + b"," + space + b'"a"' + b":1" + space + b"}" + space
    reader = read(data, tmp_path, metadata_bytes=MB)
    assert (reader.metadata_text, reader.damage) == ('{"a":1}', None)


def test_endless_white_space_after_the_events_takes_no_memory(tmp_path):
    forms = (b"{" + EVENTS, b'[{"ph":"X"}]')
    for form in sample("forms of a trace before endless white space", forms, forms[:1]):
        # Compressing it takes memory itself.
        packed = gzip.compress(form + b" " * (50 * MB) + b"}" * form.startswith(b"{"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert read(packed, tmp_path).events == 1
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_nan_in_metadata_stays_nan_in_json_that_duckdb_accepts(tmp_path):
    reader = read(b'{"a":NaN,"b":[-Infinity,Infinity],"c":nan,' + EVENTS + b"}", tmp_path)
    assert reader.metadata_text == '{"a":NaN,"b":[-Infinity,Infinity],"c":nan}'
    assert math.isnan(reader.member("a"))
    assert reader.member("b") == [-math.inf, math.inf]
    assert reader.member("c") is None
    valid = duckdb.execute("SELECT json_valid(?)", [reader.metadata_text]).fetchone()
    assert valid == (True,)


def test_numbers_of_any_length_and_keys_that_repeat_are_kept(tmp_path):
    long = b"9" * 5000
    data = b'{"a":' + long + b',"b":{"c":' + long + b'},"b":{"c":[1,]},' + EVENTS + b"}"
    reader = read(data, tmp_path)
    assert reader.metadata_text == '{"a":%s,"b":{"c":%s},"b":{"c":[1]}}' % (2 * (long.decode(),))
    assert reader.member("a") == long.decode()
    assert reader.member("b") == {"c": [1]}


def test_deep_metadata_is_kept_as_text(tmp_path):
    for depth in (101, 5000, 65_000):
        deep = '{"a":' * depth + "1" + "}" * depth
        reader = read(b'{"distributedInfo":' + deep.encode() + b"," + EVENTS + b"}", tmp_path)
        assert reader.metadata_text == '{"distributedInfo":' + deep + "}"
        assert reader.member("distributedInfo") is None


def test_a_million_elements_that_are_not_events_take_few_rows(tmp_path):
    zeros = b"0," * 1_000_000
    (tmp_path / "t.json").write_bytes(b'[{"ph":"X"},' + zeros + b'{"ph":"X"}]')
    with tracekit.load(tmp_path / "t.json") as database:
        assert database.fetch("SELECT events, rejected < 1000 FROM trace")[1] == [(2, True)]
        database.export(tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes().count(b"0") == 1_000_000


RANKS = ("pair-rank0", "pair-rank1")


def shared_file(texts: list[bytes], mode: str) -> bytes:
    """The text that two writers leave in one file, each writing 8 kB at a time: each at its own
    position in the file, or both at the file's end."""
    rng, file, written = random.Random(1), bytearray(), [0, 0]
    while waiting := [n for n in (0, 1) if written[n] < len(texts[n])]:
        writer = rng.choice(waiting)
        block = texts[writer][written[writer] : written[writer] + 8192]
        at = written[writer] if mode == "at its place" else len(file)
        file[at : at + len(block)] = block
        written[writer] += len(block)
    return bytes(file)


def event_texts(text: bytes) -> list[bytes]:
    """The events that Kineto wrote, without the space between them."""
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    latin, found = text[begin:].decode("latin-1"), []
    at = latin.index("{")
    while latin[at] == "{":
        _, end = json.JSONDecoder().raw_decode(latin, at)
        found.append(latin[at:end].encode("latin-1"))
        at = re.compile(r"[\s,]*").match(latin, end).end()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["at its place", "at the end", "at the end, with one pid"])
def test_intact_events_of_two_writers_in_one_file_are_loaded(mode, tmp_path):
    texts = [gzip.decompress(trace_file(f"{name}.json.gz").read_bytes()) for name in RANKS]
    if "one pid" in mode:
        texts[1] = texts[1].replace(b'"pid": 4045', b'"pid": 4037')
    file = shared_file(texts, mode)
    (tmp_path / "shared.json").write_bytes(file)
    with tracekit.load(tmp_path / "shared.json") as database:
        health = {row["code"]: row for row in database.ask("health", severity="error")}
        events = database.fetch("SELECT events FROM trace")[1][0][0]
    assert "two writers shared the file" in health["shared_file"]["message"]
    whole = sum(event in file for text in texts for event in set(event_texts(text)))
    # At a border, the first event of the text that goes on may be lost, too.
    assert events >= whole - 2 * health["rejected_events"]["count"]
    assert events > 0.9 * whole


def test_damage_in_a_file_of_merged_ranks_is_not_taken_for_two_writers(tmp_path):
    ranks = [
        event_texts(gzip.decompress(trace_file(f"{name}.json.gz").read_bytes()))[:800]
        for name in RANKS
    ]
    turns = [event for turn in range(0, 800, 100) for rank in ranks for event in rank[turn:][:100]]
    rng = random.Random(1)
    for place in rng.sample(range(len(turns)), 12):
        turns[place] = turns[place][: len(turns[place]) // 2]
    (tmp_path / "merged.json").write_bytes(b'{"traceEvents":[' + b",\n".join(turns) + b"]}")
    with tracekit.load(tmp_path / "merged.json") as database:
        codes = {row["code"] for row in database.ask("health", severity="error")}
    # A part of each rank's events was taken.
    assert codes == {"rejected_events", "thinned_file"}
