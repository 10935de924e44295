"""A simulator of host threads and a device, which gives traces with a known ground truth.

A program is a sequence of atoms, which a thread executes one after another. It can run unchanged
and with a change: a replay of the first run's trace must predict the second run. The machine
follows the CUDA programming guide (streams, events, synchronization). Its launch queue has a
limited depth, and its latencies are drawn from a seed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.kit.atoms import (
    MS,
    NAMES,
    BlockingCopy,
    Border,
    Call,
    Change,
    Fetch,
    Freed,
    HandOver,
    Launch,
    Op,
    Poll,
    Slice,
    StreamWait,
    Sync,
    Work,
)

HOST, MAIN, WORKER = 4100, 4100, 4200


@dataclass(frozen=True)
class Machine:
    """The device's delays for launches, gaps and synchronization: the bounds of random draws."""

    latency_ns: tuple[int, int] = (1_200, 2_600)
    gap_ns: tuple[int, int] = (700, 1_300)
    return_ns: tuple[int, int] = (2_000, 5_000)
    wait_ns: tuple[int, int] = (700, 1_300)
    queue_limit: int = 1_024
    room_ns: int = 1_500
    """From the start of the op that makes room in a full queue to the return of the call that waits
    for it; negative: the call returns while the device goes from the op before to that one."""
    overhead_ns: int = 0
    """The profiler's cost for each operator that it records."""
    records_waits: bool = False
    """Whether the trace records event waits with their streams (cuda_sync)."""


@dataclass
class _Thread:
    tid: int
    now: int


