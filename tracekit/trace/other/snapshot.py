"""A memory snapshot of PyTorch -> the text of a trace.

`torch.cuda.memory._dump_snapshot` pickles lists and dicts of numbers and texts. This module reads
only these: it has no code for what else a pickle can ask for, such as a call, and refuses it. It
holds one batch of a list (the pickler writes at most 1,000 items at once), each distinct stack, and
a pointer for each list and dict of the file: a small part of the file's size. All of it counts on
the file's budget, and nothing here recurses: values may be nested by any trick of the opcodes.

What each key means: torch/cuda/memory.py, `_snapshot`. https://docs.python.org/3/library/pickle.html
"""

from __future__ import annotations

import io
import json
import pickletools
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, BinaryIO, cast

from tracekit.errors import TracekitError
from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.other.converted import OneProcess, joined
from tracekit.trace.source import ByteStream
from tracekit.trace.unpacking import DamagedError, Readable, buffered

_MOST_BYTES_OF_A_VALUE = 16 << 20
# Opcodes of pickles (pickletools) that push what they hold.
_VALUES = {
    *("BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1"), *("SHORT_BINUNICODE", "BINUNICODE")
}  # fmt: skip
_CONSTANTS = {"EMPTY_TUPLE": (), "NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# What a tuple may hold, and a name may be; a tuple of anything else becomes a list.
_SCALARS = {int, float, str, bool, type(None)}
# Errors of reading a pickle that is not a snapshot.
_UNEXPECTED = (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError)
# Count opcodes, and what they keep, at this many.
_OPCODES = 4_096
# A pointer, and a number or an empty list with its place on the stack.
_POINTER_BYTES, _VALUE_BYTES = 8, 64
# c10::DeviceType of CUDA, and of HIP, which PyTorch calls CUDA.
_DEVICE_TYPE = 1
# For each action of the allocator: the sign of its size in the allocated and the reserved bytes.
_CHANGES = {
    "alloc": (1, 0), "free_completed": (-1, 0), "segment_alloc": (0, 1), "segment_map": (0, 1),
    "segment_free": (0, -1), "segment_unmap": (0, -1),
}  # fmt: skip


def is_pickle(head: bytes) -> bool:
    """Whether a file that begins with `head` is a pickle of protocol 2 to 5."""
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5


def plain_pickle(path: str, text: bytes, budget: Budget) -> object:
    """The lists, dicts, numbers and texts of a pickle.

    Raises:
        TracekitError: when it has anything else, ends early, or uses up its file's budget.
    """
    root = None
    try:
        reader = _Snapshot(path, io.BytesIO(text), budget, has_frames=False)
        for root in reader._objects():  # noqa: B007
            pass
    except (*_UNEXPECTED, DamagedError) as error:
        raise TracekitError(f"{path}: is damaged, or no pickle of plain dictionaries") from error
    return root


def texts_of(stream: ByteStream, process: OneProcess) -> Iterator[bytes]:
    """The events of the one snapshot that the file holds."""
    yield from _Snapshot(stream.path, stream, stream.budget).texts(process, stream)


class _Frame(int):
    """The number of a frame."""


class _Stack(int):
    """The number of a stack: of its innermost frame, called as it was. 0: none was recorded."""


class _Traces(list[Any]):
    """The list that holds a list of actions for each device."""


class _Streamed(list[Any]):
    """A list whose items are written as they come, and then dropped."""

    def __init__(self, kind: str, device: int = 0) -> None:
        super().__init__()
        self.kind, self.device = kind, device


class _Source:
    """What pickletools reads from."""

    def __init__(self, path: str, source: Readable) -> None:
        self._path, self._file = path, buffered(source)

    def read(self, size: int) -> bytes:
        if size > _MOST_BYTES_OF_A_VALUE:
            raise TracekitError(
                f"{self._path}: has a text of {size:,} bytes, which no snapshot has"
            )
        data = self._file.read(size)
        if len(data) < size:
            raise DamagedError("the snapshot ends early")
        return data

    def readline(self) -> bytes:
        """Raises: only names, and values of protocol 0, end with a line."""
        raise self.refused()

    def refused(self) -> TracekitError:
        return TracekitError(
            f"{self._path}: its pickle has more than numbers and texts, and tracekit runs nothing "
            "that a pickle names"
        )


class _Snapshot:
    def __init__(
        self, path: str, source: Readable, budget: Budget, *, has_frames: bool = True
    ) -> None:
        self._path, self._source, self._has_frames = path, _Source(path, source), has_frames
        self._budget = budget
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []
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
        # Allocated and reserved bytes by device, when the snapshot was taken, and how the recorded
        # actions changed them.
        self._final: dict[int, list[int]] = {}
        self._changed: dict[int, list[int]] = {}

    def texts(self, process: OneProcess, stream: ByteStream) -> Iterator[bytes]:
        """The texts of the events.

        Raises:
            TracekitError: when the pickle is not a snapshot, or uses up its file's budget.
        """
        return joined(self._lines(process, stream))

    def _lines(self, process: OneProcess, stream: ByteStream) -> Iterator[str]:
        yield '{"ph":"M","cat":"memory_snapshot","name":"snapshot"}'
        root = None
        try:
            for root in self._objects():  # noqa: B007
                yield from self._written()
        except _UNEXPECTED as error:
            raise self._error("is not a snapshot that PyTorch writes") from error
        except DamagedError as error:
            process.damage = stream.damage or str(error)
            # The items so far of the list that is cut off.
            levels = [*self._outer, self._stack]
            for around, items in pairwise(levels):
                if around and isinstance(around[-1], _Streamed):
                    whole = [each for each in items if type(each) is dict and "frames" in each]
                    for _ in self._write(around[-1], whole):
                        yield from self._written()
        if isinstance(root, _Streamed):
            root = {"segments": root}
        if process.damage is None and not (
            isinstance(root, dict) and isinstance(root.get("segments"), _Streamed)
        ):
            raise self._error("is a pickle, but not a memory snapshot of PyTorch")
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
        settings = _plain(root.get("allocator_settings")) if isinstance(root, dict) else None
        process.tail = {"memory_snapshot": {"allocator_settings": settings}}

    def _written(self) -> list[str]:
        found, self._texts, self._text_bytes = self._texts, [], 0
        return found

    def _add(self, text: str) -> None:
        self._texts.append(text)
        self._text_bytes += len(text)
        self._budget.require_room(self._text_bytes)

    def _keep(self, objects: int = 1) -> None:
        """Counts objects that are kept to the end."""
        self._budget.hold(objects * OBJECT_BYTES)

    def _error(self, what: str) -> TracekitError:
        return TracekitError(f"{self._path}: {what}")

    # -- the pickle --------------------------------------------------------------------------------

    def _objects(self) -> Iterator[Any]:
        """Reads the pickle. Yields when there may be text to hand on, and last its object."""
        stack, outer = self._stack, self._outer
        memo: list[Any] = []
        # Each text, and each tuple, is kept once.
        known: dict[Any, Any] = {}
        first_place = place_of_dict = 0
        # Bytes that the opcodes since the last count keep, all those that are counted, how many
        # these were at each mark, and at the last mark that was reached.
        new = held = opcodes = 0
        held_at: list[int] = []
        before = 0

        def count() -> None:
            nonlocal new, held
            self._budget.hold(new)
            new, held = 0, held + new

        def marked() -> list[Any]:
            """The items from the last mark on, which leave the stack."""
            nonlocal stack, before
            before = held_at.pop()
            items, stack = stack, outer.pop()
            self._stack = stack
            return items

        for opcode, value, _ in pickletools.genops(cast(BinaryIO, self._source)):
            op = opcode.name
            opcodes += 1
            if opcodes % _OPCODES == 0:
                self._budget.spend(_OPCODES)
                count()
            if op in ("BINGET", "LONG_BINGET"):
                stack.append(memo[cast(int, value)])
                new += _POINTER_BYTES
            elif op in _VALUES:
                if isinstance(value, str) and value not in known:
                    known[value] = value
                    self._budget.hold(len(value) + OBJECT_BYTES)
                stack.append(known[value] if isinstance(value, str) else value)
                new += _VALUE_BYTES
            elif op in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
                if value not in (None, len(memo)):
                    raise ValueError(value)
                if type(stack[-1]) is dict:
                    place_of_dict = len(memo)
                memo.append(stack[-1])
                new += _POINTER_BYTES
            elif op == "MARK":
                self._budget.require_depth(len(outer))
                count()
                held_at.append(held)
                outer.append(stack)
                stack = self._stack = []
            elif op == "EMPTY_DICT":
                stack.append({})
                new += _VALUE_BYTES
            elif op == "EMPTY_LIST":
                stack.append(self._new_list(stack))
                new += _VALUE_BYTES
            elif op in ("SETITEMS", "SETITEM"):
                items = marked() if op == "SETITEMS" else [stack.pop(-2), stack.pop()]
                found = stack[-1]
                found.update(zip(items[::2], items[1::2], strict=True))
                if "filename" in found and self._has_frames:
                    place_in_code = found["filename"], found.get("line"), found.get("name")
                    if place_in_code not in self._frames:
                        self._keep(3)
                        self._frames[place_in_code] = _Frame(len(self._named))
                        self._named.append(place_in_code)
                    stack[-1] = frame = self._frames[place_in_code]
                    if memo[place_of_dict] is found:
                        memo[place_of_dict] = frame
            elif op in ("APPENDS", "APPEND"):
                items = marked() if op == "APPENDS" else [stack.pop()]
                if not isinstance(stack[-1], _Streamed):
                    stack[-1].extend(items)
                    continue
                yield from self._write(stack[-1], items)
                # The rest of the pickle may refer to stacks of written items.
                kept = (len(memo) - first_place) * _POINTER_BYTES
                for place in range(first_place, len(memo)):
                    if type(memo[place]) is dict:
                        memo[place] = None
                    elif type(memo[place]) is list:
                        memo[place] = self._stack_of(memo[place])
                    elif type(memo[place]) in (int, float):
                        kept += _VALUE_BYTES
                first_place = len(memo)
                if op == "APPENDS":
                    new = before + kept - held
                    count()
            elif op in _CONSTANTS:
                stack.append(_CONSTANTS[op])
                new += _POINTER_BYTES
            elif op in _TUPLES or op == "TUPLE":
                items = marked() if op == "TUPLE" else stack[-_TUPLES[op] :]
                if op != "TUPLE":
                    del stack[-_TUPLES[op] :]
                kinds = tuple(map(type, items))
                if {*kinds} <= _SCALARS:
                    key = tuple(items), kinds
                    if key not in known:
                        known[key] = key[0]
                        self._keep(2 + len(items))
                    items = known[key]
                else:
                    # Hashing deep tuples overflows the stack of C.
                    new += _VALUE_BYTES
                stack.append(items)
            elif op == "STOP":
                yield stack[-1]
            elif op not in ("PROTO", "FRAME"):
                raise self._source.refused()

    def _new_list(self, stack: list[Any]) -> list[Any]:
        """An empty list for the list that begins on top of the stack."""
        outer = self._outer
        if not outer:
            # Old snapshots consist of this list only.
            return [] if stack else _Streamed("segments")
        around = stack[-1] if stack else outer[-1][-1]
        if isinstance(around, _Traces) or (stack and isinstance(outer[-1][-1], _Traces)):
            self._devices += 1
            return _Streamed("device_traces", self._devices - 1)
        if len(outer) == 1 and stack and isinstance(around, str):
            if around == "device_traces":
                return _Traces()
            if around in ("segments", "external_annotations"):
                return _Streamed(around)
        return []

    def _stack_of(self, frames: object) -> _Stack:
        """The number of a stack of frames, the innermost first; new frames are written."""
        if isinstance(frames, _Stack):
            return frames
        if not isinstance(frames, list) or not all(type(each) is _Frame for each in frames):
            return _Stack()
        key = tuple(frames)
        found = self._stacks.get(key)
        if found is not None:
            return found
        self._keep(2 + len(key) * _POINTER_BYTES // OBJECT_BYTES)
        caller = _Stack()
        for depth, frame in enumerate(reversed(key)):
            called = self._callers.get((frame, caller))
            if called is None:
                self._keep(2)
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

    def _write(self, into: _Streamed, items: Iterable[dict[str, Any]]) -> Iterator[None]:
        """Writes items of a list; yields whenever that is much text."""
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
            self._keep(3)
            counts[device] = [0, 0]
        return counts[device]

    def _annotation(self, found: dict[str, Any], _: int) -> None:
        name, device = _word(found.get("name")), _int(found.get("device"))
        at_us = _int(found.get("time_us"))
        self._keep()
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


def _int(value: object) -> int:
    """A number that a column can hold; 0 for anything else."""
    return value if type(value) is int and -(2**63) <= value < 2**64 else 0


def _word(value: object) -> str:
    """A name; the kind of anything else, which may be deep."""
    return str(value if type(value) in _SCALARS else type(value).__name__)


def _json(value: object) -> str:
    return json.dumps(value if type(value) in _SCALARS else _word(value), allow_nan=False)


def _plain(value: object, levels: int = 2) -> object:
    """Settings as JSON can hold them: no deeper than PyTorch's."""
    if isinstance(value, dict) and levels:
        return {str(key): _plain(each, levels - 1) for key, each in value.items()}
    return value if isinstance(value, str | int | bool | None) else str(type(value).__name__)


def _pool(pool: object) -> str | None:
    """The private memory pool; None: the common one."""
    is_private = isinstance(pool, tuple) and any(pool) and all(type(each) is int for each in pool)
    return ".".join(map(str, pool)) if is_private and isinstance(pool, tuple) else None


def _more(found: dict[str, Any]) -> str:
    """Notes of the user and the compiler on an action."""
    notes = {key: found.get(key) for key in ("compile_context", "user_metadata")}
    known = {
        key: text
        for key, text in notes.items()
        if isinstance(text, str) and text not in ("", "N/A")
    }
    if pool := _pool(found.get("pool_id")):
        known["pool"] = pool
    return "".join(f',"{key}":{_json(text)}' for key, text in known.items())
