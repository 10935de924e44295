"""Converts a PyTorch memory snapshot to a trace.

`torch.cuda.memory._dump_snapshot` pickles lists and dicts of numbers and texts. This reader holds
one batch of a list (the pickler writes at most 1,000 items at once), each distinct stack, and a
pointer for each list and dict in the file: a small part of the file's size.

The keys are described in torch/cuda/memory.py, `_snapshot`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from tracekit.errors import TracekitError
from tracekit.trace.budget import OBJECT_BYTES
from tracekit.trace.other.converted import OpenedFile, joined
from tracekit.trace.other.pickles import (
    POINTER_BYTES,
    SCALARS,
    UNEXPECTED,
    PlainPickle,
    Streamed,
    is_pickle,
)
from tracekit.trace.unpacking import DamagedError

# PyTorch's recorder, as in its traces.
NAME = "kineto"
ENDINGS = (".pickle",)

# A line of a Python traceback.
_LINE = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)')
# c10::DeviceType of CUDA; PyTorch calls HIP CUDA, too.
_DEVICE_TYPE = 1
# What the allocator of pinned memory did, which is counted alone.
_OF_THE_HOST = ("host_segments", "host_traces")
# The sign of each allocator action's size in allocated and in reserved bytes.
_CHANGES = {
    "alloc": (1, 0), "free_completed": (-1, 0), "segment_alloc": (0, 1), "segment_map": (0, 1),
    "segment_free": (0, -1), "segment_unmap": (0, -1),
}  # fmt: skip


def sniff(opened: OpenedFile) -> bool:
    """Whether it is a pickle."""
    return is_pickle(opened.head)


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """The events of the file's snapshot, and the allocator's settings.

    Raises:
        TracekitError: when the pickle is not a snapshot, or exceeds its file's budget.
    """
    snapshot = _Snapshot(opened)
    yield from joined(snapshot.lines())
    about = {"allocator_settings": snapshot.settings, "left_out": snapshot.left_out}
    yield {"memory_snapshot": {key: value for key, value in about.items() if value != {}}}


class _Frame(int):
    """The number of a frame."""


class _Stack(int):
    """The number of a stack: that of its innermost frame with its callers. 0: not recorded."""


class _Traces(list[Any]):
    """The list of the devices' lists of actions."""


class _Written(Streamed):
    """A list of segments, actions or annotations: `kind` is its key in the snapshot."""

    def __init__(self, kind: str, device: int = 0) -> None:
        super().__init__()
        self.kind, self.device = kind, device


