"""Small files that would take much memory or time are refused in one line, by each reader."""

import gzip
import pickle
import re
import sys
import zlib
from collections import deque
from contextlib import ExitStack
from pathlib import Path

import pytest

import tracekit
from tests.kit import snapshots, traces
from tests.kit.limited import limited
from tests.kit.other_formats import ROCPD_SUFFIX, changed, compressed, rocpd
from tests.trace.test_nsys import report
from tracekit.errors import TracekitError
from tracekit.trace import budget
from tracekit.trace.beside import annotated_nodes
from tracekit.trace.other.converted import OpenedFile
from tracekit.trace.readers import snapshot
from tracekit.trace.source import ByteStream

PICKLE, SEGMENTS = b"\x80\x04", b"\x80\x04}\x8c\x08segments]"
DEEP = b")" + b"\x85" * 200_000


def number(value: int) -> bytes:
    """A number as protobuf writes it."""
    text = b""
    while value > 127:
        text, value = text + bytes([value & 127 | 128]), value >> 7
    return text + bytes([value])


def field(place: int, content: bytes) -> bytes:
    """A field of a protobuf message that has a length."""
    return number(place << 3 | 2) + number(len(content)) + content


def plane(content: bytes) -> bytes:
    return field(1, field(2, b"/host:CPU") + content)


def stat_name(size: int) -> bytes:
    """A text of this size for stats to refer to."""
    return field(5, b"\x08\1" + field(2, field(2, b"x" * size)))


def referring(place: int, count: int) -> bytes:
    """Stats that are this text, in the field of this number."""
    return b"".join(field(place, b"\x08" + number(k + 2) + b"\x38\1") for k in range(count))


def interned(place: int, size: int) -> bytes:
    """A packet with a text of this size for arguments, which has the number 1."""
    return field(1, field(12, field(29, b"\x08\1" + field(2, b"x" * size))))


def annotated(count: int) -> bytes:
    """A packet with an instant whose arguments are this text, so many times."""
    texts = (field(4, b"\x08" + number(k) + b"\x88\1\1") for k in range(count))
    return field(1, field(11, b"\x48\3" + b"".join(texts)))


