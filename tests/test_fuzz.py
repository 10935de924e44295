"""Two thousand damaged traces: no traceback, no hang, and no event that silently disappears."""

import gzip
import json
import random
import re

import duckdb
import pytest

from tests.conftest import SHARED_TRACES
from tracekit.errors import TracekitError
from tracekit.ingest import Ingest, create_tables
from tracekit.sources import ByteStream

CASES_PER_SEED = 250
_NAMES = re.compile(rb'"op (\d+)"')


def trace(indent: int | None) -> bytes:
    """Sixty events, each with a name of its own and something that looks like a boundary."""
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
    """The trace with one to three things wrong with it."""
    for _ in range(rng.randint(1, 3)):
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
    """One database for all cases: a new one for each would cost more than the load."""
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
    for table in ("event_row", "label", "rejected", "device", "trace"):
        connection.execute(f"DELETE FROM {table}")
    assert sorted(row[1] for row in kept if row[1] is not None) == list(range(events))
    found = set(_NAMES.findall("\n".join(row[0] or "" for row in kept).encode()))
    lost = set(_NAMES.findall(data)) - found
    assert not lost, (sorted(lost), rejected, damage)


@pytest.mark.parametrize("seed", range(8))
def test_no_event_of_a_damaged_trace_disappears(seed, ingest, tmp_path):
    rng = random.Random(seed)
    whole = trace([None, 1][seed % 2])
    for _ in range(CASES_PER_SEED):
        data = damaged(whole, rng)
        try:
            account(data, tmp_path / "damaged.json", ingest)
        except BaseException:
            (tmp_path / "failed.json").write_bytes(data)
            raise


@pytest.mark.parametrize("indent", [None, 1])
def test_a_trace_cut_at_every_97th_byte_keeps_its_whole_events(indent, ingest, tmp_path):
    whole = trace(indent)
    for end in range(97, len(whole), 97):
        account(whole[:end], tmp_path / "cut.json", ingest)


# The shared real traces that are small enough to be cut a hundred times.
REAL = (
    "cpu-only",
    "a100-triton",
    "a100-event-sync-multistream",
    "mi300x-triton-compiled",
    "mi250-minitoy",
)


@pytest.mark.parametrize("name", REAL)
def test_a_real_trace_cut_at_every_997th_byte_keeps_its_whole_events(name, ingest, tmp_path):
    packed = SHARED_TRACES / f"{name}.json.gz"
    if not packed.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    whole = gzip.decompress(packed.read_bytes())
    text = whole.decode("latin-1")
    at = text.index("[", text.index('"traceEvents"')) + 1
    spans, names = [], []
    while match := re.compile(r"[\s,]*(?=\{)").match(text, at):
        event, at = json.JSONDecoder(strict=False).raw_decode(text, match.end())
        spans.append((match.end(), at))
        names.append(event.get("name"))
    loader, connection = ingest
    for cut in range(997, len(whole), 997):
        (tmp_path / "cut.json").write_bytes(whole[:cut])
        with ByteStream("cut.json", (tmp_path / "cut.json").open("rb")) as stream:
            try:
                loader.load(stream, trace_id=1)
            except TracekitError:
                # Cut before its events, it is no trace.
                assert cut < spans[0][1]
                continue
        kept = connection.execute("SELECT name FROM event ORDER BY event_id").fetchall()
        damage, rejected = connection.execute("SELECT damage, rejected FROM trace").fetchone()
        for table in ("event_row", "label", "rejected", "device", "trace"):
            connection.execute(f"DELETE FROM {table}")
        assert [row[0] for row in kept] == names[: sum(end <= cut for _, end in spans)], cut
        assert damage is not None
        # An event that was cut in two is the one thing set aside; behind them, half a member.
        if cut <= spans[-1][1]:
            assert rejected == sum(start < cut < end for start, end in spans), cut
