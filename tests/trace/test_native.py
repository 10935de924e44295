"""Events as the native reader takes them apart: digit for digit, and any bytes without harm."""

import gzip
import json
import math
from fractions import Fraction

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import trace_file
from tests.kit import perfetto_any, sanitized, xplane_any
from tests.kit.processes import ran
from tests.kit.sampling import sample
from tracekit.native.events import Labels, Read, Stop, read_events
from tracekit.native.library import Batch, BatchStream, Rows

DUCKDB = duckdb.connect()
WHOLE = b'{"ph": "X", "ts": 1.5, "args": {"a": [1, {"b": null}], "t": "\\u00e9\\n"}, "x": true}'


def read(text: bytes) -> Read:
    return read_events(bytearray(text), 0, Labels(0))


def table(kind: Rows, batch: Batch) -> list[dict]:
    found = DUCKDB.from_arrow(BatchStream(kind, iter([batch])))
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def rows(text: bytes) -> list[dict]:
    """The columns and words of all events of a text, which must be sound."""
    labels = Labels(7)
    found = read_events(bytearray(text), 0, labels)
    assert found.stop is Stop.AT_END, (found.stop, found.error, text[found.end :])
    said = {row["label_id"]: row for row in table("label", labels.take())}
    assert list(said) == list(range(7, 7 + len(said)))
    return [row | said[row["label_id"]] for row in table("event", found.batch)]


def row(text: str) -> dict:
    (only,) = rows(text.encode())
    return only


def nanoseconds(number: str) -> int | None:
    """Converts microseconds; half a nanosecond is rounded away from zero. None beyond 64 bits."""
    exact = Fraction(number) * 1000
    rounded = math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    return rounded if -(2**63) <= rounded < 2**63 else None


def timed(number: str) -> tuple[int | None, int | None, str]:
    found = row(f'{{"ts": {number}, "dur": "{number}"}}')
    return found["ts_ns"], found["dur_ns"], found["raw"]


@settings(max_examples=sample("times as JSON allows them", 500, 60))
@given(
    st.decimals(-(10**17), 10**17, allow_nan=False).map(lambda n: str(n).lower())
    | st.builds("{}e{}".format, st.integers(-(10**20), 10**20), st.integers(-30, 30))
    | st.floats(-1e15, 1e15).map(repr)
    | st.integers(-(2**70), 2**70).map(str)
)
@example("9223372036854775.807")
@example("-9223372036854775.808")
@example("9223372036854775.808")
@example("0.0005")
@example("-0.00049999999999999999999999999999999999999999999")
@example("1" + "0" * 400 + "e-400")
def test_microseconds_become_nanoseconds_exactly(number):
    ns = nanoseconds(number)
    # The tables lose that the duration was text, so the original is kept.
    assert timed(number) == (ns, ns, f'{{"ts":{number},"dur":"{number}"}}')


@pytest.mark.parametrize(
    ("number", "ns"), [("0e99999999999", 0), ("1e-99999999999", 0), ("1e999999", None)]
)
def test_an_exponent_may_be_of_any_size(number, ns):
    assert timed(number)[:2] == (ns, ns)


@pytest.mark.parametrize(
    ("ts", "is_reproduced"),
    [("1.25", True), ("1.2500000", True), ("12e2", True), ("1.0005", False), ("NaN", False),
     ("null", False), ("[1]", False), ('"1.25"', False), ("true", False), ("1e30", False)],
)  # fmt: skip
def test_an_event_keeps_its_text_where_the_columns_do_not_say_it(ts, is_reproduced):
    text = f'{{"ph":"X","ts":{ts}}}'
    assert row(text)["raw"] == (None if is_reproduced else text)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ('{"correlation": 7, "External id": 8, "device": 1, "stream": -7}', (7, 8, 1, -7)),
        ('{"external id": 5}', (None, 5, None, None)),
        ('{"external id": 5, "External id": 6}', (None, 6, None, None)),
        ('{"External id": 6, "external id": 5}', (None, 6, None, None)),
        ('{"stream": 1, "stream": 2}', (None, None, None, 1)),
        ('{"correlation": "12", "device": 3.0, "stream": 2.5}', (12, None, 3, None)),
        ('{"correlation": 9223372036854775808, "device": null}', (None, None, None, None)),
        ('{"deep": {"stream": 4}}', (None, None, None, None)),
    ],
)
def test_ids_that_join_events_are_read_from_args(args, expected):
    found = row(f'{{"args": {args}}}')
    keys = ("correlation", "external_id", "device_id", "stream")
    assert tuple(found[key] for key in keys) == expected
    assert json.loads(found["args"]) == json.loads(args)


