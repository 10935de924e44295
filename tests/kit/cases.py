"""Cases of questions as text: the events of a small trace, what is asked, and the rows expected.

queries/README.md describes the notation ("Tests").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import tracekit
from tests.kit import traces
from tracekit.database import catalog

FOLDER = Path(__file__).parents[1] / "questions" / "cases"
KINDS = {
    "kernel": "kernel", "copy": "gpu_memcpy", "fill": "gpu_memset", "operator": "cpu_op",
    "call": "cuda_runtime", "frame": "python_function", "range": "user_annotation",
}  # fmt: skip
TYPES = {"bf16": "c10::BFloat16", "fp32": "float"}
_OF_EVENT = {"ph", "pid", "tid", "s"}


@dataclass
class Case:
    """The events and metadata of a trace, and questions: name, parameters, columns and rows."""

    events: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any], list[list[str]]]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    _every: dict[str, dict[str, Any]] = field(default_factory=dict)
    _correlations: Iterator[int] = field(default_factory=lambda: count(100_000))
    _end_us: float = -1

    def read(self, lines: list[str], shift_us: float = 0, turn: int = 0) -> None:
        """Adds the events of these lines, `shift_us` later, in a turn of a repetition."""
        while lines:
            line, *lines = lines
            event, _, row = line.partition("  => ")
            self.rows += [_cells(row)] if row else []
            kind, name, *cells = _cells(event)
            if kind == "repeat":
                ends = [n for n, each in enumerate(lines) if _indent(each) <= _indent(line)]
                end = min(ends, default=len(lines))
                inner, lines = lines[:end], lines[end:]
                for n in range(int(name)):
                    self.read(inner, shift_us + n * float(cells[0]), 10 * turn + n)
            elif kind == "trace":
                self.metadata |= _pairs([name, *cells])
            elif kind == "device":
                self.metadata |= traces.device(name)
                self.metadata["deviceProperties"][0] |= _pairs(cells)
            elif kind == "every":
                self._every[name] = _pairs(cells)
            else:
                self._add(kind, name, cells, shift_us, turn)

    def _add(self, kind: str, name: str, cells: list[str], shift_us: float, turn: int) -> None:
        times = [each for each in cells[:2] if re.match(r"[+\d-]|null", each)]
        marks = [each for each in cells[len(times) :] if each[0] in "#@"]
        args = self._every.get(name, {}) | _pairs(cells[len(times) + len(marks) :])
        start, dur = (*times, "null")[:2] if times else ("+1", "2")
        at_us = self._end_us + float(start) if start[0] == "+" else float(start) + shift_us
        dur_us = _value(dur)
        self._end_us = at_us + (dur_us or 0)
        if kind == "step":
            kind, name = "range", f"ProfilerStep#{int(name) + turn}"
        for key in TYPES.keys() & args.keys():
            dims = args.pop(key)
            types = [TYPES[key] if each else "Scalar" for each in dims]
            args = {"Input Dims": dims, "Input type": types} | args
        for mark in marks:
            args["correlation"] = int(mark[1:]) + 1000 * turn
            if mark[0] == "@":
                args["correlation"] = next(self._correlations)
                call = traces.launch(float(mark[1:]) + shift_us, 1, args["correlation"])
                self.events.append(call | {"tid": args.pop("tid", traces.THREAD)})
        of_event = {key: args.pop(key) for key in _OF_EVENT & args.keys()}
        if KINDS.get(kind) in traces.GPU_CATEGORIES:
            args = {"device": traces.DEVICE, "stream": 7} | args
            of_event |= {"pid": args["device"], "tid": args["stream"]}
        category = KINDS.get(kind, kind)
        event = traces.slice_event(category, name, at_us, dur_us, args=args, **of_event)
        self.events.append({key: each for key, each in event.items() if each != "null"})


def misread(text: str) -> Iterator[str]:
    """Tells which lines of a file do not have the cells that they should have, and what is expected
    there. Most of these have one space between two cells."""
    columns: list[str] | None = None
    rows: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        event, _, row = line.partition("  => ")
        expected = ""
        if not line or line.startswith("# "):
            continue
        if line.startswith("= "):
            columns, rows = None, []
        elif line.startswith("? "):
            columns, (name, *parameters) = [], _cells(line[2:])
            expected = "" if _are_pairs(parameters, name) else "a question, NAME=VALUE"
        elif columns is None:
            rows += [(number, line, _cells(row))] if row else []
            is_event = _is_event(*_cells(event))
            expected = "" if is_event else "a kind, a name, times, NAME=VALUE"
        elif not columns:
            columns = _cells(line)
        else:
            rows = [(number, line, _cells(line))]
        found = [(number, line, expected)] if expected else []
        if columns:
            wanted = f"{len(columns)} cells: {', '.join(columns)}"
            found += [(n, each, wanted) for n, each, cells in rows if len(cells) != len(columns)]
            rows = []
        for n, each, wanted in found:
            yield f"line {n}: expected {wanted}, two spaces apart, not: {each}"


_TIME = re.compile(r"[+-]?\d[\d._e]*|null")


def _is_event(kind: str, name: str = "", *cells: str) -> bool:
    if kind == "trace":
        return _are_pairs([name, *cells])
    times = [each for each in cells[:2] if _TIME.fullmatch(each)]
    if kind == "repeat":
        return bool(times) and name.isdigit()
    others = [each for each in cells[len(times) :] if not re.fullmatch(r"[#@][\d_]+", each)]
    # What follows the name may have become a part of it.
    is_joined = re.search(r" =>|^[^[]* \w+=\S", name) or (
        len(times) < 2 and kind != "device" and _TIME.fullmatch(name.rpartition(" ")[2])
    )
    return bool(name) and not is_joined and _are_pairs(others, kind)


def _are_pairs(cells: Iterable[str], *words: str) -> bool:
    """Whether each cell is one NAME=VALUE, and the words before them have no spaces."""
    pairs = (each.partition("=") for each in cells)
    return not any(" " in each for each in words) and all(
        re.match("[A-Za-z]", name) and value and not re.search(r"\w=[^=]", value)
        for name, _, value in pairs
    )


def _cells(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _pairs(cells: list[str]) -> dict[str, Any]:
    return {key: _value(text) for key, _, text in (each.partition("=") for each in cells)}


def _value(text: str) -> Any:
    try:
        return json.loads(re.sub(r"(?<=\d)_(?=\d)", "", text))
    except ValueError:
        return text


@cache
def cases() -> dict[str, Case]:
    """All cases of tests/questions/cases, by file and title, in the order of their trace_ids."""
    found = {}
    for path in sorted(FOLDER.glob("*.txt")):
        whole = path.read_text()
        if wrong := list(misread(whole)):
            raise ValueError("\n".join([str(path), *wrong]))
        for text in re.split(r"^= ", whole, flags=re.MULTILINE)[1:]:
            lines = [line for line in text.splitlines() if line and not line.startswith("# ")]
            asks = [n for n, line in enumerate(lines) if line.startswith("? ")]
            case = found[f"{path.stem}: {lines[0]}"] = Case()
            case.read(lines[1 : asks[0]])
            for begin, end in zip(asks, [*asks[1:], len(lines)], strict=True):
                name, *parameters = _cells(lines[begin][2:])
                columns, *rows = [_cells(line) for line in lines[begin + 1 : end]] or [[]]
                rows = rows or (case.rows if begin == asks[0] else [])
                case.asked.append((name, _pairs(parameters), [columns, *rows]))
    return found


def content() -> bytes:
    """The bytes that the database of all cases depends on, as a key for its cache."""
    files = [*sorted(FOLDER.glob("*.txt")), Path(__file__), Path(traces.__file__)]
    return b"".join(each.read_bytes() for each in files)


def load(folder: Path, database: Path) -> None:
    """Makes a database of all cases."""
    together = traces.Together()
    for each in cases().values():
        together.events(each.events, **each.metadata)
    together.load(folder, database).close()


def answer(
    run: tracekit.Database, trace_id: int, name: str, parameters: dict[str, Any], columns: list[str]
) -> list[list[Any]]:
    """These columns of a question or relation, for one trace."""
    try:
        known = [each.name for each in catalog.query(name).columns]
    except tracekit.TracekitError:
        order = "event_id" if "event_id" in run.fetch(f"FROM {name} LIMIT 0")[0] else "ALL"
        asked = ", ".join(columns) or "*"
        query = f"SELECT {asked} FROM {name} WHERE trace_id = {trace_id} ORDER BY {order}"
        return [list(row) for row in run.fetch(query)[1]]
    given = ("a", "b") if name.startswith("diff_") else ("trace",)
    rows = run.ask(name, **parameters, **dict.fromkeys(given, trace_id))
    assert all([*each] == known for each in rows[:1]), (
        f"{name}: the header says {known}, not {[*rows[0]]}"
    )
    return [[each[column] for column in columns] for each in rows]


def expected(row: list[str], found: list[Any]) -> list[Any]:
    """The values of a row's cells; a number with decimals is the one found if that rounds to it."""
    values = [_value(each) for each in row]
    for n, (cell, value, other) in enumerate(zip(row, values, found, strict=True)):
        if isinstance(other, str):
            values[n] = cell
        elif isinstance(value, float) and other is not None:
            values[n] = other if round(other, len(cell.partition(".")[2])) == value else value
    return values