class _Snapshot(PlainPickle):
    def __init__(self, opened: OpenedFile) -> None:
        super().__init__(opened.path, opened, opened.budget)
        self._opened = opened
        self.settings: object = None
        self.left_out: dict[str, int] = {}
        self._devices = 0
        # Frames by file, line and function, and these in order.
        self._frames: dict[tuple[Any, Any, Any], _Frame] = {}
        self._named: list[tuple[Any, Any, Any]] = []
        self._callers: dict[tuple[_Frame, int], _Stack] = {}
        self._stacks: dict[tuple[_Frame, ...], _Stack] = {(): _Stack()}
        self._texts: list[str] = []
        self._text_bytes = 0
        self._open: dict[tuple[str, int], list[int]] = {}
        self._last_us = 0
        # Allocated and reserved bytes by device at the time of the snapshot, and their change
        # over the recorded actions.
        self._final: dict[int, list[int]] = {}
        self._changed: dict[int, list[int]] = {}

    def lines(self) -> Iterator[str]:
        """The texts of single events."""
        yield '{"ph":"M","cat":"memory_snapshot","name":"snapshot"}'
        root, opened, is_cut = None, self._opened, None
        try:
            for root in self.objects():  # noqa: B007
                yield from self._written()
        except UNEXPECTED as error:
            raise self._error("is not a PyTorch snapshot") from error
        except DamagedError as error:
            opened.damage = is_cut = opened.damage or str(error)
            # The items so far of the truncated list.
            levels = [*self.outer, self.stack]
            for around, items in pairwise(levels):
                if around and isinstance(around[-1], _Written):
                    whole = [item for item in items if type(item) is dict and "frames" in item]
                    for _ in self.write(around[-1], whole):
                        yield from self._written()
        if isinstance(root, _Written):
            root = {"segments": root}
        if is_cut is None and not (
            isinstance(root, dict) and isinstance(root.get("segments"), _Written)
        ):
            raise self._error("is a pickle, but not a PyTorch memory snapshot")
        for (name, device), starts in self._open.items():
            for start_us in starts:
                self._range(name, device, start_us, self._last_us)
                yield from self._written()
        for device in sorted({*self._final, *self._changed}):
            now, change = self._final.get(device, (0, 0)), self._changed.get(device, (0, 0))
            allocated, reserved = (max(0, a - b) for a, b in zip(now, change, strict=True))
            self._event(
                "before", f'"Device Id":{device},"allocated":{allocated},"reserved":{reserved}'
            )
        yield from self._written()
        if isinstance(root, dict):
            self.settings = _plain(root.get("allocator_settings"))
            counts = {key: root.get(key) for key in _OF_THE_HOST}
            self.left_out = {
                key: len(each) for key, each in counts.items() if isinstance(each, list) and each
            }

    def _written(self) -> list[str]:
        texts, self._texts, self._text_bytes = self._texts, [], 0
        return texts

    def _add(self, text: str) -> None:
        self._texts.append(text)
        self._text_bytes += len(text)
        self.budget.require_room(self._text_bytes)

    def _error(self, what: str) -> TracekitError:
        return TracekitError(f"{self._opened.path}: {what}")

    def new_list(self) -> list[Any]:
        stack, outer = self.stack, self.outer
        if not outer:
            # Old snapshots consist only of this list.
            return [] if stack else _Written("segments")
        around = stack[-1] if stack else outer[-1][-1]
        if isinstance(around, _Traces) or (stack and isinstance(outer[-1][-1], _Traces)):
            self._devices += 1
            return _Written("device_traces", self._devices - 1)
        if len(outer) == 1 and stack and isinstance(around, str):
            if around == "device_traces":
                return _Traces()
            if around in ("segments", "external_annotations"):
                return _Written(around)
        return []

    def whole(self, found: dict[Any, Any]) -> object:
        """The number of a complete frame; any other dictionary unchanged."""
        if "filename" not in found:
            return found
        place = _behind(found) or (found["filename"], found.get("line"), found.get("name"))
        if place not in self._frames:
            self.keep(3)
            self._frames[place] = _Frame(len(self._named))
            self._named.append(place)
        return self._frames[place]

    def stand_in(self, part: list[Any]) -> object:
        return self._stack_of(part)

    def _stack_of(self, frames: object) -> _Stack:
        """The number of a stack of frames, innermost first; writes new frames."""
        if isinstance(frames, _Stack):
            return frames
        if not isinstance(frames, list) or not all(type(each) is _Frame for each in frames):
            return _Stack()
        key = tuple(frames)
        stack = self._stacks.get(key)
        if stack is not None:
            return stack
        self.keep(2 + len(key) * POINTER_BYTES // OBJECT_BYTES)
        caller = _Stack()
        for depth, frame in enumerate(reversed(key)):
            called = self._callers.get((frame, caller))
            if called is None:
                self.keep(2)
                called = self._callers[frame, caller] = _Stack(len(self._callers) + 1)
                file, line, name = self._named[frame]
                self._event(
                    "stack_frame",
                    f'"stack":{called},"parent":{caller},"depth":{depth},"function":{_json(name)},'
                    f'"file":{_json(file)},"line":{_int(line)}',
                )
            caller = called
        self._stacks[key] = caller
        return caller

    # -- what is written ---------------------------------------------------------------------------

    def write(self, into: Streamed, items: Iterable[Any]) -> Iterator[None]:
        assert isinstance(into, _Written)
        write = {
            "segments": self._segment,
            "device_traces": self._action,
            "external_annotations": self._annotation,
        }[into.kind]
        for item in items:
            write(item, into.device)
            yield

    def _segment(self, found: dict[str, Any], _: int) -> None:
        device, address = _int(found.get("device")), _int(found.get("address"))
        final = self._of(device, self._final)
        final[1] += _int(found["total_size"])
        self._event(
            "segment",
            f'"Device Id":{device},"address":{address},"bytes":{_int(found["total_size"])},'
            f'"stack":{self._stack_of(found.get("frames"))},'
            f'"stream":{_int(found.get("stream"))},"kind":{_json(found.get("segment_type"))},'
            f'"pool":{_json(_pool(found.get("segment_pool_id")))},'
            f'"expandable":{_json(found.get("is_expandable") is True)}',
        )
        at = address
        for block in found["blocks"]:
            size = _int(block["size"])
            requested = _int(block.get("requested_size", size))
            state = block.get("state")
            if state != "inactive":
                final[0] += requested
            self._event(
                "block",
                f'"Device Id":{device},"segment":{address},"Addr":{_int(block.get("address", at))},'
                f'"bytes":{size},"requested":{requested},"state":{_json(state)},'
                f'"stack":{self._stack_of(block.get("frames"))}{_more(block)}',
            )
            at += size

    def _action(self, found: dict[str, Any], device: int) -> None:
        action, size = found.get("action"), _int(found.get("size"))
        at_us = self._last_us = _int(found.get("time_us"))
        address = _int(found.get("addr"))
        args = f'"stack":{self._stack_of(found.get("frames"))},"stream":{_int(found.get("stream"))}'
        args += _more(found)
        if action in _CHANGES:
            allocates, reserves = _CHANGES[action]
            changed = self._of(device, self._changed)
            changed[0] += allocates * size
            changed[1] += reserves * size
            args = (
                f'"Device Type":{_DEVICE_TYPE},"Device Id":{device},"Addr":{address},'
                f'"Bytes":{allocates * size},"Total Allocated":{changed[0]},'
                f'"Total Reserved":{changed[1]},"action":{_json(action)},"size":{size},{args}'
            )
            self._event("[memory]", args, "i", at_us, device)
        else:
            free = f',"device_free":{_int(found["device_free"])}' if "device_free" in found else ""
            args = f'"Device Id":{device},"Addr":{address},"size":{size}{free},{args}'
            self._event(_word(action), args, "i", at_us, device)

    def _of(self, device: int, counts: dict[int, list[int]]) -> list[int]:
        if device not in counts:
            self.keep(3)
            counts[device] = [0, 0]
        return counts[device]

    def _annotation(self, found: dict[str, Any], _: int) -> None:
        name, device = _word(found.get("name")), _int(found.get("device"))
        at_us = _int(found.get("time_us"))
        self.keep()
        starts = self._open.setdefault((name, device), [])
        if found.get("stage") != "END":
            starts.append(at_us)
        elif starts:
            self._range(name, device, starts.pop(), at_us)

    def _range(self, name: str, device: int, start_us: int, end_us: int) -> None:
        self._add(
            f'{{"ph":"X","cat":"user_annotation","name":{_json(name)},"pid":0,"tid":{device},'
            f'"ts":{start_us},"dur":{max(0, end_us - start_us)}}}'
        )

    def _event(
        self, name: str, args: str, phase: str = "M", at_us: int = 0, device: int = 0
    ) -> None:
        self._add(
            f'{{"ph":"{phase}","cat":"memory_snapshot","name":{_json(name)},"pid":0,'
            f'"tid":{device},"ts":{at_us},"args":{{{args}}}}}'
        )


def _behind(frame: dict[Any, Any]) -> tuple[str, int, str] | None:
    """The user's line behind a frame of generated code, if the snapshot tells it
    (augment_with_fx_traces=True): the innermost one."""
    trace = frame.get("fx_original_trace")
    lines = _LINE.findall(trace) if isinstance(trace, str) else []
    if not lines:
        return None
    file, line, function = lines[-1]
    return file, int(line), function


def _int(value: object) -> int:
    """A number that fits in a column; 0 for anything else."""
    return value if type(value) is int and -(2**63) <= value < 2**64 else 0


def _word(value: object) -> str:
    """A name; for anything else, its type, since the value may be deep."""
    return str(value if type(value) in SCALARS else type(value).__name__)


def _json(value: object) -> str:
    return json.dumps(value if type(value) in SCALARS else _word(value), allow_nan=False)


def _plain(value: object, levels: int = 2) -> object:
    """Settings as JSON, no deeper than PyTorch's."""
    if isinstance(value, dict) and levels:
        return {str(key): _plain(each, levels - 1) for key, each in value.items()}
    return value if isinstance(value, str | int | bool | None) else str(type(value).__name__)


def _pool(pool: object) -> str | None:
    """The private memory pool; None: the common one."""
    is_private = isinstance(pool, tuple) and any(pool) and all(type(each) is int for each in pool)
    return ".".join(map(str, pool)) if is_private and isinstance(pool, tuple) else None


def _more(found: dict[str, Any]) -> str:
    """The user's and compiler's notes on an action."""
    notes = {key: found.get(key) for key in ("compile_context", "user_metadata")}
    texts = {
        key: text
        for key, text in notes.items()
        if isinstance(text, str) and text not in ("", "N/A")
    }
    if pool := _pool(found.get("pool_id")):
        texts["pool"] = pool
    return "".join(f',"{key}":{_json(text)}' for key, text in texts.items())