def test_processes_and_threads_of_text_are_numbers_of_their_own():
    texts = ('"Spans"', '"Trace"', '"12"', "12", '"Spans"', "1.5", "null")
    pids = [row(f'{{"pid": {text}, "tid": 1}}')["pid"] for text in texts]
    assert pids[2:4] == [12, 12]
    assert pids[0] == pids[4] < 0
    assert len({*pids[:3], pids[5]}) == 4
    assert pids[6] is None


def test_escapes_are_taken_out_of_text_and_of_keys():
    text = r'{"\u0070h": "X", "name": "a\"\\\/\b\f\n\r\t\u00e9\u4e2d\ud83d\ude00\u0000"}'
    found = row(text)
    assert found["name"] == 'a"\\/\b\f\n\r\t\u00e9\u4e2d\U0001f600\x00'
    assert (found["phase"], found["raw"]) == ("X", None)


def test_extensions_of_json_that_duckdb_accepts_are_accepted():
    text = '{"args": {"a": [nan, -Infinity, INF,], "b": 1,},}'
    assert row(text)["args"] == '{"a":[nan,-Infinity,INF],"b":1}'


VALUES = [
    b"tru", b"01", b".5", b"5.", b"1e", b"+1", b"[1 2]", b"[}", b"{]", b"{b: 1}", b'{"b" 1}',
    b"'b'",
]  # fmt: skip
DAMAGED = [
    *(b'{"a": ' + value + b"}" for value in VALUES),
    *(b'{"a": "' + text + b'"}' for text in (b"\\x", b"\\u12g4")),
    *(b"5 5", b'"text": 1', b"nul", b"[1}"),
]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_reading_stops_before_an_element_that_is_not_an_event(damaged):
    found = read(WHOLE + b", " + damaged + b", " + WHOLE)
    assert (found.stop, found.batch.rows, found.end) == (Stop.AT_ERROR, 1, len(WHOLE) + 2)
    assert found.error


HALVES = [b"\\ud800", b"\\ud800\\u0041", b"\\udc00"]
NO_UTF8 = [
    b"\xff", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf0\x80\x80\xaf",
    b"\xf4\x90\x80\x80",
]  # fmt: skip


@pytest.mark.parametrize("lost", [*HALVES, *NO_UTF8, b"\x1f"])
def test_invalid_characters_in_strings_are_replaced_and_the_original_is_kept(lost):
    odd = b'{"name": "' + lost + b'", "args": {"' + lost + b'": ["' + lost + b'"]}, "id": 7}'
    labels, text = Labels(0), bytearray(WHOLE + b", " + odd + b", " + WHOLE)
    found = read_events(text, 0, labels)
    begin, end = len(WHOLE) + 2, len(WHOLE) + 2 + len(odd)
    assert (found.stop, found.batch.rows) == (Stop.AT_END, 3)
    assert list(found.verbatim) == ([] if lost == b"\x1f" else [(begin, end, 1, True, 1)])
    (name,) = {row["name"] for row in table("label", labels.take())} - {None}
    _, row, _ = table("event", found.batch)
    expected = lost.decode("utf-8", "replace").replace("\\u0041", "A")
    expected = expected.replace("\\ud800", "\ufffd").replace("\\udc00", "\ufffd")
    # Each byte that is not UTF-8 becomes one character.
    assert {"\ufffd": "\ufffd"}.get(name.strip("\ufffd"), name.strip("\ufffd")) == expected.strip(
        "\ufffd"
    )
    assert json.loads(row["args"]) == {name: [name]}
    assert (row["flow_id"], row["raw"]) == (7, None)


@pytest.mark.parametrize(
    "element", [b"null", b"true", b"-1.5e3", b"NaN", b'"\\ud800{"', b"[{}, [1]]"]
)
def test_elements_that_are_not_objects_are_passed_over_and_pointed_to(element):
    text = bytearray(b", ".join([element, WHOLE, element, WHOLE, element]) + b"]")
    found = read_events(text, 5, Labels(0))
    assert (found.stop, found.batch.rows) == (Stop.AT_BRACKET, 2)
    assert [(text[begin:end], *rest) for begin, end, *rest in found.verbatim] == [
        (element, event_id, False, 1) for event_id in (5, 6, 7)
    ]


