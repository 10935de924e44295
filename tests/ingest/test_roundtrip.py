"""Load and export give back an equal trace, for every legal trace."""

import json
import string

from hypothesis import example, given, settings
from hypothesis import strategies as st

import tracekit
from tests.kit.sampling import sample

names = st.text(string.printable + "\u00e9\u2028\U0001f600\x00", max_size=10)
numbers = st.integers(-(2**66), 2**66) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | names,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(names, children, max_size=3),
    max_leaves=6,
)
# Times as Kineto writes them, and in every other form that JSON allows.
microseconds = st.one_of(
    st.integers(0, 2**52),
    st.integers(0, 2**60).map(lambda ns: ns / 1000),
    st.integers(0, 10**15).map(str),
    numbers,
    values,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "M", "s", "f", "i", "C", "B"]) | values,
        "cat": st.sampled_from(["kernel", "cpu_op", "ac2g"]) | values,
        "name": names | values | st.just("half \ud83d of a pair"),
        "pid": st.integers(0, 9) | st.sampled_from(["Spans", ""]) | values,
        "tid": st.integers(0, 9) | values,
        "ts": microseconds,
        "dur": microseconds,
        "id": st.integers(0, 9) | st.just("0x1f") | values,
        "bp": st.just("e") | values,
        "s": st.just("g") | values,
        "args": st.dictionaries(
            st.sampled_from(["correlation", "External id", "external id", "stream", "x"]), values
        )
        | values,
        "cname": names,
    },
)


def there_and_back(folder, *texts: str) -> list[str]:
    """Loads the traces together and exports them one by one."""
    sources = [folder / f"in{number}.json" for number in range(len(texts))]
    for source, text in zip(sources, texts, strict=True):
        source.write_bytes(text.encode("utf-8", "surrogatepass"))
    copies = []
    with tracekit.load(sources) as database:
        for trace_id in database.trace_ids():
            database.export(folder / "out.json", trace_id)
            copies.append((folder / "out.json").read_text(encoding="utf-8"))
    return copies


whole = st.tuples(
    st.builds(lambda first, rest: [first, *rest], events, st.lists(events | values, max_size=6)),
    st.dictionaries(names, values, max_size=3),
)
KNOWN = [
    ([{"ts": 1712195495527376.234}, {"ts": "1712195495527376.234"}, {"ts": 1e30}], {}),
    ([{"dur": n} for n in (1e26, 1.0000000000000002e26, 10**26 - 1, 1e28, -1e29)], {}),
    ([{"args": {"a": 1, "b": [1.5, {"c": None}]}, "ts": -0.5}], {"traceName": "\u2028"}),
    ([None, 1, {"args": {"\udc00": "\ud800"}}, "}, {", [{}], {}, [[]], True],
     {"\ud800": "\udfff"}),
]  # fmt: skip


# A load costs more than its traces.
@settings(max_examples=sample("random traces, ten at a time, loaded and exported", 24, 1))
@given(st.lists(whole, min_size=10, max_size=10))
@example(KNOWN)
def test_any_legal_trace_is_exported_equal(tmp_path_factory, given_traces):
    written = []
    for listed, metadata in given_traces:
        rest = {k: v for k, v in metadata.items() if k != "traceEvents"}
        written += [rest | {"traceEvents": listed}, listed]
    folder = tmp_path_factory.mktemp("trip")
    copies = there_and_back(folder, *map(json.dumps, written))
    assert [json.loads(copy) for copy in copies] == written


ODD = [
    b'{"ph":"X","name":"\\ud800","ts":1}',
    b"null",
    b'{"ph":"X","name":"\xff\xe2\x28","args":{"\xc3": "\\udc00 \xf0\x9f"}}',
    b'[1.50,{"a":"\xff"}]',
    b'"\\ud83d"',
    b'{"ph":"X","ts":2.0,"x":"\\udc00"}',
    b"-0.0",
]


def test_text_that_the_tables_cannot_say_comes_back_byte_for_byte(tmp_path):
    head = b'"h\xff": "\\ud800", '
    text = b"{" + head + b'"traceEvents": [\n' + b",\n".join(ODD) + b"\n]}\n"
    (tmp_path / "in.json").write_bytes(text)
    with tracekit.load(tmp_path / "in.json", tmp_path / "one.duckdb") as database:
        assert database.export(tmp_path / "out.json") == 3
        _, kinds = database.fetch("SELECT reason, event_id FROM rejected ORDER BY byte_offset")
        _, said = database.fetch("SELECT name, args FROM event ORDER BY event_id")
    assert (tmp_path / "out.json").read_bytes() == text
    assert kinds == [
        ("null, not an event", 1), ("a list, not an event", 2), ("a text, not an event", 2),
        ("a number, not an event", 3),
    ]  # fmt: skip
    # Answers from the tables are valid text and valid JSON.
    assert [name and "\ufffd" in name for name, _ in said] == [True, True, None]
    assert json.loads(said[1][1])
    # They go with the trace into another database.
    with tracekit.load([tmp_path / "one.duckdb", tmp_path / "in.json"]) as database:
        for trace_id in database.trace_ids():
            database.export(tmp_path / "again.json", trace_id)
            assert (tmp_path / "again.json").read_bytes() == text


def test_a_list_opened_by_a_stray_bracket_does_not_hide_the_events_in_it(tmp_path):
    for place, text in enumerate((
        '{"traceEvents":[{"ph":"X"},[{"ph":"X"},{"ph":"X"},{"ph":"X"}]}',
        '{"traceEvents":[{"ph":"X"},[{"ph":"X"},{"ph":"X"},{"ph":"X"}],"traceName":"t"}',
        '[{"ph":"X"},[{"ph":"X"},{"ph":"X"},{"ph":"X"}]',
    )):  # fmt: skip
        (tmp_path / f"{place}.json").write_text(text)
    with tracekit.load(tmp_path) as database:
        assert database.fetch("SELECT events, rejected FROM trace")[1] == [(3, 1)] * 3


def test_digits_repeated_keys_nan_and_infinity_are_exported_as_they_were(tmp_path):
    kept = ['"ts":1712195495527376.234', '"name":"a","name":"b"', '"args":{"a":NaN,"b":-Infinity}']
    texts = [f'[{{"ph":"X",{each}}}]' for each in kept]
    for each, copy in zip(kept, there_and_back(tmp_path, *texts), strict=True):
        assert each in copy.replace(" ", "")
