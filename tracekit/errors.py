"""The error type that users see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracekit.text import shown


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
        raise TracekitError(f"{what} {absent}: pip install 'tracekit[{extra}]'") from error


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
    """The first line of an exception's message; of one without a message, its type."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
