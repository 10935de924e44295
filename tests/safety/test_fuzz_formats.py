"""Damaged files of other profilers: one line or some events, within limits on memory and time.

TRACEKIT_TEST_ALL=1 runs forty times as many.
"""

from __future__ import annotations

import faulthandler
import json
import pickle
import random
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kit.json_forms import FORMS as JSON_FORMS
from tests.kit.limited import limited
from tests.kit.nsys_simulated import GLOBAL_PID
from tests.kit.other_formats import compressed, framed, packets
from tests.kit.sampling import sample
from tests.kit.snapshots import snapshot, trained
from tests.trace import test_formats
from tracekit.errors import TracekitError
from tracekit.trace.beside import annotated_nodes
from tracekit.trace.other.formats import open_traces
from tracekit.trace.reader import TraceReader

CASES = sample("damaged files of other profilers, for each form", 4_000, 100)
# What a case may take: the amounts of tracekit/trace/budget.py, and Python beside them.
MEMORY_MB, SECONDS_OF_A_CASE = 1_200, 60
ODD = {
    "pickle": [
        b"(" * 300, b"]" * 3_000, b"\x85" * 3_000, b"\x86", b"h\0", b"\x94", b"a", b"e", b"s", b"u",
        b"}", b"K\xff", b"\x8a\xff" + b"\xff" * 255, b"X\xff\xff\xff\x7f", b"\x8c\x08filename",
        b".", b"G\x7f\xf8\0\0\0\0\0\0", b"N", b")", b"t", b"cos\nsystem\n", b"R",
        b"\x95" + b"\xff" * 8,
    ],
    "protobuf": [
        b"\x22\0" * 3_000, b"\x0a\x80\x80\x80\x80\x08", b"\xff" * 11, b"\x0b", b"\x5a\x02\x22\0",
        b"\x62\x04\x12\x02\x08\1", b"\x10" + b"\xff" * 9 + b"\1", b"\x0a\0" * 3_000,
        b"\x92\3\2x\x9c",
    ],
    "sqlite": [
        b"\xff" * 8, b"\0" * 64, b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x0d", b"\x05", b"\x02",
        b"CREATE TABLE", b"INTEGER PRIMARY KEY", b"[" * 2_000, b'{"message":' * 300, b"\x81" * 9,
    ],
    "json": [
        b"[" * 2_000, b'{"a":' * 2_000, b"1e999", b"-" * 40, b"9" * 5_000, b"NaN", b'"\\ud800"',
        b"null", b"{}", b"[]", b'"ph": "E", ', b'"pid": null, ', b'"pid": [1], ', b'"tid": {}, ',
        b'"ts": "x", ', b'"ts": 1e400, ', b'"dur": -1, ', b'"args": 7, ', b'"args": null, ',
        b'"name": {"a": [1]}, ', b'"id": [[]], ', b'"connection_id": {}, ', b'"rank": true, ',
        b'"children": [1, null], ', b'"metrics": {"time (ns)": null}, ', b'"step_num": "x", ',
    ],
}  # fmt: skip


# Forms that are not the first of an ending in FILES.
OTHERS = ["s.pickle", "old.pickle", "packed.pftrace", "kernel_annotations.pkl",
          "kernel_annotations.json"]  # fmt: skip
# The first file of each ending in FILES is a sound one.
FORMS = {ending: name for name, (ending, _) in reversed(test_formats.FILES.items())}


def content(name: str, folder: Path) -> bytes:
    """The sound file of this name."""
    if name.endswith(".pickle"):
        return pickle.dumps(snapshot(trained(2)), 4 if name == "s.pickle" else 2)
    if name == "packed.pftrace":
        return framed([compressed(zlib.compress(framed(packets())))])
    if name in JSON_FORMS:
        return JSON_FORMS[name]
    if name.startswith("kernel_annotations"):
        notes = {GLOBAL_PID + n: [{"name": "a", "n": n}, ["b"], ("c", 1)] for n in range(20)}
        return pickle.dumps(notes) if name.endswith("pkl") else json.dumps(notes).encode()
    return test_formats.write(folder, FORMS[name.partition(".")[2]]).read_bytes()


def kind_of(name: str, data: bytes) -> str:
    """The kind of a file's damage."""
    if name in JSON_FORMS:
        return "json"
    if data.startswith(b"\x80"):
        return "pickle"
    return "sqlite" if data.startswith((b"SQLite format 3", b"{")) else "protobuf"


def damaged(data: bytes, kind: str, choose: random.Random) -> bytes:
    """The file with one to four errors."""
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(data) or 1)
        way = choose.choice(["cut", "flip", "odd", "over", "double", "number"])
        odd = choose.choice(ODD[kind])
        if way == "cut" and choose.random() < 0.2:
            data = data[:at]
        elif way == "flip":
            data = (
                data[:at] + bytes([data[at] ^ 1 << choose.randrange(8)]) + data[at + 1 :]
                if data
                else b""
            )
        elif way == "odd":
            data = data[:at] + odd + data[at:]
        elif way == "over":
            data = data[:at] + odd[:64] + data[at + len(odd[:64]) :]
        elif way == "double":
            part = data[at : at + choose.randint(1, 400)]
            data = data[:at] + part * choose.choice([2, 50]) + data[at:]
        elif way == "number":
            data = data[:at] + choose.randbytes(4) + data[at + 4 :]
    return data


def read(path: Path) -> None:
    """Reads a file to its end; what is wrong with it is an error for people."""
    try:
        if path.name.startswith("kernel_annotations"):
            for _ in annotated_nodes(str(path)):
                pass
            return
        for stream in open_traces(str(path), temp_dir=path.parent):
            if isinstance(stream, TracekitError):
                raise stream
            with stream:
                reader = TraceReader(stream)
                for _ in reader.pieces():
                    pass
    except TracekitError as error:
        assert "\n" not in str(error), str(error)


def fuzz(name: str, seed: str, cases: str) -> None:
    """Tries damaged files of a form; an error says which case it was."""
    choose = random.Random(f"{name} {seed}")
    with TemporaryDirectory() as made:
        whole = content(name, Path(made))
        kind, path = kind_of(name, whole), Path(made) / name
        for number in range(int(cases)):
            data = damaged(whole, kind, choose)
            path.write_bytes(data)
            faulthandler.dump_traceback_later(SECONDS_OF_A_CASE * 10, exit=True)
            try:
                read(path)
            except BaseException as error:
                error.add_note(f"case {number} of seed {seed} of {name}")
                raise
            faulthandler.cancel_dump_traceback_later()


NAMES = [*OTHERS, *JSON_FORMS, *(f"t.{ending}" for ending in FORMS)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_of_another_profiler_is_read_or_refused_within_limits(name):
    cpu_s = SECONDS_OF_A_CASE + CASES // 2
    done = limited(
        "tests.safety.test_fuzz_formats:fuzz", name, 1, CASES, memory_mb=MEMORY_MB, cpu_s=cpu_s
    )
    assert done.returncode == 0, done.stderr[-2_000:]
