"""A pickle -> its plain values.

Reads only lists, dicts, tuples, numbers and texts: there is no code here for what else a pickle can
ask for, such as a call, and it is refused. All that it keeps counts on the file's budget, and
nothing here recurses: values may be nested by any trick of the opcodes.

https://docs.python.org/3/library/pickle.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from tracekit.errors import TracekitError
from tracekit.trace.budget import OBJECT_BYTES, Budget
from tracekit.trace.unpacking import DamagedError, Readable, buffered

_MOST_BYTES_OF_A_VALUE = 16 << 20
# Opcodes of pickles (pickletools) that push what they hold.
_VALUES = {
    *("BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1"), *("SHORT_BINUNICODE", "BINUNICODE")
}  # fmt: skip
_CONSTANTS = {"EMPTY_TUPLE": (), "NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# What a tuple may hold, and a name may be; a tuple of anything else becomes a list.
SCALARS = {int, float, str, bool, type(None)}
# Errors of reading a pickle that is not a snapshot.
UNEXPECTED = (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError)
# Count opcodes, and what they keep, at this many.
_OPCODES = 4_096
# A pointer, and a number or an empty list with its place on the stack.
POINTER_BYTES, _VALUE_BYTES = 8, 64


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
        reader = PlainPickle(path, io.BytesIO(text), budget)
        for root in reader.objects():  # noqa: B007
            pass
    except (*UNEXPECTED, DamagedError) as error:
        raise TracekitError(f"{path}: is damaged, or no pickle of plain dictionaries") from error
    return root


class Streamed(list[Any]):
    """A list whose items are written as they come, and then dropped."""


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


class PlainPickle:
    """Builds the value of a pickle. What is overridden writes items of long lists as they come."""

    def __init__(self, path: str, source: Readable, budget: Budget) -> None:
        self._source = _Source(path, source)
        self.budget = budget
        self.stack: list[Any] = []
        """The values since the last mark."""
        self.outer: list[list[Any]] = []
        """Those before each mark."""

    def new_list(self) -> list[Any]:
        """An empty list for the list that begins on top of the stack."""
        return []

    def whole(self, found: dict[Any, Any]) -> object:
        """What stands for a dictionary from now on."""
        return found

    def write(self, into: Streamed, items: Iterable[Any]) -> Iterator[None]:
        """Writes items of a list; yields whenever that is much text."""
        raise NotImplementedError

    def stand_in(self, part: list[Any]) -> object:
        """What stands for a list in written items, to which the rest of the pickle may refer."""
        raise NotImplementedError

    def keep(self, objects: int = 1) -> None:
        """Counts objects that are kept to the end."""
        self.budget.hold(objects * OBJECT_BYTES)

    def objects(self) -> Iterator[Any]:
        """Reads the pickle. Yields when there may be text to hand on, and last its object."""
        # Its import takes longer than those of all readers.
        import pickletools

        stack, outer = self.stack, self.outer
        memo: list[Any] = []
        # Each text, and each tuple, is kept once.
        handlers: dict[Any, Any] = {}
        first_place = place_of_dict = 0
        # Bytes that the opcodes since the last count keep, all those that are counted, how many
        # these were at each mark, and at the last mark that was reached.
        new = held = opcodes = 0
        held_at: list[int] = []
        before = 0

        def count() -> None:
            nonlocal new, held
            self.budget.hold(new)
            new, held = 0, held + new

        def marked() -> list[Any]:
            """The items from the last mark on, which leave the stack."""
            nonlocal stack, before
            before = held_at.pop()
            items, stack = stack, outer.pop()
            self.stack = stack
            return items

        for opcode, value, _ in pickletools.genops(cast(BinaryIO, self._source)):
            op = opcode.name
            opcodes += 1
            if opcodes % _OPCODES == 0:
                self.budget.spend(_OPCODES)
                count()
            if op in ("BINGET", "LONG_BINGET"):
                stack.append(memo[cast(int, value)])
                new += POINTER_BYTES
            elif op in _VALUES:
                if isinstance(value, str) and value not in handlers:
                    handlers[value] = value
                    self.budget.hold(len(value) + OBJECT_BYTES)
                stack.append(handlers[value] if isinstance(value, str) else value)
                new += _VALUE_BYTES
            elif op in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
                if value not in (None, len(memo)):
                    raise ValueError(value)
                if type(stack[-1]) is dict:
                    place_of_dict = len(memo)
                memo.append(stack[-1])
                new += POINTER_BYTES
            elif op == "MARK":
                self.budget.require_depth(len(outer))
                count()
                held_at.append(held)
                outer.append(stack)
                stack = self.stack = []
            elif op == "EMPTY_DICT":
                stack.append({})
                new += _VALUE_BYTES
            elif op == "EMPTY_LIST":
                stack.append(self.new_list())
                new += _VALUE_BYTES
            elif op in ("SETITEMS", "SETITEM"):
                items = marked() if op == "SETITEMS" else [stack.pop(-2), stack.pop()]
                top = stack[-1]
                top.update(zip(items[::2], items[1::2], strict=True))
                kept_dict = self.whole(top)
                if kept_dict is not top:
                    stack[-1] = kept_dict
                    if memo[place_of_dict] is top:
                        memo[place_of_dict] = kept_dict
            elif op in ("APPENDS", "APPEND"):
                items = marked() if op == "APPENDS" else [stack.pop()]
                if not isinstance(stack[-1], Streamed):
                    stack[-1].extend(items)
                    continue
                yield from self.write(stack[-1], items)
                # The rest of the pickle may refer to stacks of written items.
                added_bytes = (len(memo) - first_place) * POINTER_BYTES
                for place in range(first_place, len(memo)):
                    if type(memo[place]) is dict:
                        memo[place] = None
                    elif type(memo[place]) is list:
                        memo[place] = self.stand_in(memo[place])
                    elif type(memo[place]) in (int, float):
                        added_bytes += _VALUE_BYTES
                first_place = len(memo)
                if op == "APPENDS":
                    new = before + added_bytes - held
                    count()
            elif op in _CONSTANTS:
                stack.append(_CONSTANTS[op])
                new += POINTER_BYTES
            elif op in _TUPLES or op == "TUPLE":
                items = marked() if op == "TUPLE" else stack[-_TUPLES[op] :]
                if op != "TUPLE":
                    del stack[-_TUPLES[op] :]
                kinds = tuple(map(type, items))
                if {*kinds} <= SCALARS:
                    key = tuple(items), kinds
                    if key not in handlers:
                        handlers[key] = key[0]
                        self.keep(2 + len(items))
                    items = handlers[key]
                else:
                    # Hashing deep tuples overflows the stack of C.
                    new += _VALUE_BYTES
                stack.append(items)
            elif op == "STOP":
                yield stack[-1]
            elif op not in ("PROTO", "FRAME"):
                raise self._source.refused()
