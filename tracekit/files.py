"""Safe output files: written completely or not at all, by one writer at a time, with cleanup."""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from tracekit.errors import TracekitError, explained

# The prefix of temporary folders' names.
TEMPORARY = "tracekit-temp-"
_LOCK = ".lock"
# On Windows, st_uid is always 0.
_USER = os.getuid() if hasattr(os, "getuid") else 0
# A work folder without a lock is abandoned once it is this old.
_ABANDONED_S = 60
# Paths of files that this process has open.
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")
# The work folders that this process or, after a fork, its parent made.
_made: dict[tuple[int, Path], FileLock] = {}
# The interval at which a waiting writer checks the lock.
_POLL_S = 0.05


@contextmanager
def written_whole(
    output: str | Path, inputs: Iterable[str | Path] = (), *, resumes: bool = False
) -> Iterator[Path]:
    """A temporary path beside `output` to write to; it replaces `output` when the block succeeds.
    With `resumes` it is OUTPUT.partial, which stays when the block fails.

    Raises:
        TracekitError: when `output` cannot be written, or is one of `inputs`.
    """
    target = _checked(output, inputs)
    partial = target.with_name(f"{target.name}.partial")
    if resumes and (partial.is_symlink() or (partial.exists() and not partial.is_file())):
        raise TracekitError(f"{output}: cannot be written: {partial.name} is not an ordinary file")
    if resumes:
        require_no_input(partial, inputs)
        folder: AbstractContextManager[Path] = nullcontext(target.parent)
    else:
        folder = work_folder(target.parent, f".{target.name}.tracekit-")
    with writing_to(output), folder as place:
        beside = partial if resumes else place / target.name
        try:
            yield beside
        except TracekitError as error:
            if not resumes:
                names = str(beside), str(output)
                error.args = tuple(str(argument).replace(*names) for argument in error.args)
            raise
        beside.replace(target)


def require_unlinked(path: Path, given: str | Path) -> Path:
    """Checks that no part of `path` below `given` is a link; returns the path.

    Links in a path that the user gives are intended. A link under a name that tracekit chooses,
    such as .tracekit in a checkout, may be anyone's and could redirect writes.

    Raises:
        TracekitError: when a part is a link.
    """
    parts = path.relative_to(given).parts
    for count in range(len(parts)):
        place = Path(given, *parts[: count + 1])
        if place.is_symlink():
            raise TracekitError(
                f"{place} is a link, and tracekit does not write through links: remove it"
            )
    return path


def named_or_own(output: str | None, own: str | Path) -> str:
    """The file that the user named, or tracekit's default.

    Raises:
        TracekitError: when the default is a link.
    """
    return output or str(require_unlinked(Path(own), Path(own).parent))


@contextmanager
def sole_writer(
    output: str | Path,
    on_wait: Callable[[], object] | None = None,
    inputs: Iterable[str | Path] = (),
) -> Iterator[None]:
    """Locks `output` against other writers while the block runs.

    If another process has the lock, this calls `on_wait` and waits. The system releases a dead
    process's lock. Readers do not need the lock.

    Raises:
        TracekitError: when `output` cannot be written, or is one of `inputs`.
    """
    target = _checked(output, inputs)
    path = target.with_name(f".{target.name}{_LOCK}")
    # FileLock would create the folder and truncate the file.
    require_writable(output)
    require_no_input(path, inputs)
    lock = FileLock(path, poll_interval=_POLL_S)
    with writing_to(output):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            lock.acquire()
    try:
        yield
    finally:
        # Remove the file before the lock is released: a waiting process makes a new one.
        with suppress(OSError):
            path.unlink()
        lock.release()