HELD, DEPTH = "would take more than .* of memory to read", "more than 100 levels deep"
LARGE = "an event takes more than 64 MB"
BOMB, ITEMS = "like a decompression bomb", "items to read, too many for"
# Files by their names: the text of each, of n parts, and what is said of it.
BOMBS = {
    "marks.pickle": (lambda n: PICKLE + b"(" * n, DEPTH),
    "lists.pickle": (lambda n: PICKLE + b"]" * n, HELD),
    "memo.pickle": (lambda n: PICKLE + b"]" + b"\x94" * n, f"{HELD}|{ITEMS}"),
    "empty.pickle": (lambda n: PICKLE + b"]" + b"(e" * n, ITEMS),
    "tuples.pickle": (lambda n: PICKLE + b"K\0K\1\x86" + b"K\2\x85" * n, HELD),
    "streamed.pickle": (lambda n: PICKLE + b"}" + b"]" * n + b"\x8c\x08segments](}e", HELD),
    "stats.xplane.pb": (lambda n: plane(stat_name(n) + referring(6, n // 500)), LARGE),
    "of-events.xplane.pb": (
        lambda n: plane(stat_name(n) + field(3, field(4, referring(4, n // 500)))), LARGE
    ),
    "events.xplane.pb": (
        lambda n: plane(stat_name(n // 50) + field(3, field(4, referring(4, 30)) * (n // 50))), BOMB
    ),
    "sequences.pftrace": (
        lambda n: b"".join(field(1, b"\x50" + number(k)) for k in range(n // 10)), HELD
    ),
    "tracks.pftrace": (
        lambda n: b"".join(field(1, field(60, b"\x08" + number(k))) for k in range(n // 10)), HELD
    ),
    "texts.pftrace": (lambda n: interned(1, n) + annotated(n // 500), LARGE),
    "events.pftrace": (lambda n: interned(1, n // 50) + annotated(30) * (n // 50), BOMB),
    "packets.pftrace": (
        lambda n: field(1, compressed(zlib.compress(field(1, field(6, bytes(n)))))) * 16, BOMB
    ),
    "one.json": (
        lambda n: b'{"rocprofiler-sdk-tool":[{"metadata":[' + b"[]," * n + b"0]}]}", HELD
    ),
}  # fmt: skip


@pytest.fixture
def small_budgets(monkeypatch):
    """A hundredth of what a small file may cost, for bombs of a hundredth."""
    for limit in ("TEXT_BYTES", "HELD_BYTES", "ITEMS"):
        monkeypatch.setattr(budget, limit, getattr(budget, limit) // 100)


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_would_take_much_is_refused(name, small_budgets, tmp_path):
    made, told = BOMBS[name]
    file = tmp_path / (name if "pftrace" in name else f"{name}.gz")
    # Perfetto's packets bring their own compression.
    file.write_bytes(made(500_000) if "pftrace" in name else gzip.compress(made(500_000)))
    with pytest.raises(TracekitError, match=told) as raised:
        tracekit.load(file)
    assert "\n" not in str(raised.value) and name in str(raised.value)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_of_kilobytes_takes_little_memory_and_time(name, tmp_path):
    made, _ = BOMBS[name]
    file = tmp_path / f"{name}{'' if name == 'packets.pftrace' else '.gz'}"
    data = made(20_000_000)
    file.write_bytes(data if name == "packets.pftrace" else gzip.compress(data))
    done = limited("tests.safety.test_bombs:load", file, memory_mb=1_200, cpu_s=120)
    assert done.returncode == 0, done.stderr[-500:]


def load(path: str) -> None:
    with pytest.raises(TracekitError):
        tracekit.load(path)


@pytest.mark.thorough
def test_deeply_nested_values_end_no_process(tmp_path):
    """Hashing deep tuples overflows the stack of C; writing them, that of Python."""
    sizes = b"\x8c\x0atotal_sizeK\x01\x8c\x06blocks]"
    for name, text in {
        "key": PICKLE + b"}" + DEEP + b"K\x01s.",
        "frame": SEGMENTS + b"(}\x8c\x08filename" + DEEP + b"sue.",
        "word": SEGMENTS + b"(}(" + sizes + b"\x8c\x0csegment_type" + DEEP + b"uesu.",
    }.items():
        (tmp_path / f"{name}.pickle").write_bytes(text)
    files = sorted(tmp_path.iterdir())
    done = limited("tests.safety.test_bombs:read_all", *files, memory_mb=2_000, cpu_s=120)
    assert (done.returncode, done.stderr) == (0, "")


def snapshot_lines(path: str) -> list[bytes]:
    with ByteStream(path, Path(path).open("rb")) as stream:
        pieces = snapshot.read(OpenedFile(stream, "", ExitStack()))
        return b",\n".join(each for each in pieces if isinstance(each, bytes)).splitlines()


def read_all(*paths: str) -> None:
    for path in paths:
        for read in (snapshot_lines, annotated_nodes):
            try:
                list(read(path))
            except TracekitError as error:
                assert "\n" not in str(error)


def test_annotations_that_take_much_memory_are_refused_and_the_trace_is_loaded(
    small_budgets, tmp_path
):
    contents = {
        "json": b'{"1":[' + b"[]," * 500_000 + b"0]}",
        "json.gz": gzip.compress(b'{"1":"' + b"x" * 9_000_000 + b'"}'),
        "pkl": PICKLE + b"}K\x01](" + b"]" * 400_000 + b"es.",
    }
    events = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)]
    for ending, content in contents.items():
        path = tmp_path / f"kernel_annotations.{ending}"
        path.write_bytes(content)
        with pytest.raises(TracekitError, match=f"{re.escape(str(path))}: .*({HELD}|{BOMB})"):
            list(annotated_nodes(str(path)))
    with tracekit.load(traces.write(tmp_path / "t.json", events)) as run:
        assert run.fetch("SELECT events FROM trace")[1] == [(2,)]


def test_a_text_that_annotations_name_again_and_again_counts_each_time(small_budgets, tmp_path):
    """The pickle holds it once."""
    text = "x" * 100_000
    path = tmp_path / "kernel_annotations.pkl"
    path.write_bytes(pickle.dumps({node: {"name": text} for node in range(1000)}))
    with pytest.raises(TracekitError, match=HELD):
        list(annotated_nodes(str(path)))
    many = [{"a": 1}] * 2000
    path.write_bytes(pickle.dumps(dict.fromkeys(range(1000), many)))
    with pytest.raises(TracekitError, match=ITEMS):
        list(annotated_nodes(str(path)))


def test_a_table_without_a_key_is_refused_before_it_is_searched(tmp_path, monkeypatch):
    """Each row would look through all rows of another table."""
    file = rocpd(tmp_path / "slow.db")
    table = f"rocpd_string{ROCPD_SUFFIX}"
    changed(
        file,
        f"CREATE TABLE slow AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE slow RENAME TO {table}",
        "WITH n AS (SELECT 100 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
        f" INSERT INTO {table} (id, string) SELECT i, 'x' FROM n",
        f"INSERT INTO rocpd_region{ROCPD_SUFFIX} SELECT r.* FROM rocpd_region{ROCPD_SUFFIX} AS r,"
        f" {table}",
        f"UPDATE rocpd_region{ROCPD_SUFFIX} SET name_id = -1",
    )
    monkeypatch.setattr(budget, "ITEMS", 100_000)
    with pytest.raises(TracekitError, match=ITEMS):
        tracekit.load(file)


def test_the_schema_of_a_database_is_read_in_no_time(tmp_path):
    """A regular expression took a time that grew with the square of its length."""
    file = report(tmp_path)
    columns = ", ".join(f"id{n} {'id ' * 3_000}" for n in range(30))
    changed(file, "DROP TABLE StringIds", f"CREATE TABLE StringIds ({columns})")
    with pytest.raises(TracekitError, match="StringIds has no key"):
        tracekit.load(file)


def test_deep_json_in_a_database_is_text(tmp_path):
    for deep in ("[" * 100_000, '{"a":' * 500 + "1" + "}" * 500):
        file = changed(
            rocpd(tmp_path / f"{len(deep)}.db"),
            f"UPDATE rocpd_event{ROCPD_SUFFIX} SET extdata = '{deep}'",
        )
        with tracekit.load(file, verdicts=False) as run:
            assert run.fetch("SELECT count(*) FROM gpu_ops")[1] == [(2,)]


@pytest.mark.thorough
def test_a_large_snapshot_stays_below_its_budget_packed_or_not(small_budgets, tmp_path):
    """A hundredth of the amounts suffices for a segment of 20,000 blocks, and as many actions."""
    made = snapshots.trained(20)
    stack = made.segments[0]["frames"]
    made.actions = deque(dict(action) for _ in range(100) for action in made.actions)
    made.segments[0]["blocks"] += [
        {"address": n << 9, "size": 512, "requested_size": 500 + n % 9,
         "state": "active_allocated", "frames": stack}
        for n in range(20_000)
    ]  # fmt: skip
    text = pickle.dumps(snapshots.snapshot(made), 4)
    for path, content in ((tmp_path / "a", text), (tmp_path / "b", gzip.compress(text))):
        path.write_bytes(content)
        assert len(snapshot_lines(str(path))) > 20_000 + len(made.actions)
