"""Files next to a trace that describe its graphs: traces of their capture, and the program's
annotations of their nodes (torch.cuda.graph_annotations).

vLLM and SGLang write capture traces to a folder `capture_traces`. PyTorch's convention for
annotations is `kernel_annotations_rank0_...`, in the trace's folder or its parent. Files named like
the trace with `.annotations` appended count, too.
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
# The first of the lines `filename:line:function`.
_STACK = re.compile(r"[^\n]*(\.py|>):\d+:")


def is_of_capture(path: str) -> bool:
    """Whether a trace records graph captures, judging by its folder."""
    return PurePath(path).parent.name == CAPTURES


class Beside:
    """The files next to traces; only those of the trace's rank, if their names have ranks. Lists
    each folder once.

    With `within`, ignores files outside these folders, after following links.
    """

    def __init__(self, within: Iterable[str] | None = None) -> None:
        self._within = within if within is None else tuple(within)
        self._names: dict[Path, list[str]] = {}

    def captures(self, trace: str) -> list[str]:
        """The capture traces."""
        if is_of_capture(trace) or trace == "-":
            return []
        folder = Path(trace).parent / CAPTURES
        names = self._in(folder)
        files = [folder / name for name in names if name.endswith(trace_endings())]
        return _of_rank(trace, files)

    def annotations(self, trace: str) -> list[str]:
        """The files with annotations."""
        if trace == "-":
            return []
        here, name = Path(trace).parent, Path(trace).name
        files = [
            folder / each
            for folder in dict.fromkeys((here, here.absolute().parent))
            for each in self._in(folder)
            if (match := ANNOTATIONS.fullmatch(each))
            and (match["trace"] is None or match["trace"] == stem(name))
        ]
        return _of_rank(trace, files)

    def _in(self, folder: Path) -> list[str]:
        if folder not in self._names:
            try:
                names = (
                    sorted(each.name for each in folder.iterdir()) if self._is_open(folder) else []
                )
            except (OSError, ValueError):
                names = []
            # A folder may hold thousands of traces: keep only relevant names.
            is_wanted = trace_endings() if names and folder.name == CAPTURES else ()
            self._names[folder] = [
                name
                for name in names
                if (ANNOTATIONS.fullmatch(name) or name.endswith(is_wanted))
                and self._is_open(folder / name)
                and may_be_read(str(folder / name))
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
    """The rank in a file's name after one of these words, such as 12 in `trace_rank12.json.gz`."""
    name = PurePath(path).name
    matches = (
        re.search(rf"{each}[ _.=-]?(\d{{1,9}})(?!\d)", name, re.IGNORECASE) for each in words
    )
    return next((int(match[1]) for match in matches if match), None)


def annotated_nodes(path: str) -> Iterator[tuple[int, str]]:
    """The annotations in a file, as JSON objects by node id.

    The file is JSON or a pickle: a dictionary from nodes to dictionaries, lists of dictionaries,
    names, or stacks. Code that a pickle refers to is never run.

    Raises:
        TracekitError: when the file cannot be read or has another form.
    """
    annotations, budget = _content(path)
    if not isinstance(annotations, dict):
        raise TracekitError(
            f"{path}: is not a file of graph annotations: they are a dictionary by node"
        )
    for key, value in annotations.items():
        try:
            node = int(key)
        except (OverflowError, TypeError, ValueError):
            node = -1
        if not 0 <= node < 2**64:
            raise TracekitError(
                f"{path}: is not a file of graph annotations: {str(key)[:40]!r} is not a node id"
            )
        annotation = _annotation(value, budget)
        # A pickle may name one text many times.
        budget.require_room(sum(map(_most_bytes, annotation.values())))
        text = strict_json(annotation)
        budget.hold(len(text) + 2 * OBJECT_BYTES)
        yield node, text


def _content(path: str) -> tuple[object, Budget]:
    """A file's value, and the budget that limits the cost of reading it."""
    from tracekit.trace.other.pickles import is_pickle, plain_pickle

    stream = next(open_streams(path))
    if isinstance(stream, TracekitError):
        raise stream
    with stream:
        # Damage shows only at the end of the data.
        chunks = []
        for chunk in iter(stream.read, b""):
            stream.budget.hold(len(chunk))
            chunks.append(chunk)
        damage, budget = stream.damage, stream.budget
    content = b"".join(chunks)
    with explained(f"{path}: is not a file of graph annotations", ValueError, RecursionError):
        if damage:
            raise ValueError(damage)
        if is_pickle(content):
            return plain_pickle(path, content, budget), budget
        text = content.decode(json.detect_encoding(content), "surrogatepass")
        budget.hold(json_bytes(text))
        return json.loads(text), budget


def _annotation(value: object, budget: Budget) -> dict[str, Any]:
    """One node's annotation; later ones override earlier ones, as in PyTorch's exporter."""
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
    # Old files store names as {"str": name}.
    return {
        "name" if key == "str" else str(key): part
        for key, part in value.items()
        if all(map(_is_plain, part if isinstance(part, list | tuple) else [part]))
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value))


def _most_bytes(part: object) -> int:
    """The maximum size of a plain value as JSON, which may escape every character."""
    if isinstance(part, list | tuple):
        return sum(map(_most_bytes, part))
    return 6 * len(part) if isinstance(part, str) else OBJECT_BYTES
