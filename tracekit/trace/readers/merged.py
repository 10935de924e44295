"""Ranks of a run that were merged into one Chrome trace: each becomes a trace of its own.

SGLang writes a rank before each process's number ([TP00] 4000):
https://github.com/sgl-project/sglang: python/sglang/srt/utils/profile_merger.py. TraceLens adds an
argument with the rank: https://github.com/AMD-AGI/TraceLens: TraceLens/TraceFusion/trace_fuse.py
`tracekit annotate` keeps the metadata of each trace (tracekit.perfetto.annotate).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from tracekit.trace.added import CATEGORY, JOINED
from tracekit.trace.other.chrome import args_of, trace_events
from tracekit.trace.other.converted import OneProcess, OpenedFile, texts
from tracekit.trace.source import Copy

NAME = "merged ranks"
ENDINGS = (".json",)

_SIGNS = re.compile(rb'"pid":\s*"\[(?:TP|DP|PP|EP)\d|"pid_raw":|"%s":' % JOINED)
_LABEL = re.compile(r"(\[(?:(?:TP|DP|PP|EP)\d+-?)+\]) (.+)", re.DOTALL)
_PART = re.compile(r"(TP|DP|PP|EP)(\d+)")
# The parts of a label by which SGLang orders ranks, the most important first.
_ORDER = ("DP", "EP", "PP", "TP")
# TraceLens keeps what it changed in arguments with this ending.
_RAW = "_raw"
_JOINED = JOINED.decode()
# What ranks are merged from has no other profiler's mark.
_PROFILER = "kineto"
_NUMBERED = "[trace "
_AT_ONCE = 4096
_READ_BYTES = 1 << 20
# Between the pieces of a file: `texts` puts no empty line between events.
_BETWEEN = b",\n\n"


def sniff(opened: OpenedFile) -> bool:
    """Whether ranks are marked in the events."""
    return _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> list[OneProcess]:
    """The ranks in the file, in order."""
    members: dict[str, Any] = {}
    parts = _Parts(opened)
    for event in trace_events(opened, members):
        if event.get("cat") != CATEGORY:
            parts.add(*_rank_of(event, members))
    texts_by_rank = parts.finished()
    labels = sorted(texts_by_rank, key=_order)
    joined = members.pop(_JOINED, None)
    ranks = []
    for place, label in enumerate(labels):
        number = _number(label, place)
        if isinstance(joined, list) and number < len(joined):
            # A trace without events has no label.
            about = {"profiler": {"name": _PROFILER}} | _dict(joined[number])
        else:
            about = _members(members, place, len(labels), number)
        name = _name(label, about)
        ranks.append(OneProcess(name, about, texts_by_rank[label], damage=opened.damage))
    return ranks


def _number(label: str, place: int) -> int:
    """A rank's number: its label's, or its place among the ranks."""
    return int(label[len(_NUMBERED) : -1]) if label.startswith(_NUMBERED) else place


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(label: str, members: dict[str, Any]) -> str:
    """A rank's name in messages."""
    about = _dict(members.get("distributedInfo"))
    if label.startswith(_NUMBERED) and "rank" in about:
        return f"rank{about['rank']}"
    return label.strip("[]")


def _rank_of(event: dict[str, Any], members: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The label of an event's rank, and the event as it was before it was merged."""
    pid, args, joined = event.get("pid"), event.get("args"), members.get(_JOINED)
    if isinstance(joined, list) and joined and isinstance(pid, int):
        return f"{_NUMBERED}{pid % len(joined):05d}]", event
    if isinstance(pid, str) and (found := _LABEL.match(pid)):
        number = found[2]
        return found[1], event | {"pid": int(number) if number.isdecimal() else number}
    if isinstance(args, dict) and isinstance(args.get("rank"), int):
        args = args_of(event)
        for key in [key for key in args if key.endswith(_RAW)]:
            value, name = args.pop(key), key.removesuffix(_RAW)
            (event if name in event else args)[name] = value
        return f"{_NUMBERED}{args.pop('rank'):05d}]", event
    return "", event


def _order(label: str) -> tuple[Any, ...]:
    parts = {name: int(number) for name, number in _PART.findall(label)}
    return *(parts.get(name, 0) for name in _ORDER), label


def _members(members: dict[str, Any], place: int, of: int, rank: int) -> dict[str, Any]:
    """A rank's metadata. The first file's is all that was kept, with the devices of all files."""
    about, devices = _dict(members.get("distributedInfo")), members.get("deviceProperties")
    own = members | {
        "distributedInfo": {"world_size": max(of, rank + 1)} | about | {"rank": rank},
        "profiler": {"name": _PROFILER},
    }
    if isinstance(devices, list) and len(devices) % of == 0:
        each = len(devices) // of
        own["deviceProperties"] = devices[place * each : (place + 1) * each]
    return own


class _Parts:
    """The events of each rank, in temporary files that are removed with the last process."""

    def __init__(self, opened: OpenedFile) -> None:
        self._opened = opened
        self._copies: dict[str, Copy] = {}
        self._waiting: dict[str, list[dict[str, Any]]] = {}

    def add(self, label: str, event: dict[str, Any]) -> None:
        waiting = self._waiting.setdefault(label, [])
        waiting.append(event)
        if len(waiting) == _AT_ONCE:
            self._write(label)

    def finished(self) -> dict[str, Callable[[], Iterator[bytes]]]:
        """What yields the events of each rank; those of no rank come first in each."""
        for label in self._waiting:
            self._write(label)
        shared = self._copies.pop("", None)
        return {
            label: partial(_contents, [each for each in (shared, copy) if each is not None])
            for label, copy in self._copies.items()
        }

    def _write(self, label: str) -> None:
        if label not in self._copies:
            opened = self._opened
            self._copies[label] = opened.closes.enter_context(
                closing(Copy(opened.path, opened.folder))
            )
        for text in texts(self._waiting[label]):
            self._copies[label].write(text + _BETWEEN)
        self._waiting[label] = []


def _contents(copies: list[Copy]) -> Iterator[bytes]:
    """The texts in these files; each file ends between two events."""
    for copy in copies:
        size, at = copy.file.seek(0, io.SEEK_END), 0
        while at < size:
            copy.file.seek(at)
            text = copy.file.read(_READ_BYTES)
            while _BETWEEN not in text:
                text += copy.file.read(_READ_BYTES)
            if at + len(text) < size:
                text = text[: text.rindex(_BETWEEN) + len(_BETWEEN)]
            at += len(text)
            yield text.removesuffix(_BETWEEN)