@contextmanager
def work_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder from `lasting_folder`, removed after the block."""
    folder = lasting_folder(parent, prefix)
    try:
        yield folder
    finally:
        # A forked child must not remove its parent's folder.
        if lock := _made.get((os.getpid(), folder)):
            try:
                _remove(folder, lock)
            except KeyboardInterrupt:
                _remove(folder, lock)
                raise


def temporary_folder(parent: str | Path | None = None) -> AbstractContextManager[Path]:
    """A work folder in `parent`, by default the system's temporary directory. If the process is
    killed, a later one removes the folder, so tracekit makes no other temporary folders."""
    return work_folder(Path(parent or tempfile.gettempdir()), TEMPORARY)


def process_folder(parent: str | Path | None = None, prefix: str = TEMPORARY) -> Path:
    """The one temporary folder of this process in `parent`, removed when the process ends.

    Raises:
        TracekitError: when the folder cannot be made.
    """
    return _process_folder(Path(parent or tempfile.gettempdir()), prefix, os.getpid())


@cache
def _process_folder(parent: Path, prefix: str, process: int) -> Path:
    with explained(f"{parent}: cannot make a temporary folder there", OSError):
        return lasting_folder(parent, prefix)


def lasting_folder(parent: Path, prefix: str) -> Path:
    """A private folder in `parent` with an unpredictable name, removed when this process ends.

    First removes folders with the same prefix that dead processes left behind.
    """
    remove_abandoned(parent, prefix)
    folder = parent.absolute() / f"{prefix}{uuid.uuid4().hex[:12]}"
    # Another thread may remove it.
    lock = FileLock(folder / _LOCK, thread_local=False)
    # Recorded before the folder exists, since an interrupt may come at any moment.
    _made[os.getpid(), folder] = lock
    while True:
        folder.mkdir(mode=0o700)
        # Another process may consider it abandoned in the moment before it is locked.
        with suppress(FileNotFoundError):
            lock.acquire()
            return folder


@atexit.register
def _remove_made() -> None:
    for (process, folder), lock in list(_made.items()):
        if process == os.getpid():
            _remove(folder, lock)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Removes the work folders with this prefix whose processes are gone."""
    for folder in parent.glob(glob.escape(prefix) + "*"):
        with suppress(OSError, Timeout):
            folder_status, lock = folder.lstat(), folder / _LOCK
            is_own_folder = stat.S_ISDIR(folder_status.st_mode) and folder_status.st_uid == _USER
            if is_own_folder and (
                lock.exists() or time.time() - folder_status.st_mtime >= _ABANDONED_S
            ):
                _remove(folder, FileLock(lock).acquire(timeout=0).lock)


def own_cache() -> Path | None:
    """The user's cache folder, which only this user can write to; None: no such folder.

    Use a file in it only if `is_own` is true: another user may have put it there earlier.
    """
    try:
        folder = user_cache_path("tracekit")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == _USER:
            folder.chmod(0o700)
        return folder if is_own(folder) else None
    except (OSError, RuntimeError):
        return None


def is_own(path: Path) -> bool:
    """Whether the file exists and only this user can have written it. On Windows, user folders are
    private."""
    try:
        status = path.stat()
    except OSError:
        return False
    # A hard link may refer to any of the user's files.
    is_linked = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return os.name == "nt" or (
        status.st_uid == _USER and not status.st_mode & 0o022 and not is_linked
    )


def _remove(folder: Path, lock: FileLock) -> None:
    lock.release()
    shutil.rmtree(folder, ignore_errors=True)
    _made.pop((os.getpid(), folder), None)


def is_standard_output(output: str | Path) -> bool:
    """Whether this is -, /dev/stdout or another path to the device of standard output."""
    if str(output) == "-":
        return True
    with suppress(OSError, ValueError):
        return is_device(output) and os.path.samestat(Path(output).stat(), os.fstat(1))
    return False


def is_device(output: str | Path) -> bool:
    """Whether this is -, a pipe, a terminal or a path such as /dev/stdout, which another file
    cannot replace."""
    path = Path(output)
    if str(output) == "-" or str(path).startswith(_STREAMS):
        return True
    with suppress(OSError, ValueError):
        return path.exists() and not path.is_file() and not path.is_dir()
    return False


def require_writable(output: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Checks before long work that `output` can be written and is not one of `inputs`.

    Raises:
        TracekitError: when it cannot be written, or is one of them.
    """
    folder = _checked(output, inputs).parent
    if not os.access(folder, os.W_OK):
        reason = "the directory cannot be written to" if folder.is_dir() else "no such directory"
        raise TracekitError(f"{output}: cannot be written: {reason}")


def require_no_input(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Checks that `output` is not one of `inputs` under another name. A link counts as its target,
    and - is standard input or output.

    Raises:
        TracekitError: when it is one of them.
    """
    target = _state(output, 1)
    if target is None or not stat.S_ISREG(target.st_mode):
        return
    for input_path in inputs:
        state = _state(input_path, 0)
        if state is not None and os.path.samestat(target, state):
            raise TracekitError(f"{output} is also an input; write to another file")


def _state(file: str | Path, standard: int) -> os.stat_result | None:
    try:
        return os.fstat(standard) if str(file) == "-" else Path(file).stat()
    except (OSError, ValueError):
        return None


def _checked(output: str | Path, inputs: Iterable[str | Path]) -> Path:
    try:
        target = Path(output).resolve()
        if target.is_dir():
            raise TracekitError(f"{output} is a directory, not a file")
        if is_device(output) or (target.exists() and not target.is_file()):
            raise TracekitError(f"{output} is not an ordinary file")
    except (OSError, RuntimeError, ValueError) as error:
        # A loop of links, a name that is too long, or a name with a zero byte.
        reason = getattr(error, "strerror", None) or "the path is not valid"
        raise TracekitError(f"{output}: cannot be written: {reason}") from error
    require_no_input(output, inputs)
    return target


def writing_to(output: str | Path) -> AbstractContextManager[None]:
    """Raises a TracekitError in place of an OSError: `output` cannot be written."""
    return explained(f"{output}: cannot be written", OSError)
