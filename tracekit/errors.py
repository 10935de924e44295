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

# DuckDB's name for the kind of error, in front of the message.
_KIND = re.compile(r"[\w ]+ Error: ")
# DuckDB's errors about files. Errors from libraries that read files for it have no kind.
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

    The command line prints it on standard error and exits with `status`. Possible secrets are
    removed from its URLs.
    """

    status = 2

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(message))


class StorageError(TracekitError, OSError):
    """A file system or a server failed: another attempt may succeed."""


class NoAttributeError(TracekitError, AttributeError):
    """The user accessed an attribute that the object does not have."""


class WrongCallError(TracekitError, TypeError):
    """The user called a function with wrong arguments."""


def install(extra: str) -> str:
    """The command that installs an extra of tracekit."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Turns a failed import in its `with` block into an error that names the missing package.

    Raises:
        TracekitError: when a package is absent.
    """
    try:
        yield
    except ImportError as error:
        absent = (error.name or "its package").partition(".")[0]
        raise TracekitError(f"{what} {absent}: {install(extra)}") from error


@contextmanager
def explained(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turns these errors in its `with` block into one for the user that says what failed and why.

    Raises:
        TracekitError: for any of them.
    """
    try:
        yield
    except TracekitError:
        # Its message is already for the user.
        raise
    except kinds as error:
        reason = getattr(error, "strerror", None) or reason_of(error)
        raise TracekitError(f"{what}: {reason}") from error


def is_interrupt(error: BaseException) -> bool:
    """Whether the user interrupted the program.

    DuckDB raises its own error for an interrupted query, and cleanup may raise others, so this
    searches the chain of causes.
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
    """An exception in one line: its type and the first line of its message. tracekit's own errors
    are only their message."""
    if isinstance(error, TracekitError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def reason_of(error: BaseException) -> str:
    """The first line of an exception's message, or its type if it has none. DuckDB's errors are
    reworded for users."""
    text = str(error).strip().partition("\n")[0]
    if type(error).__module__ == "_duckdb":
        text = file_trouble(error) or _KIND.sub("", text, count=1)
    return text or type(error).__name__


@cache
def _system() -> re.Pattern[str]:
    """The system's message about a file or disk inside a DuckDB error."""
    messages = "|".join(re.escape(os.strerror(number)) for number in errno.errorcode)
    return re.compile(rf": ({messages})\s*(?:\"|$)", re.MULTILINE)


def file_trouble(error: BaseException) -> str | None:
    """The problem with a file or the disk that a DuckDB error reports; None: the error is about
    something else, such as SQL."""
    text, kind = str(error), type(error).__name__
    is_damage = _DAMAGE.search(text) or (kind == "Error" and not _KIND.match(text))
    if kind not in _OF_FILES and not (kind == "InvalidInputException" and is_damage):
        return None
    if said := _system().search(text):
        how = "queries cannot spill there: name another folder (--temp-dir): "
        return f"{how if 'duckdb_temp' in text else ''}{said[1]}"
    if holder := _HOLDER.search(text):
        return f"the process {holder[1]} is writing it"
    which = match[1] if (match := _PARQUET.search(text)) else "the file"
    if "No files found" in text:
        return f"{which} is gone"
    return f"{which} is cut short or damaged" if is_damage else None