def test_reading_stops_before_an_event_that_is_cut_off_anywhere():
    for end in range(1, len(WHOLE)):
        found = read(WHOLE + b",\n" + WHOLE[:end])
        assert (found.stop, found.batch.rows, found.end) == (Stop.INSIDE, 1, len(WHOLE) + 2)


def test_nesting_of_any_depth_is_read_or_refused():
    for depth, stop in ((60_000, Stop.AT_END), (70_000, Stop.AT_ERROR)):
        text = b'{"args": ' + b"[" * depth + b"]" * depth + b"}"
        assert read(text).stop is stop


def test_memory_for_labels_does_not_grow_with_their_number():
    n_labels = 200_000
    labels, n_known = Labels(0), set()
    for first in range(0, n_labels, 1000):
        texts = [f'{{"name": "often"}}, {{"name": "n{n}"}}' for n in range(first, first + 1000)]
        found = read_events(bytearray(",".join(texts).encode()), 2 * first, labels)
        assert found.stop is Stop.AT_END
        if labels.are_many:
            n_known.add(labels.take().rows)
    # It says that they are many before they are, and what it forgot has a new number: few do.
    assert max(n_known) < 20_000
    ids = table("event", found.batch)
    assert n_labels < max(row["label_id"] for row in ids) < n_labels + 10


@settings(max_examples=sample("bytes that are not JSON", 300, 100))
@given(
    st.binary(max_size=80)
    | st.lists(
        st.sampled_from([*b'{}[]":,\\ \n0129.-+eEnaNiIftu\x00\xff\xe2\x80', *WHOLE]), max_size=60
    ).map(bytes)
)
def test_any_bytes_are_read_without_harm(text):
    for whole in (text, b'{"ph": ' + text, b'{"args": {"a": "' + text, WHOLE + text):
        found = read(whole)
        assert 0 <= found.end <= len(whole)
        assert (found.stop is Stop.AT_END) == (found.end == len(whole))
        assert (found.stop is Stop.AT_ERROR) == bool(found.error)


def hard_trace() -> bytes:
    """A trace whose events have all that makes reading hard."""
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": f"op\u00e9 {place} \"quoted\" \\ \n and long",
            "id": place, "pid": "Spans" if place % 5 == 0 else 1, "tid": "1", "dur": 0.5, "s": "",
            "ts": 1e15 / 7 if place % 3 else "12.5",
            "args": {"correlation": str(place), "deep": [{"a": [1, None, math.nan]}, {"b": "},{"}]},
            "cname": {"x": [-1.5e-7, 0, "\U0001f600"]},
        }
        for place in range(60)
    ]  # fmt: skip
    texts = [json.dumps(event, ensure_ascii=bool(event["id"] % 2)) for event in events]
    return b'{"traceEvents": [' + ",".join(texts).encode() + b"]}"


# One trace for each kind of device and writer.
FUZZED = (
    None, "cpu-mlp-eager", "a100-triton", "h100-bert-small", "mi300x-vllm-decode",
    "b200-moe-reads", "mtia-inference", "no-categories",
)  # fmt: skip


@pytest.mark.parametrize("name", sample("traces whose events are damaged", FUZZED, FUZZED[:1]))
def test_damaged_events_are_read_within_bounds(name, tmp_path):
    """Most texts give events, so that what is damaged is what they are made of."""
    program = sanitized.compiled("fuzz_native", tmp_path)
    packed = name and trace_file(f"{name}.json.gz").read_bytes()
    (tmp_path / "trace").write_bytes(gzip.decompress(packed) if packed else hard_trace())
    cases = sample("damaged texts of each trace", 50_000, 2_000)
    done = ran(program, "1", str(cases), tmp_path / "trace")
    assert (done.returncode, done.stderr) == (0, "")
    with_events, events = map(int, done.stdout.split())
    assert with_events > cases / 2
    assert events > cases


@pytest.mark.parametrize(
    ("reader", "made"), [("perfetto", perfetto_any.trace), ("xplane", xplane_any.profile)]
)
def test_damaged_protobuf_is_read_within_bounds(reader, made, tmp_path):
    program = sanitized.compiled(f"fuzz_{reader}", tmp_path)
    files = [tmp_path / str(seed) for seed in range(30)]
    for seed, file in enumerate(files):
        file.write_bytes(made(seed))
    cases = sample("damaged protobuf traces", 100_000, 2_000)
    done = ran(program, "1", str(cases), *files)
    assert (done.returncode, done.stderr) == (0, "")
    with_events, events = map(int, done.stdout.split())
    assert with_events > cases / 3
    assert events > cases
