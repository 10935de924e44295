"""XLA profiles at random, and a second reading of them, by protobuf's own decoder, plain and slow:
what they say as events of a Kineto trace."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.kit.other_formats import framed
from tests.kit.protos import messages
from tests.kit.xplane_schema import SCHEMA
from tracekit.trace.budget import Budget
from tracekit.trace.other import xla

_STATS = [b"step_num", b"correlation_id", b"flops", b"device", b"stream", b"", 'é"\\'.encode()]
_NAMES = [b"fusion.3", b"MemcpyH2D", b"Memset", b"$train.py:12 step", b"cudaLaunchKernel",
          b"%copy-start.1 = (f32[8]{0}, f32[8]{0:S(5)}, u32[]) copy-start(%p)",
          b"%copy-done.1 = f32[8]{0} copy-done(%copy-start.1)", b"a name that is not short",
          b"ExecutorState::Process", b"a/MatMul:MatMul", b"Iterator::Root::Batch", b"cuFoo",
          b"hipMalloc", b"train", b"12", b"", "\u00e9\n".encode()]  # fmt: skip
_PLANES = [b"/host:CPU", b"/device:GPU:0", b"/device:TPU:1 extra", b"/host:metadata"]
_LINES = [b"Stream #7(Compute)", b"XLA Ops", b"XLA Modules", b"Steps", b"main"]


def profile(seed: int) -> bytes:
    """A profile of some planes."""
    choose = random.Random(seed)
    planes = [_plane(choose) for _ in range(choose.randrange(1, 4))]
    return framed([plane.SerializeToString() for plane in planes])


def _plane(choose: random.Random) -> Any:
    plane = messages(SCHEMA)["XPlane"](id=choose.randrange(4), name=choose.choice(_PLANES))
    for number in range(1, choose.randrange(1, 8)):
        plane.stat_metadata.add(key=number).value.name = choose.choice(_STATS)
    for number in range(1, choose.randrange(1, 8)):
        kind = plane.event_metadata.add(key=number).value
        kind.name = choose.choice(_NAMES)
        if choose.random() < 0.3:
            kind.display_name = choose.choice(_NAMES)
        _add_stats(choose, kind, 3)
    for _ in range(choose.randrange(4)):
        line = plane.lines.add(id=choose.randrange(9), timestamp_ns=choose.choice([0, 1_000, -5]))
        line.name = choose.choice(_LINES)
        if choose.random() < 0.2:
            line.display_name = choose.choice(_LINES)
        for _ in range(choose.randrange(6)):
            event = line.events.add(metadata_id=choose.randrange(8))
            event.offset_ps = choose.choice([0, 1_000, 1_234, 5_000_000_000])
            event.duration_ps = choose.choice([0, 7, 3_000])
            if choose.random() < 0.2:
                event.num_occurrences = 3
            _add_stats(choose, event, 4)
    return plane


def _add_stats(choose: random.Random, owner: Any, most: int) -> None:
    for _ in range(choose.randrange(most)):
        stat = owner.stats.add(metadata_id=choose.randrange(8))
        kind = choose.randrange(7)
        if kind == 0:
            stat.double_value = choose.choice([0.5, -1e300, 2.0])
        elif kind == 1:
            stat.uint64_value = choose.choice([0, 1 << 63])
        elif kind == 2:
            stat.int64_value = choose.choice([4, -4])
        elif kind == 3:
            stat.str_value = choose.choice(_NAMES)
        elif kind == 4:
            stat.bytes_value = b"abc"
        elif kind == 5:
            stat.ref_value = choose.randrange(8)


def events(data: bytes) -> list[dict[str, Any]]:
    """The events of a sound profile."""
    at, planes = 0, []
    while at < len(data):
        # As `framed` writes them.
        size = data[at + 1] & 127 | data[at + 2] << 7
        planes.append(messages(SCHEMA)["XPlane"].FromString(data[at + 3 : at + 3 + size]))
        at += 3 + size
    names = [_said(kind.value.name) for plane in planes for kind in plane.event_metadata]
    is_tensorflow = any(map(xla.TENSORFLOW.match, names))
    return [event for plane in planes for event in _of_plane(plane, is_tensorflow)]


def _of_plane(plane: Any, is_tensorflow: bool) -> Iterator[dict[str, Any]]:
    stats = {each.key: _said(each.value.name) for each in plane.stat_metadata}
    kinds = {each.key: each.value for each in plane.event_metadata}
    copies = xla.HostCopies(Budget("any", 1 << 20))
    for kind in kinds.values():
        copies.note(_said(kind.name))
    name = _said(plane.name)
    device = xla.DEVICE.match(name)
    pid = xla.HOST if name == "/host:CPU" else xla.HOST + 1 + plane.id
    pid = int(device[2]) if device else pid
    for line in plane.lines:
        shown = _said(line.display_name) or _said(line.name)
        stream = xla.stream_of(shown, line.id) if device else None
        tid = line.id if stream is None else stream
        for event in line.events:
            start_ps = line.timestamp_ns * 1000 + event.offset_ps
            start, end = start_ps // 1000, (start_ps + event.duration_ps) // 1000
            kind = kinds.get(event.metadata_id)
            category, called, args = _described(kind, event, stats)
            if stream is not None:
                full = _said(kind.name) if kind else ""
                category, called = xla.on_device(called, full, copies)
                args |= {"device": pid, "stream": tid}
            elif device:
                category, called = xla.beside_device(shown, called)
            else:
                full = _said(kind.name) if kind else ""
                category, called = xla.on_host(called, full, args, is_tensorflow=is_tensorflow)
            yield {"ph": "X", "cat": category, "name": called, "pid": pid, "tid": tid, "args": args,
                   "ts": start / 1000, "dur": (end - start) / 1000}  # fmt: skip


def _described(kind: Any, event: Any, stats: dict[int, str]) -> tuple[str, str, dict[str, Any]]:
    args = {}
    for stat in [*(kind.stats if kind else []), *event.stats]:
        for field, value in stat.ListFields():
            if field.name == "metadata_id":
                continue
            if field.name == "ref_value":
                value = stats.get(value, value)
            elif isinstance(value, bytes):
                value = _said(value) if field.name == "str_value" else f"{len(value)} bytes"
            args[stats.get(stat.metadata_id, str(stat.metadata_id))] = value
    if "correlation_id" in args:
        args["correlation"] = args.pop("correlation_id")
    full = _said(kind.name) if kind else ""
    shown = (_said(kind.display_name) if kind else "") or full
    if full != shown:
        args["full name"] = full
    if event.num_occurrences:
        args["occurrences"] = event.num_occurrences
    return "", shown, args


def _said(value: bytes) -> str:
    return value.decode("utf-8", "replace")
