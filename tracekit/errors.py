"""The one error type that reaches the edge."""

from __future__ import annotations


class TracekitError(Exception):
    """What was wrong, where, and what to do, in one line that a user can act on.

    The command line prints it on standard error and exits with status 2.
    """


def is_interrupt(error: BaseException) -> bool:
    """Whether the user has ended what ran.

    In a query, DuckDB raises an error of its own; what is closed meanwhile may raise more.
    """
    first: BaseException | None = error
    # A chain of causes may be a circle.
    seen: set[int] = set()
    while first is not None and id(first) not in seen:
        seen.add(id(first))
        if isinstance(first, KeyboardInterrupt) or str(first) == "Query interrupted":
            return True
        first = first.__cause__ or first.__context__
    return False


def first_line(error: BaseException) -> str:
    """Any other exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