class Simulation:
    """One run of a program. Iterate over `events()`, then read `span_ns`."""

    def __init__(
        self,
        atoms: Iterable[Any],
        machine: Machine | None = None,
        change: Change | None = None,
        seed: int = 0,
        collective: Callable[[int], int] | None = None,
    ) -> None:
        self.machine = machine or Machine()
        self.change = change or Change()
        self.atoms = atoms
        self.rng = random.Random(seed)
        self.collective = collective
        self.streams: dict[int, int] = {}
        self.pending: dict[int, int] = {}
        self.starts: dict[int, deque[int]] = {}
        self.correlation = 0
        self.graphs: dict[str, int] = {}
        self.ready: list[int] = []
        self.taken: list[int] = []
        self.first_op: int | None = None
        self.last_op = 0
        self.last_work = 0
        self.free = False
        self.recorded: list[dict[str, Any]] = []
        self.op: Op | None = None
        """The launched op: a collective's arguments show which ranks it meets."""

    @property
    def span_ns(self) -> int:
        """The time from the first op's start to the last end of an op, in ns."""
        return self.last_op - (self.first_op or 0)

    @property
    def worked_ns(self) -> int:
        """The time until the host's last work that is no wait, in ns."""
        return self.last_work - 1 * MS

    def events(self) -> Iterator[dict[str, Any]]:
        """The trace's events. Times are integer ns."""
        yield from self._sequence(self.atoms, _Thread(MAIN, 1 * MS))

    # The draws do not depend on the change: runs with the same seed differ only by the change.
    def _draw(self, bounds: tuple[int, int]) -> int:
        return self.rng.randint(*bounds)

    def _sequence(self, atoms: Iterable[Any], thread: _Thread) -> Iterator[dict[str, Any]]:
        for atom in atoms:
            yield from self._do(atom, thread)

    def _do(self, atom: Any, thread: _Thread) -> Iterator[dict[str, Any]]:
        match atom:
            case Work(ns, cause):
                thread.now += self._host(cause, ns)
                self.last_work = thread.now if cause != "wait" else self.last_work
            case Slice(name, category, atoms, args):
                begin = thread.now
                if category == "cpu_op":
                    thread.now += self._host("dispatch", self.machine.overhead_ns)
                yield from self._sequence(atoms, thread)
                yield _slice(category, name, thread.tid, begin, thread.now, **args)
            case Call(name, ns, cause):
                yield self._call(name, thread, self._host(cause, ns))
            case Launch():
                yield from self._launch(atom, thread)
            case BlockingCopy():
                yield from self._blocking_copy(atom, thread)
            case Sync():
                yield from self._sync(atom, thread)
            case Poll():
                self._poll(atom, thread)
            case StreamWait():
                yield from self._stream_wait(atom, thread)
            case Fetch():
                yield self._fetch(atom, thread)
            case HandOver(atoms):
                worker = _Thread(WORKER, thread.now)
                yield from self._sequence(atoms, worker)
                thread.now = worker.now
            case Border():
                self.free = False
            case Freed(free):
                self.free = free and self.change.cuda_graph

    def _host(self, cause: str, ns: int) -> int:
        if self.free and cause in ("launch", "dispatch", "python"):
            return 0
        return self.change.host_ns(cause, ns)

    def _call(self, name: str, thread: _Thread, ns: int) -> dict[str, Any]:
        begin, thread.now = thread.now, thread.now + ns
        return self._called(name, thread, begin)

    def _called(self, name: str, thread: _Thread, begin: int) -> dict[str, Any]:
        """The runtime call that began then and ends now."""
        self.correlation += 1
        times = begin, thread.now
        return _slice("cuda_runtime", name, thread.tid, *times, correlation=self.correlation)

    def _launch(self, launch: Launch, thread: _Thread) -> Iterator[dict[str, Any]]:
        begin = thread.now
        thread.now += self._host("launch", launch.ns)
        waiting = self.starts.setdefault(launch.stream, deque(maxlen=self.machine.queue_limit))
        if len(waiting) == self.machine.queue_limit and not self.change.cuda_graph:
            thread.now = max(thread.now, waiting[0] + self.machine.room_ns)
        number = self.graphs.setdefault(str(launch.kernels), len(self.graphs) + 1)
        graph = {"graph id": number} if len(launch.kernels) > 1 else {}
        yield self._called(launch.name, thread, begin)
        latency = self._draw(self.machine.latency_ns)
        first = None
        lanes = launch.lanes or (launch.stream,)
        if launch.lanes:
            free = max(self.streams.get(launch.stream, 0), self.pending.pop(launch.stream, 0))
            self.pending |= dict.fromkeys(lanes, free)
        for number, each in enumerate(launch.kernels):
            op = self.op = each if isinstance(each, Op) else Op(*each, NAMES[each[0]])
            lane = lanes[number % len(lanes)]
            start, end = self._run(lane, thread.now + latency, op.cause, op.ns)
            first = start if first is None else first
            yield _op(op.cause, lane, start, end, self.correlation, op.name, **graph, **op.args)
        self.streams[launch.stream] = max(self.streams[lane] for lane in lanes)
        waiting.append(first or 0)

    def _run(self, stream: int, ready: int, cause: str, ns: int) -> tuple[int, int]:
        gap = self._draw(self.machine.gap_ns)
        start = ready
        if stream in self.streams:
            start = max(start, self.streams[stream] + gap)
        start = max(start, self.pending.pop(stream, 0))
        length = self.change.op_ns(cause, ns)
        end = start + length
        if cause == "communication" and self.collective is not None:
            end = self.collective(start) + length
        self.streams[stream] = end
        self.first_op = start if self.first_op is None else min(self.first_op, start)
        self.last_op = max(self.last_op, end)
        return start, end

    def _blocking_copy(self, copy: BlockingCopy, thread: _Thread) -> Iterator[dict[str, Any]]:
        begin = thread.now
        latency = self._draw(self.machine.latency_ns)
        back = self._draw(self.machine.return_ns)
        thread.now += self._host("copy", copy.staging_ns)
        start, end = self._run(copy.stream, thread.now + latency, "copy", copy.ns)
        if self.change.waits("copy"):
            thread.now = max(thread.now, end + self.change.host_ns("copy", back))
        yield self._called("cudaMemcpyAsync", thread, begin)
        args = {} if copy.bytes is None else {"bytes": copy.bytes}
        yield _op("copy", copy.stream, start, end, self.correlation, copy.name, **args)

    def _sync(self, sync: Sync, thread: _Thread) -> Iterator[dict[str, Any]]:
        back = self._draw(self.machine.return_ns)
        begin = thread.now
        thread.now += self._host("sync", sync.own_ns)
        ends = [end for stream, end in self.streams.items() if sync.stream in (None, stream)]
        if ends and self.change.waits("sync"):
            back = round(back * self.change.causes.get("sync", 1.0))
            thread.now = max(thread.now, max(ends) + back)
        name = "cudaDeviceSynchronize" if sync.stream is None else "cudaStreamSynchronize"
        yield self._called(name, thread, begin)
        if sync.stream is not None:
            yield self._waited("Stream Sync", sync.stream, begin, thread.now)

    def _poll(self, poll: Poll, thread: _Thread) -> None:
        turn = self._draw((0, poll.turn_ns))
        thread.now += self._host("python", poll.own_ns)
        if poll.stream in self.streams:
            done = self.streams[poll.stream] - self.change.op_ns("math-or-memory", poll.early_ns)
            thread.now = max(thread.now, done + turn)

    def _stream_wait(self, wait: StreamWait, thread: _Thread) -> Iterator[dict[str, Any]]:
        lag = self._draw(self.machine.wait_ns)
        yield self._call("cudaEventRecord", thread, self._host("launch", wait.ns))
        record = self.correlation
        begin = thread.now
        yield self._call("cudaStreamWaitEvent", thread, self._host("launch", wait.ns))
        if wait.record in self.streams:
            until = self.streams[wait.record] + lag
            self.pending[wait.wait] = max(self.pending.get(wait.wait, 0), until)
        if self.machine.records_waits:
            on = {"wait_on_stream": wait.record, "wait_on_cuda_event_record_corr_id": record}
            yield self._waited("Stream Wait Event", wait.wait, begin, thread.now, **on)

    def _waited(self, name: str, stream: int, begin: int, end: int, **on: int) -> dict[str, Any]:
        args = {"stream": stream, **on, "device": 0, "correlation": self.correlation}
        place = {"cat": "cuda_sync", "name": name, "pid": 0, "tid": stream}
        return place | {"begin": begin, "end": end, "args": args}

    def _fetch(self, fetch: Fetch, thread: _Thread) -> dict[str, Any]:
        begin = thread.now
        number = len(self.ready)
        free = self.ready[-1] if self.ready else 0
        if number >= fetch.ahead:
            free = max(free, self.taken[number - fetch.ahead])
        self.ready.append(free + self.change.host_ns("input", fetch.load_ns))
        thread.now += self._host("input", fetch.own_ns)
        thread.now = max(thread.now, self.ready[-1])
        self.taken.append(thread.now)
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        return _slice("user_annotation", name, thread.tid, begin, thread.now)


def trace_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event as Kineto writes it, in microseconds with three decimals."""
    return {
        "ph": "X", "cat": event["cat"], "name": event["name"], "pid": event["pid"],
        "tid": event["tid"], "ts": event["begin"] / 1000,
        "dur": (event["end"] - event["begin"]) / 1000, "args": event["args"],
    }  # fmt: skip


def _slice(category: str, name: str, tid: int, begin: int, end: int, **args: Any) -> dict[str, Any]:
    return {
        "cat": category, "name": name, "pid": HOST, "tid": tid, "begin": begin, "end": end,
        "args": args,
    }  # fmt: skip


def _op(
    cause: str, stream: int, begin: int, end: int, correlation: int, name: str, **more: Any
) -> dict[str, Any]:
    category = "gpu_memcpy" if cause == "copy" else "kernel"
    if name.startswith("Memset"):
        category = "gpu_memset"
    args = {"device": 0, "stream": stream, "correlation": correlation, **more}
    place = {"cat": category, "name": name, "pid": 0, "tid": stream}
    return place | {"begin": begin, "end": end, "args": args}
