"""Reading a trace in every form, with every batch size, gives the same events."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import string
import threading
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kit.sampling import sample
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.ingest.writer import LABEL_BITS, Ingest, create_tables
from tracekit.trace.prefetch import prefetched
from tracekit.trace.reader import TraceReader
from tracekit.trace.recovery import reject
from tracekit.trace.source import ByteStream
from tracekit.trace.unpacking import zstd

EVENTS = [
    {"ph": "X", "name": "a},{b", "ts": 1.5, "dur": 2, "args": {"deep": [{"x": 1}, {"x": 2}]}},
    {"ph": "X", "name": 'say "ph": {', "ts": 3, "args": {"text": '},\n  {"ph": "X"}'}},
    {"ph": "M", "name": "\u00e9\u4e2d\U0001f600\\", "args": {}},
    {"ph": "i", "name": "", "s": "g"},
] * 5


@pytest.fixture(scope="module")
def read():
    """Reads all events of a trace in batches of the given size; small ones cut most events.

    `read.rejected` has the byte offset and text of everything rejected.
    """
    with duckdb.connect() as connection:
        create_tables(connection)
        connection.execute(catalog.vocabulary()["microseconds"])
        connection.execute("SET VARIABLE trace = 1")

        def read(data: bytes, batch_bytes: int, folder: Path) -> tuple[list, TraceReader]:
            file = folder / "trace"
            file.write_bytes(data)
            with ByteStream(str(file), file.open("rb")) as stream:
                reader = TraceReader(stream, 1 << LABEL_BITS, batch_bytes)
                Ingest(connection).insert_events(1, reader)
            texts = connection.execute(
                catalog.render_template("write_events", chosen="")
            ).fetchall()
            places = connection.execute("SELECT event_id FROM event ORDER BY 1").fetchall()
            read.rejected = connection.execute(
                "SELECT byte_offset, text FROM rejected ORDER BY 1"
            ).fetchall()
            assert len(read.rejected) == reader.rejected
            for table in ("event_row", "label", "rejected", "verbatim"):
                connection.execute(f"DELETE FROM {table}")
            assert places == [(place,) for place in range(reader.events)]
            events = [text.decode("utf-8", "replace") for text, is_event, _ in texts if is_event]
            return [json.loads(text) for text in events], reader

        yield read


def document(events=EVENTS, indent=None, before=True, after=True) -> str:
    whole = {"schemaVersion": 1, "note": '"traceEvents": [{'} if before else {}
    whole["traceEvents"] = events
    if after:
        whole |= {"traceName": "t", "INFO": ["}, {", "]"], "baseTimeNanoseconds": 7}
    return json.dumps(whole, indent=indent, ensure_ascii=False)


GOOD = {"ph": "X", "name": "good", "ts": 1}
NESTED = {"ph": "X", "name": "n", "args": {"list": [{"ph": "X"}] * 40}}
OTHERS = [{"ph": "X", "name": "no"}] * 30
DAMAGED = json.dumps({"traceEvents": [GOOD, "BAD", GOOD, GOOD]}).replace('"BAD"', '{"ph": tru}')
STRAY = '{"ph": "X"}, 512, 1], []], "Ev Idx": 3}}'
WHOLE, PACKED = document(indent=1), gzip.compress(document().encode())
# A text, how many bytes are read at once, its events, and other results: metadata, rejected texts
# and their positions, and the message about damage.
TEXTS = {
    "an array that is not closed": (json.dumps(EVENTS)[:-1] + ",\n", 100, EVENTS, {}),
    "events in events": (document([NESTED] * 9), 70, [NESTED] * 9, {}),
    "objects like events after the events": (
        json.dumps({"traceEvents": EVENTS, "otherEvents": OTHERS}), 90, EVENTS,
        {"metadata": {"otherEvents": OTHERS}},
    ),
    "control characters and broken UTF-8 in names": (
        b'{"traceEvents": [{"name": "a\x01\tb"}, {"name": "\xff"}]}', 1 << 20,
        [{"name": "a\x01\tb"}, {"name": "\ufffd"}], {},
    ),
    "a damaged event": (
        DAMAGED, 1 << 20, [GOOD] * 3,
        {"rejected": [(DAMAGED.index('{"ph": tru}'), '{"ph": tru}')]},
    ),
    "more after an object": (
        document() + " \n{}", 100, EVENTS, {"rejected": [(len(document().encode()) + 2, "{}")]},
    ),
    "more after an array": (json.dumps(EVENTS) + " \n{}", 100, EVENTS, {"damage": ""}),
    "broken UTF-8 before the events": (
        b'{"host": "a\xffb\xfe\xfd", "traceEvents": [{"ph": "X"}]}', 100, [{"ph": "X"}],
        {"metadata": {"host": "a\ufffdb\ufffd\ufffd"}},
    ),
    "a second list of events": (
        '{"traceEvents": [{"ph": "X"}], "traceEvents": [{"ph": "M"}]}', 9,
        [{"ph": "X"}, {"ph": "M"}], {"rejected": [(46, "[")]},
    ),
    "a second list of events that is none": (
        '{"traceEvents": [{"ph": "X"}], "a": 1, "traceEvents": 5, "b": 2}', 9, [{"ph": "X"}],
        {"damage": "not an array"},
    ),
    **{
        f"a key of {key}": (f'{{"a": 1, "{key}": [{{"ph": "X"}}]}}', 9, [{"ph": "X"}], {})
        for key in (r"\u0074raceEvents", r"\u0074\u0072\u0061\u0063\u0065Events")
    },
    "halves of surrogate pairs before the events": (
        rb'{"a": "\ud800", "b": ["\udc00\ud800x", "\ud83d\ude00"], "c": "' + b"\xff\xed\xa0\x80\x02"
        rb'\"' + b'\xc3\xa9", "' + rb'\ud83d": "\ud83d", "traceEvents": [{"ph": "X"}]}', 100,
        [{"ph": "X"}],
        {"metadata": {"a": "\ufffd", "b": ["\ufffd\ufffdx", "\U0001f600"],
                      "c": '\ufffd\ufffd\ufffd\ufffd\x02"\u00e9', "\ufffd": "\ufffd"}},
    ),
    "an array": (json.dumps(EVENTS), 100, EVENTS, {}),
    "a byte order mark": ("\ufeff" + WHOLE, 100, EVENTS, {}),
    "lines of Windows": (WHOLE.replace("\n", "\r\n"), 100, EVENTS, {}),
    "white space around": ("  \n\t" + WHOLE + "\n \n", 100, EVENTS, {}),
    "zstd": (zstd.compress(WHOLE.encode()), 100, EVENTS, {}),
    "gzip in members": (
        gzip.compress(WHOLE[:300].encode()) + gzip.compress(WHOLE[300:].encode()), 100, EVENTS, {}
    ),
    **{
        f"gzip with {end}": (data, 10_000, EVENTS, {"damage": damage})
        for end, data, damage in (
            ("another checksum", PACKED[:-8] + bytes(4) + PACKED[-4:], "corrupt"),
            ("another size", PACKED[:-4] + bytes(4), "corrupt"),
            ("a cut trailer", PACKED[:-5], "ends early"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_an_odd_text_gives_its_events(text, read, tmp_path):
    data, batch_bytes, expected, more = TEXTS[text]
    data = data if isinstance(data, bytes) else data.encode()
    events, reader = read(data, batch_bytes, tmp_path)
    assert events == expected
    if "damage" in more:
        assert reader.damage and more["damage"] in reader.damage
    else:
        assert (reader.damage, read.rejected) == (None, more.get("rejected", []))
    # All bytes of the file count, whatever follows the trace.
    assert reader.stream.sha256 == hashlib.sha256(data).hexdigest()
    assert reader.stream.file_bytes == len(data)
    if "metadata" in more:
        assert json.loads(reader.metadata_text) == more["metadata"]


def test_a_stray_bracket_does_not_end_the_events(read, tmp_path):
    text = json.dumps({"traceEvents": [GOOD, "HERE", *[GOOD] * 20]}).replace('"HERE"', STRAY)
    events, reader = read(text.encode(), 1 << 20, tmp_path)
    assert len(events) == 22
    assert "512" in read.rejected[0][1]
    assert reader.damage is None


def test_a_thousand_damaged_events_are_rejected(read, tmp_path, monkeypatch):
    # Flush rejected text often.
    monkeypatch.setattr("tracekit.trace.reader._REJECTED_BYTES", 10_000)
    good, bad = '{"ph": "X", "name": "good", "ts": 1}', '{"ph": "\u00e9\\u0000", "ts": }'
    text = '{"traceEvents": [' + ", ".join([*[good, bad] * 1000, good]) + "]}"
    events, _ = read(text.encode(), 1 << 12, tmp_path)
    assert events == [json.loads(good)] * 1001
    places = [found.start() for found in re.finditer(re.escape(bad.encode()), text.encode())]
    assert read.rejected == [(place, bad) for place in places]


@pytest.mark.thorough
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_trace_cut_at_any_byte_gives_its_whole_events_and_says_so(read, pack, tmp_path):
    text = document(indent=1).encode()
    packed = pack(text)
    first = text.index(b'"ph"')
    for end in range(len(packed) - 1, len(packed) // 4, -sample("cuts", 1, 23)):
        try:
            events, reader = read(packed[:end], 200, tmp_path)
        except TracekitError as error:
            # The trace was cut before its first event.
            assert pack is not bytes or end <= first, error
            continue
        assert events == EVENTS[: len(events)]
        assert reader.damage, end


def test_a_cut_gzip_loses_nothing_that_was_decompressed(read, tmp_path):
    many = [{"ph": "X", "name": f"event {place}", "ts": place} for place in range(20_000)]
    packed = gzip.compress(json.dumps({"traceEvents": many}).encode())
    half = packed[: len(packed) // 2]
    reachable = b""
    stream = gzip.GzipFile(fileobj=io.BytesIO(half))
    with pytest.raises(EOFError):
        while chunk := stream.read1(100):
            reachable += chunk
    events, reader = read(half, 10_000, tmp_path)
    assert events == many[: len(events)]
    assert len(events) >= reachable.count(b"{") - 2
    assert "ends early" in reader.damage


def chakra(nodes: int) -> bytes:
    node = {"id": 1, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1}
    file = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "start_ts": 2, "nodes": [node] * nodes}
    return json.dumps(file).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b"hello", "is not JSON"),
        (b"PK\x03\x04\x14\x00", "is a zip archive: unpack it first"),
        (lzma.compress(b"{}"), "is compressed with xz"),
        (bz2.compress(b"{}"), "is compressed with bzip2"),
        ("{}".encode("utf-16"), "is UTF-16 text, not UTF-8"),
        (b'{"a": 1}', "no `traceEvents`"),
        (b'{"traceEvents": 5}', "not an array"),
        (b'{"traceEvents": null}', "not an array"),
        (b'{"a": tru', "is not JSON"),
        (b'{"a": {"b": [1, 2', "is not JSON"),
        (b"{5: 6}", "is not JSON"),
        (b"\x1f\x8b\x08\x00" + b"garbage" * 9, "corrupt"),
        (gzip.compress(b"{}", mtime=0)[:8], "ends early"),
        *(
            (chakra(nodes), r"^[^\n]*is a PyTorch execution trace \(Chakra\)[^\n]*$")
            for nodes in (1, 100_000)
        ),
    ],
)
def test_a_file_that_is_not_a_trace_is_refused_with_the_reason(read, data, reason, tmp_path):
    threads = threading.enumerate()
    with pytest.raises(TracekitError, match=reason) as raised:
        read(data, 100, tmp_path)
    # `raised` keeps every frame of the traceback alive: no garbage collector has ended a thread.
    assert threading.enumerate() == threads, raised


def test_a_load_that_is_ended_leaves_no_thread(tmp_path):
    class Ended(Exception):
        pass

    def end(n_events: int) -> None:
        raise Ended

    file = tmp_path / "trace.json"
    file.write_text(document(EVENTS * 10_000))
    threads = threading.enumerate()
    with duckdb.connect() as connection, ByteStream(str(file), file.open("rb")) as stream:
        create_tables(connection)
        with pytest.raises(Ended) as raised:
            Ingest(connection, on_batch=end).load(stream, 1)
        assert threading.enumerate() == threads, raised


def test_chunks_come_in_order_each_made_by_another_thread_while_the_last_is_in_use():
    made_by, second_is_made, before = [], threading.Event(), threading.enumerate()

    def items():
        made_by.append(threading.current_thread())
        yield "first"
        second_is_made.set()
        yield "second"
        raise ValueError("broken")

    with prefetched(items()) as made, pytest.raises(ValueError, match="broken"):
        assert next(made) == "first"
        assert second_is_made.wait(10)
        assert next(made) == "second"
        next(made)
    assert threading.current_thread() not in made_by
    assert threading.enumerate() == before


@pytest.mark.parametrize("text", ["\u4e2d", "a\u4e2d", "aa\u4e2d", "\udc80"])
def test_long_rejected_text_is_split_between_characters(text):
    data = (text + text[-1] * 1_500_000).encode("utf-8", "surrogateescape")
    rows = list(reject(data, 7, "broken"))
    assert 10 < len(rows) < 100
    assert "".join(row.text for row in rows) == data.decode("utf-8", "replace")
    if "\udc80" not in text:
        lengths = [len(row.text.encode()) for row in rows]
        assert [row.offset for row in rows] == [7 + sum(lengths[:n]) for n in range(len(rows))]


@pytest.mark.parametrize("zeros", [3_000, 5_000_000])
@pytest.mark.parametrize("place", ["events", "name", "end", "after"])
def test_zeros_of_a_full_disk_are_rejected(read, zeros, place, tmp_path, monkeypatch):
    monkeypatch.setattr("tracekit.trace.reader._STRETCH_BYTES", 1 << 20)
    good, zero = json.dumps({"ph": "X", "name": "good", "ts": 1}), "\0" * zeros
    many = ", ".join([good] * 20)
    text = {
        "events": f'{{"traceEvents": [{many}, {zero}, {many}]}}',
        "name": f'{{"traceEvents": [{many}, {{"ph": "X", "name": "b{zero}, {many}]}}',
        "end": f'{{"traceEvents": [{many}{zero}',
        "after": f'{{"traceEvents": [{many}]}}{zero}',
    }[place]
    events, reader = read(text.encode(), 1 << 10, tmp_path)
    assert [event for event in events if event != json.loads(good)] == []
    assert len(events) >= (38 if place in ("events", "name") else 20)
    assert sum(each.count("\0") for _, each in read.rejected) == zeros
    assert all(text[at : at + len(each)] == each for at, each in read.rejected)
    assert max(len(each) for _, each in read.rejected) <= 1 << 20
    assert reader.damage or place in ("events", "name")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(string.printable + "\u00e9\u2028\U0001f600", max_size=8)
    | st.sampled_from(["},{", '"ph"', "\\", '{"ph": "X"}', "]}", "traceEvents"]),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=sample("events cut into batches", 150, 40))
@given(
    st.lists(st.dictionaries(st.sampled_from(["ph", "name", "args"]), json_values), max_size=8),
    st.integers(1, 300),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
    st.booleans(),
)
@example(EVENTS, 1, 2, True, False)
@example(EVENTS, 1 << 20, None, False, True)
def test_any_events_survive_any_cut_before_after_or_between_metadata(
    read, tmp_path_factory, events, batch_bytes, indent, before, after
):
    text = document(events, indent, before, after)
    found, reader = read(text.encode(), batch_bytes, tmp_path_factory.mktemp("cut"))
    assert found == events
    assert (reader.damage, reader.rejected) == (None, 0)
    rest = {key: value for key, value in json.loads(text).items() if key != "traceEvents"}
    assert json.loads(reader.metadata_text) == rest
