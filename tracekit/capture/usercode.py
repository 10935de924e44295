"""Runs the user's code, reports failures in one line, and reopens closed streams."""

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from tracekit.errors import TracekitError, first_line, is_interrupt

_FAILED, _INTERRUPTED = 1, 130
# Functions that end or replace the process without running Python's exit code. os's other such
# functions call these.
_UNSEEN_ENDS = ("_exit", "execv", "execve")


def find_step(
    target: str, change: Callable[[Callable[..., object]], Callable[[], object]] | None = None
) -> Callable[[], object]:
    """The function that `module:function` names, as a step without arguments.

    With `change`, the step is the function that `change` returns. The step raises TracekitError if
    the function raises SystemExit or returns deferred work (a coroutine or generator). A child
    process that the function forked ends when it leaves the step.

    Raises:
        TracekitError: when the function does not exist, or cannot be a step.
    """
    target_function = find_function(target)
    function = change(target_function) if change else target_function
    owner = os.getpid()

    def step() -> object:
        try:
            result = function()
        except BaseException as error:
            if os.getpid() != owner:
                _end_child(error)
            if isinstance(error, Exception | KeyboardInterrupt):
                raise
            what = f"failed while it ran: {first_line(error)}"
            if isinstance(error, SystemExit):
                what = (
                    f"ended the program by {_exit_call(error)}, so nothing was recorded: make the "
                    "step return instead"
                )
            raise TracekitError(f"{target}: {what}") from error
        if os.getpid() != owner:
            _end_child(None)
        if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TracekitError(_deferred_message(target, type(result).__name__.replace("_", " ")))
        return result

    return step


def find_function(target: str) -> Callable[..., object]:
    """The function that `module:function` names, which can be called without arguments.

    Raises:
        TracekitError: when the function does not exist, or cannot be a step.
    """
    module_name, _, name = target.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise TracekitError(
            f"{target}: cannot import {module_name}: it calls {_exit_call(error)}: move that call "
            "under `if __name__ == '__main__':`, or capture the module as a script"
        ) from error
    except BaseException as error:
        raise TracekitError(
            f"{target}: cannot import {module_name}: {first_line(error)}"
        ) from error
    if not callable(function):
        raise TracekitError(f"{target}: {module_name} has no function {name!r}")
    if kind := is_deferred(function):
        raise TracekitError(_deferred_message(target, kind))
    # Some functions written in C have no signature.
    with suppress(ValueError):
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise TracekitError(
                f"{target}: a step is called without arguments: {error}; choose a function without "
                "any"
            ) from error
    return function  # type: ignore[no-any-return]


@contextmanager
def name_errors(target: str) -> Iterator[None]:
    """Prefixes tracekit's errors with `target`, unless they already start with it."""
    try:
        yield
    except TracekitError as error:
        if str(error).startswith(target):
            raise
        raise TracekitError(f"{target}: {error}") from error


def is_deferred(function: Callable[..., object]) -> str | None:
    """The kind of object that a call returns if it does not run the function's body; None if it
    does."""
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else None


def _deferred_message(target: str, kind: str) -> str:
    article = "an" if kind.startswith("async") else "a"
    how = "iterates over it" if "generator" in kind else "awaits it, with asyncio.run"
    return (
        f"{target}: a call only returns {article} {kind} and does not run it: "
        f"use a plain function that {how}"
    )


def _exit_call(error: SystemExit) -> str:
    return f"sys.exit({'' if error.code is None else repr(error.code)})"


def _end_child(error: BaseException | None) -> NoReturn:
    """Ends a forked child as Python would, without continuing with the parent's work."""
    status = 0
    if isinstance(error, SystemExit):
        status = exit_status(error)
    elif error is not None:
        status = _INTERRUPTED if is_interrupt(error) else _FAILED
        if status == _FAILED:
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def exit_status(error: SystemExit) -> int:
    """The exit status that Python would use; 0 for success."""
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else _FAILED


class ScriptFailed(TracekitError):
    """A script failed, or exited with a nonzero `status`."""

    def __init__(self, message: str, status: int = _FAILED) -> None:
        self.status = status
        super().__init__(message)


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Runs a script as `python SCRIPT ARGUMENTS` would; returns if it exits with status 0. If the
    script fails, its traceback is printed.

    A child process that the script forked ends here, by SystemExit.

    Raises:
        ScriptFailed: when the script fails, or exits with another status.
        TracekitError: when it runs a profiler itself.
    """
    owner = os.getpid()
    before, path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        if os.getpid() != owner:
            raise
        if exit_status(error) != 0:
            with_what = "status " * isinstance(error.code, int) + str(error.code)
            raise ScriptFailed(f"{script}: ended with {with_what}", exit_status(error)) from error
    except TracekitError:
        raise
    except BaseException as error:
        _print_traceback(script, error)
        raise ScriptFailed(f"{script}: failed: {first_line(error)}") from error
    finally:
        sys.argv, sys.path[:] = before, path
    if os.getpid() != owner:
        raise SystemExit(0)


def _print_traceback(script: str, error: BaseException) -> None:
    """Prints the traceback as Python would, starting at the script's frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    # The script may have closed the stream, or replaced the hook.
    with suppress(Exception):
        sys.excepthook(type(error), error.with_traceback(frames), frames)


@contextmanager
def restored_streams() -> Iterator[None]:
    """Restores standard output and error if the code replaced or closed them."""
    streams = {1: sys.stdout, 2: sys.stderr}
    copies = {}
    for number in streams:
        with suppress(OSError):
            copies[number] = os.dup(number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr, *streams.values()):
            with suppress(Exception):
                stream.flush()
        for number, copy in copies.items():
            os.dup2(copy, number)
            os.close(copy)
        sys.stdout, sys.stderr = (_reopen(*item) for item in streams.items())


def _reopen(number: int, stream: Any) -> IO[str]:
    if getattr(stream, "closed", False):
        return open(number, "w", encoding="utf-8", errors="replace", closefd=False)
    return stream  # type: ignore[no-any-return]


@contextmanager
def refuse_unseen_ends(refuse: Callable[[str], int]) -> Iterator[None]:
    """Makes os._exit and os.exec* call `refuse` and exit with the status that it returns.

    These calls end the process before a trace can be written. Forked children may use them.
    """
    owner, watching, real = os.getpid(), True, {name: getattr(os, name) for name in _UNSEEN_ENDS}

    def refuse_call(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if watching and os.getpid() == owner:
                real["_exit"](refuse(f"os.{name}"))
            return real[name](*arguments, **options)

        return call

    for name in real:
        setattr(os, name, refuse_call(name))
    try:
        yield
    finally:
        watching = False
        for name, function in real.items():
            setattr(os, name, function)
