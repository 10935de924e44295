"""Profiles of JAX and XLA (`*.xplane.pb`): planes with lines of events.

https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto and, for the names
of planes, lines and stats, xla/tsl/profiler/utils/xplane_schema.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

from tracekit.native.events import Labels
from tracekit.native.library import Batch
from tracekit.trace.budget import Budget
from tracekit.trace.other import xla
from tracekit.trace.other.converted import OneProcess, OpenedFile, named, texts
from tracekit.trace.other.protos import fields
from tracekit.trace.other.xplane_events import (
    DamagedPlaneError,
    EventKind,
    LineKind,
    PlaneLine,
    PlaneReader,
)
from tracekit.trace.unpacking import buffered

NAME = "jax"
ENDINGS = (".xplane.pb",)

# Sources of a device's name, from the most exact stat to the vendor.
_NAMES = ("device_type_string", "device_type", "device_vendor")
_BASE, _LOST = "profile_start_time", "picoseconds_lost"


def sniff(opened: OpenedFile) -> bool:
    """Whether the file holds planes."""
    is_named = opened.has_ending(ENDINGS)
    return opened.head[:1] == b"\n" and (is_named or b"/host:" in opened.head)


def read(opened: OpenedFile) -> list[OneProcess]:
    """The one process that the file holds."""
    planes = _Planes(opened)
    process = OneProcess(None, {}, lambda: iter(()), rows=planes.rows)
    process.events = partial(planes.names, process)
    return [process]


class _Planes:
    """A file's planes, which are read twice: for what they say of the whole recording, and for
    their events."""

    def __init__(self, opened: OpenedFile) -> None:
        self._opened = opened
        self._count = 0
        self._is_tensorflow = False

    def names(self, process: OneProcess) -> Iterator[bytes]:
        """The names of processes and threads; then the process's other members are known."""
        about: dict[str, Any] = {_LOST: 0}
        members: dict[str, Any] = {"profiler": about, "deviceProperties": []}
        damage, self._count = None, 0
        try:
            for plane in self._planes():
                self._count += 1
                for kind in plane.reader.kinds():
                    if xla.TENSORFLOW.match(kind.name):
                        about["name"] = "tensorflow"
                        self._is_tensorflow = True
                plane.describe(members)
                yield from texts(plane.names())
                rounded, is_whole = plane.reader.count_rounded()
                about[_LOST] += rounded
                if plane.reader.is_cut or not is_whole:
                    raise DamagedPlaneError
        except EOFError:
            damage = "the file ends inside a plane"
        except DamagedPlaneError:
            damage = "a plane is damaged"
        process.damage = self._opened.damage = self._opened.damage or damage
        members["profiler"] = process.members["profiler"] | about
        process.tail = members

    def rows(self, first_id: int, labels: Labels) -> Iterator[tuple[Batch, int]]:
        """The events, up to the first damaged one."""
        for plane in islice(self._planes(), self._count):
            plane.label(self._opened.budget, is_tensorflow=self._is_tensorflow)
            for batch, text_bytes in plane.reader.rows(first_id, labels):
                first_id += batch.rows
                yield batch, text_bytes

    def _planes(self) -> Iterator[_Plane]:
        """The planes; each is valid until the next.

        Raises:
            DamagedPlaneError: when the next one is damaged.
            EOFError: when the file ends inside it.
        """
        opened = self._opened
        opened.rewind()
        with closing(PlaneReader(opened.path, opened.budget)) as reader:
            for data in fields(buffered(opened), opened.path, opened.budget, 1):
                reader.read(data)
                yield _Plane(reader)


class _Plane:
    """A plane, and the places of its lines: process, thread, and kind."""

    def __init__(self, reader: PlaneReader) -> None:
        self.reader = reader
        self.name = reader.name
        self._device = xla.DEVICE.match(self.name)
        self.pid = xla.HOST + 1 + reader.number
        if self._device:
            self.pid = int(self._device[2])
        elif self.name == "/host:CPU":
            self.pid = xla.HOST
        self._lines = reader.lines()

    def describe(self, members: dict[str, Any]) -> None:
        """Adds what it says of the recording and of its device."""
        stats, lines, device = self.reader.stats(), self._lines, self._device
        if isinstance(stats.get(_BASE), int):
            members["baseTimeNanoseconds"] = stats[_BASE]
        if not device and self.pid != xla.HOST and (stats or lines):
            members.setdefault("planes", {})[self.name] = stats
        if device and lines:
            names = (stats[name] for name in _NAMES if stats.get(name))
            members["deviceProperties"].append(
                {
                    "id": self.pid, "name": next(names, device[1]),
                    "numSms": stats.get("core_count"), "totalGlobalMem": stats.get("memory_size"),
                    "computeMajor": stats.get("compute_cap_major"),
                    "computeMinor": stats.get("compute_cap_minor"),
                } | stats
            )  # fmt: skip

    def names(self) -> Iterator[dict[str, Any]]:
        """The names of its process and threads."""
        if self._lines:
            yield named("process_name", self.name, self.pid)
        for line in self._lines:
            yield named("thread_name", line.name, self.pid, self._place(line)[0])

    def label(self, budget: Budget, *, is_tensorflow: bool) -> None:
        """Tells the reader the places of lines, and the labels of events on them."""
        kinds: set[LineKind] = set()
        for index, line in enumerate(self._lines):
            tid, where = self._place(line)
            self.reader.place(index, self.pid, tid, where)
            kinds.add(where)
        copies = xla.HostCopies(budget)
        if LineKind.ON_STREAM in kinds:
            for kind in self.reader.kinds():
                copies.note(kind.name)
        for index, kind in enumerate(self.reader.kinds()):
            for where in kinds:
                category, name = _label(where, kind, copies, is_tensorflow)
                may_be_step = where is LineKind.ON_HOST and category == xla.RANGE_ON_HOST
                self.reader.set_label(index, where, category, name, may_be_step=may_be_step)

    def _place(self, line: PlaneLine) -> tuple[int, LineKind]:
        """The thread of a line, and what it shows."""
        if not self._device:
            return line.number, LineKind.ON_HOST
        stream = xla.stream_of(line.name, line.number)
        if stream is not None:
            return stream, LineKind.ON_STREAM
        is_steps = line.name == xla.STEPS
        return line.number, LineKind.IN_STEPS if is_steps else LineKind.BESIDE_STREAM


def _label(
    where: LineKind, kind: EventKind, copies: xla.HostCopies, is_tensorflow: bool
) -> tuple[str, str]:
    """Kineto's category and name for an event of this kind."""
    if where is LineKind.ON_HOST:
        return xla.host_label(kind.shown, kind.name, is_tensorflow=is_tensorflow)
    if where is LineKind.ON_STREAM:
        return xla.on_device(kind.shown, kind.name, copies)
    return xla.beside_device(xla.STEPS if where is LineKind.IN_STEPS else "", kind.shown)
