"""Files beside a trace that describe its graphs: traces of their capture, and annotations of their
nodes by the program (torch.cuda.graph_annotations).

vLLM and SGLang write the former to a folder `capture_traces`. By PyTorch's convention the latter
are called `kernel_annotations_rank0_...` and lie in the trace's folder or the one above. Files with
the trace's name and `.annotations` appended count too.
https://docs.pytorch.org/tutorials/advanced/cuda_graph_annotations_tutorial.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path, PurePath
from typing import Any

from tracekit.errors import TracekitError, explained
from tracekit.trace.budget import OBJECT_BYTES, Budget, json_bytes
from tracekit.trace.paths import is_within, may_be_read, stem
from tracekit.trace.readers import trace_endings
from tracekit.trace.recovery import strict_json
from tracekit.trace.source import open_streams
from tracekit.trace.unpacking import ANNOTATIONS

CAPTURES = "capture_traces"
# The first of `filename:line:function`, one a line.
_STACK = re.compile(r"[^\n]*(\.py|>):\d+:")


def is_of_capture(path: str) -> bool:
    """Whether a trace is of the capture of graphs, by its folder."""
    return PurePath(path).parent.name == CAPTURES


class Beside:
    """The files beside traces: those of the trace's rank, if their names have ranks. Lists a folder
    once.

    With `within`, only files in these folders are there at all, after links are followed.
    """

    def __init__(self, within: Iterable[str] | None = None) -> None:
        self._within = within if within is None else tuple(within)
        self._names: dict[Path, list[str]] = {}

    def captures(self, trace: str) -> list[str]:
        """The traces of captures."""
        if is_of_capture(trace) or trace == "-":
            return []
        folder = Path(trace).parent / CAPTURES
        names = self._in(folder)
        files = [folder / each for each in names if each.endswith(trace_endings())]
        return _of_rank(trace, files)

    def annotations(self, trace: str) -> list[str]:
        """The files with annotations."""
        if trace == "-":
            return []
        here, name = Path(trace).parent, Path(trace).name
        found = [
            folder / each
            for folder in dict.fromkeys((here, here.absolute().parent))
            for each in self._in(folder)
            if (match := ANNOTATIONS.fullmatch(each))
            and (match["trace"] is None or match["trace"] == stem(name))
        ]
        return _of_rank(trace, found)

    def _in(self, folder: Path) -> list[str]:
        if folder not in self._names:
            try:
                names = (
                    sorted(each.name for each in folder.iterdir()) if self._is_open(folder) else []
                )
            except (OSError, ValueError):
                names = []
            # A folder may hold thousands of traces: keep only the names of use.
            is_wanted = trace_endings() if names and folder.name == CAPTURES else ()
            self._names[folder] = [
                each
                for each in names
                if (ANNOTATIONS.fullmatch(each) or each.endswith(is_wanted))
                and self._is_open(folder / each)
                and may_be_read(str(folder / each))
            ]
        return self._names[folder]

    def _is_open(self, path: Path) -> bool:
        return self._within is None or is_within(path, self._within)


def _of_rank(trace: str, files: list[Path]) -> list[str]:
    # vLLM and PyTorch write the rank, SGLang `TP`.
    rank, *others = (rank_in_name(each, ("rank", "TP")) for each in (trace, *map(str, files)))
    ranks = dict(zip(files, others, strict=True))
    if rank is None:
        # All ranks capture the same graphs.
        rank = min((each for each in ranks.values() if each is not None), default=None)
    return [str(each) for each, of in ranks.items() if of in (None, rank)]


def rank_in_name(path: str, words: Iterable[str] = ("rank",)) -> int | None:
    """The rank that a file's name gives after one of these words, such as 12 in
    `trace_rank12.json.gz`."""
    name = PurePath(path).name
    found = (re.search(rf"{each}[ _.=-]?(\d{{1,9}})(?!\d)", name, re.IGNORECASE) for each in words)
    return next((int(each[1]) for each in found if each), None)


def annotated_nodes(path: str) -> Iterator[tuple[int, str]]:
    """The annotation of each node in a file, by the id of the node: a JSON object.

    The file is JSON or a pickle: a dictionary by node of dictionaries, lists of them, names, or
    stacks. Nothing that a pickle names is run.

    Raises:
        TracekitError: when the file cannot be read, or is something else.
    """
    annotations, budget = _content(path)
    if not isinstance(annotations, dict):
        raise TracekitError(f"{path}: holds no annotations of graphs: a dictionary by node")
    for key, value in annotations.items():
        try:
            node = int(key)
        except (OverflowError, TypeError, ValueError):
            node = -1
        if not 0 <= node < 2**64:
            raise TracekitError(
                f"{path}: holds no annotations of graphs: {str(key)[:40]!r} is not a node's id"
            )
        annotation = _annotation(value, budget)
        # A pickle may name one text many times.
        budget.require_room(sum(map(_most_bytes, annotation.values())))
        text = strict_json(annotation)
        budget.hold(len(text) + 2 * OBJECT_BYTES)
        yield node, text


def _content(path: str) -> tuple[object, Budget]:
    """What a file holds, and its budget, which is all that reading it may cost."""
    from tracekit.trace.other.pickles import is_pickle, plain_pickle

    stream = next(open_streams(path))
    if isinstance(stream, TracekitError):
        raise stream
    with stream:
        # Only the end tells whether the data is damaged.
        chunks = []
        for chunk in iter(stream.read, b""):
            stream.budget.hold(len(chunk))
            chunks.append(chunk)
        damage, budget = stream.damage, stream.budget
    content = b"".join(chunks)
    with explained(f"{path}: holds no annotations of graphs", ValueError, RecursionError):
        if damage:
            raise ValueError(damage)
        if is_pickle(content):
            return plain_pickle(path, content, budget), budget
        text = content.decode(json.detect_encoding(content), "surrogatepass")
        budget.hold(json_bytes(text))
        return json.loads(text), budget


def _annotation(value: object, budget: Budget) -> dict[str, Any]:
    """One node's annotation; a later one wins over an earlier one, as in PyTorch's exporter."""
    if isinstance(value, str):
        return {"stack" if _STACK.match(value) else "name": value}
    if isinstance(value, list):
        budget.spend(len(value))
        flat = (each for each in value if not isinstance(each, list))
        return {key: part for each in flat for key, part in _annotation(each, budget).items()}
    if not isinstance(value, dict):
        return {}
    parts = value.values()
    budget.spend(len(parts) + sum(len(part) for part in parts if isinstance(part, list | tuple)))
    # Early files have names as {"str": name}.
    return {
        "name" if key == "str" else str(key): part
        for key, part in value.items()
        if all(map(_is_plain, part if isinstance(part, list | tuple) else [part]))
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value))


def _most_bytes(part: object) -> int:
    """The most bytes that a plain part takes as JSON, which may escape each character."""
    if isinstance(part, list | tuple):
        return sum(map(_most_bytes, part))
    return 6 * len(part) if isinstance(part, str) else OBJECT_BYTES
