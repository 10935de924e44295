"""The error type that users see."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tracekit.text import shown
from tracekit.version import DISTRIBUTION

# DuckDB's name for a kind of error, before its message.
_KIND = re.compile(r"[\w ]+ Error: ")
# Its errors about files. Those of libraries that read a file for it have no kind.
_OF_FILES = {
    "Error", "FatalException", "IOException", "InternalException", "SerializationException",
    "TransactionException",
}  # fmt: skip
_DAMAGE = re.compile(
    "Could not read enough bytes|checksum|deserialize|No magic bytes|Failed to read file|"
    "might be corrupted|not a valid DuckDB"
)
_PARQUET = re.compile(r"""['"]([^'"]+\.parquet)['"]""")
_HOLDER = re.compile(r"Conflicting lock is held in .*\(PID (\d+)\)")


class TracekitError(Exception):
    """An error for the user: one line that says what is wrong, where, and what to do.

    The command line prints it on standard error and exits with `status`. URLs in it are without
    what may be secret.
    """

    status = 2

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(message))


class StorageError(TracekitError, OSError):
    """A file system or a server failed: another attempt may succeed."""


class NoAttributeError(TracekitError, AttributeError):
    """The user asks an object for an attribute that it does not have."""


class WrongCallError(TracekitError, TypeError):
    """The user calls a function with arguments that it does not take."""


def install(extra: str) -> str:
    """The command that installs an extra of tracekit."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Turns a failed import in its `with` block into an error that names the missing package.

    Raises:
        TracekitError: when one is absent.
    """
    try:
        yield
    except ImportError as error:
        absent = (error.name or "its package").partition(".")[0]
        raise TracekitError(f"{what} {absent}: {install(extra)}") from error


@contextmanager
def explained(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turns these errors in its `with` block into one for the user: what went wrong, and why.

    Raises:
        TracekitError: for any of them.
    """
    try:
        yield
    except TracekitError:
        # Its message is for the user already.
        raise
    except kinds as error:
        reason = getattr(error, "strerror", None) or reason_of(error)
        raise TracekitError(f"{what}: {reason}") from error


def is_interrupt(error: BaseException) -> bool:
    """Whether the user interrupted the program.

    DuckDB raises its own error for an interrupted query, and cleaning up may raise others. So this
    looks through the chain of causes.
    """
    first: BaseException | None = error
    # A chain of causes may form a cycle.
    seen: set[int] = set()
    while first is not None and id(first) not in seen:
        seen.add(id(first))
        if isinstance(first, KeyboardInterrupt) or str(first) == "Query interrupted":
            return True
        first = first.__cause__ or first.__context__
    return False


def first_line(error: BaseException) -> str:
    """Any exception in one line: its type and the first line of its message; for tracekit's own
    errors, the message."""
    if isinstance(error, TracekitError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def reason_of(error: BaseException) -> str:
    """The first line of an exception's message; of one without a message, its type. DuckDB's errors
    are said in words for users."""
    text = str(error).strip().partition("\n")[0]
    if type(error).__module__ == "_duckdb":
        text = file_trouble(error) or _KIND.sub("", text, count=1)
    return text or type(error).__name__


@cache
def _system() -> re.Pattern[str]:
    """What a system says about a file or a disk, where DuckDB passes it on."""
    said = "|".join(re.escape(os.strerror(number)) for number in errno.errorcode)
    return re.compile(rf": ({said})\s*(?:\"|$)", re.MULTILINE)


def file_trouble(error: BaseException) -> str | None:
    """What is wrong with a file or the disk, by an error of DuckDB; None: it is about something
    else, such as SQL."""
    text, kind = str(error), type(error).__name__
    is_damage = _DAMAGE.search(text) or (kind == "Error" and not _KIND.match(text))
    if kind not in _OF_FILES and not (kind == "InvalidInputException" and is_damage):
        return None
    if said := _system().search(text):
        how = "queries cannot spill there: name another folder (--temp-dir): "
        return f"{how if 'duckdb_temp' in text else ''}{said[1]}"
    if holder := _HOLDER.search(text):
        return f"the process {holder[1]} is writing it"
    which = found[1] if (found := _PARQUET.search(text)) else "the file"
    if "No files found" in text:
        return f"{which} is gone"
    return f"{which} is cut short or damaged" if is_damage else None
