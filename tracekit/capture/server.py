"""Traces of a running inference server, through its endpoints /start_profile and /stop_profile.

vLLM has them if it was started with a folder for traces, takes no number of steps, and answers
/stop_profile once the traces are written, minutes later, or not at all
(https://docs.vllm.ai/en/latest/contributing/profiling/,
https://github.com/vllm-project/vllm/issues/22748). SGLang takes the folder and the number of steps,
and then stops by itself (https://docs.sglang.io/developer_guide/benchmark_and_profiling.html).
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from tracekit.errors import StorageError, TracekitError
from tracekit.text import shown
from tracekit.trace.beside import CAPTURES
from tracekit.trace.paths import endings
from tracekit.trace.source import open_streams
from tracekit.trace.web import ask

_START_S = 60
# The number of characters of a server's answer to show.
_SAID = 200
_POLL_S = 0.2
# Ranks write at about the same time: if nothing is new for this long, all traces exist. The second
# number applies if the server does not answer /stop_profile.
_SETTLED_S, _UNANSWERED_S = 3, 60
_NEEDS = (
    'start vLLM with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "FOLDER"}\' '
    "(before 0.13: VLLM_TORCH_PROFILER_DIR=FOLDER)"
)
_State = dict[Path, tuple[int, int]]


class Server(Struct, frozen=True):
    """A server, and the folder that it writes its traces to, as both machines see it."""

    url: str
    folder: Path

    def capture(
        self, steps: int, seconds: float, timeout_s: float, *, stacks: bool, shapes: bool
    ) -> list[Path]:
        """Profiles the server while it answers other clients' requests; returns the traces, one per
        rank, and those of graph captures.

        The server stops after `steps` steps if it can count them; otherwise tracekit stops it
        after `seconds`.

        Raises:
            TracekitError: when it cannot be profiled, or the traces are not complete after
                `timeout_s`.
        """
        before = _state(self.folder)
        body = {
            "output_dir": str(self.folder.absolute()), "num_steps": steps,
            "activities": ["CPU", "GPU"], "with_stack": stacks, "record_shapes": shapes,
        }  # fmt: skip
        self._start(body, timeout_s)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._new(before):
            time.sleep(min(_POLL_S, seconds))
        stopping = threading.Thread(target=self._stop, args=(timeout_s,), daemon=True)
        stopping.start()
        traces = self._whole(before, stopping, time.monotonic() + timeout_s)
        captures = self.folder / CAPTURES
        return traces + sorted(path for path in _state(captures) if path not in traces)

    def _start(self, body: dict[str, Any], timeout_s: float) -> None:
        status, message = ask(self.url, "start_profile", min(_START_S, timeout_s), body)
        if status == 404 or "not enabled" in message:
            raise self._failed(f"was started without its profiler: {_NEEDS}")
        if status >= 400:
            raise self._failed(f"cannot start its profiler: {status} {message[:_SAID]}")

    def _stop(self, timeout_s: float) -> None:
        # A server that has stopped by itself answers with an error; the traces show what happened.
        with suppress(StorageError):
            ask(self.url, "stop_profile", timeout_s, {})

    def _whole(self, before: _State, stopping: threading.Thread, end: float) -> list[Path]:
        """The new traces, once all are complete and nothing more is written."""
        last, since = self._new(before), time.monotonic()
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            traces = self._new(before)
            if traces != last:
                last, since = traces, time.monotonic()
            quiet_s = _UNANSWERED_S if stopping.is_alive() else _SETTLED_S
            is_settled = time.monotonic() - since > quiet_s
            if is_settled and traces and all(map(_is_whole, traces)):
                return sorted(traces)
            if is_settled and (gone := self._gone(max(_POLL_S, end - time.monotonic()))):
                what = ", ".join(path.name for path in sorted(traces)) or "any trace"
                raise self._failed(f"ended before it had written {what}: {gone}")
        cut = ", ".join(path.name for path in sorted(last))
        if cut:
            raise self._failed(f"has not finished writing {cut}: wait, or allow more --timeout")
        raise self._failed(
            f"wrote no trace into {self.folder}: pass its output folder (vLLM's "
            "torch_profiler_dir) with -o, as this machine sees it"
        )

    def _gone(self, timeout_s: float) -> str | None:
        """Why the server no longer answers."""
        try:
            ask(self.url, "health", timeout_s)
        except StorageError as error:
            return str(error).removeprefix(f"{shown(self.url)}: ")
        return None

    def _new(self, before: _State) -> _State:
        return {
            path: state for path, state in _state(self.folder).items() if before.get(path) != state
        }

    def _failed(self, why: str) -> TracekitError:
        return TracekitError(f"{shown(self.url)}: {why}")


def _state(folder: Path) -> _State:
    """The traces below a folder, with their sizes and times."""
    by_path: _State = {}
    for path in folder.rglob("*"):
        # A file may be renamed at any time.
        with suppress(OSError):
            if path.name.endswith(endings()) and path.is_file():
                state = path.stat()
                by_path[path] = state.st_size, state.st_mtime_ns
    return by_path


def _is_whole(path: Path) -> bool:
    """Whether a trace is complete up to its last bracket."""
    tail = b""
    try:
        for stream in open_streams(str(path)):
            if isinstance(stream, TracekitError):
                return False
            with stream:
                for chunk in iter(stream.read, b""):
                    tail = (tail + chunk).rstrip()[-1:] or tail
                if stream.damage:
                    return False
    except TracekitError:
        return False
    return tail in (b"}", b"]")
