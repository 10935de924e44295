"""Simulated servers: engines with their GPUs, and the front end that answers, on one clock.

Clients send the next request once they have read the whole answer to the last one. Without a fault,
the same server gives the truth that a price is compared with.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.atoms import MS, US

_LOOP = "uvloop/__init__.py(48): run"
_BUSY_LOOP = "vllm/v1/engine/core.py(1200): run_busy_loop"
_INPUT = "vllm/v1/engine/core.py(1230): _process_input_queue"
_FRONT, _ENGINE = 900, 100


@dataclass(frozen=True)
class Server:
    """A server with as many engines as `requests` has numbers: the clients of each."""

    requests: tuple[int, ...] = (8,)
    answers: int = 3
    """How many answers each client reads."""
    tokens: int = 12
    """The tokens of an answer."""
    decode_ns: int = 4 * MS
    per_request_ns: int = 0
    """By how much each request lengthens a decode."""
    scheduling_ns: int = 300 * US
    is_overlapped: bool = False
    """Whether the engine schedules while the device works."""
    handling_ns: int = 50 * US
    """The front end's work on one token of one request, most of it detokenizing."""
    request_ns: int = 200 * US
    """Its work on a new request: reading and tokenizing it."""
    in_rounds: bool = False
    """Whether clients send their next requests together, once all have read their answers."""
    has_stacks: bool = True
    """Whether the engines' Python was recorded."""


@dataclass
class Recorded:
    """A process's events, in ns."""

    pid: int
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, category: str, name: str, start: int, end: int, **args: Any) -> None:
        tid = args.pop("tid", self.pid)
        self.events.append({
            "ph": "X", "cat": category, "name": name, "pid": args.pop("pid", self.pid), "tid": tid,
            "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
        })  # fmt: skip

    def frame(self, name: str, start: int, end: int) -> None:
        if end > start:
            self.add("python_function", name, start, end)


@dataclass(frozen=True, order=True)
class Message:
    """What reaches the front end: the requests of new clients, or a token for each of some."""

    at: int
    order: int
    engine: int
    clients: tuple[int, ...]
    ended: tuple[int, ...] = ()
    """The clients whose last token it has."""
    is_new: bool = False


class ServerRun:
    """One run of a server; `span_ns` is from its first step to the end of its last one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        numbers = range(len(server.requests))
        self.front = Recorded(_FRONT)
        self.engines = [Recorded(_ENGINE + number) for number in numbers]
        self.free = [0 for _ in numbers]
        self.busy_until = self.correlation = self.begins = 0
        self.queue: list[Message] = []
        self.left = [[server.answers] * count for count in server.requests]
        # Of each engine, the tokens left of each client, and when requests have reached it.
        self.running: list[dict[int, int]] = [{} for _ in numbers]
        self.waiting: list[list[tuple[int, int]]] = [[] for _ in numbers]
        self.sent = 0
        self.read: list[list[int]] = [[] for _ in numbers]
        for engine, count in enumerate(server.requests):
            for client in range(count):
                self._send(0, engine, (client,), is_new=True)
        while self.queue or any(self.waiting) or any(self.running):
            self._go_on()
        self.span_ns = max(self.free) - self.begins
        end = max(self.busy_until, *self.free)
        self.front.frame(_LOOP, 0, end)
        for number, engine in enumerate(self.engines):
            self._wait(number, self.free[number], end)
            if server.has_stacks:
                engine.frame(_BUSY_LOOP, 0, end)

    def _send(self, at: int, engine: int, clients: tuple[int, ...], **more: Any) -> None:
        self.sent += 1
        heapq.heappush(self.queue, Message(at, self.sent, engine, clients, **more))

    def _go_on(self) -> None:
        """Lets the process run that begins next."""
        ready = [n for n, _ in enumerate(self.engines) if self.waiting[n] or self.running[n]]
        engine = min(ready, key=self._begins, default=None)
        begins = max(self.queue[0].at, self.busy_until) if self.queue else None
        if engine is None or (begins is not None and begins <= self._begins(engine)):
            self._handle(heapq.heappop(self.queue))
        else:
            self._step(engine)

    def _begins(self, engine: int) -> int:
        arrived = 0 if self.running[engine] else min(at for at, _ in self.waiting[engine])
        return max(self.free[engine], arrived)

    # -- the front end

    def _handle(self, message: Message) -> None:
        now, engine = max(message.at, self.busy_until), message.engine
        for client in message.clients:
            if message.is_new:
                now = self._tokenize(now)
                self.left[engine][client] -= 1
                self.waiting[engine].append((now, client))
                continue
            now = self._answer(now)
            if client in message.ended and self.left[engine][client]:
                self._read(now, engine, client)
        self.busy_until = now

    def _read(self, now: int, engine: int, client: int) -> None:
        """A client has read its answer."""
        self.read[engine].append(client)
        if not self.server.in_rounds or len(self.read[engine]) == self.server.requests[engine]:
            self._send(now, engine, tuple(self.read[engine]), is_new=True)
            self.read[engine] = []

    def _answer(self, begin: int) -> int:
        ns = self.server.handling_ns
        end = begin + ns
        self.front.frame("vllm/v1/engine/async_llm.py(640): output_handler", begin, end)
        self.front.frame("vllm/v1/engine/detokenizer.py(120): update", begin, begin + ns * 7 // 10)
        self.front.frame("starlette/responses.py(250): stream_response", end - ns // 5, end)
        return end

    def _tokenize(self, begin: int) -> int:
        end = begin + self.server.request_ns
        self.front.frame("vllm/v1/engine/input_processor.py(300): process_inputs", begin, end)
        return end

    # -- an engine

    def _wait(self, engine: int, begin: int, end: int) -> None:
        if self.server.has_stacks:
            self.engines[engine].frame(_INPUT, begin, end)
            self.engines[engine].frame("queue.py(154): get", begin, end)

    def _step(self, number: int) -> None:
        """The engine schedules what has arrived, and decodes a token of each request."""
        server, trace, running = self.server, self.engines[number], self.running[number]
        begin = self._begins(number)
        self._wait(number, self.free[number], begin)
        for arrived in [each for each in self.waiting[number] if each[0] <= begin]:
            self.waiting[number].remove(arrived)
            running[arrived[1]] = server.tokens
        count = len(running)
        now = begin if server.is_overlapped else self._schedule(trace, begin)
        launched = now + 20 * US
        kernel = launched + 2 * US
        end = kernel + server.decode_ns + server.per_request_ns * count
        self.begins = self.begins or now
        self.correlation += 1
        linked = {"correlation": self.correlation}
        trace.add("cuda_runtime", "cudaGraphLaunch", now + 10 * US, launched, **linked)
        of = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
        trace.add("kernel", "void paged_attention_v1_kernel<bf16>", kernel, end, **of, **linked)
        waits = self._schedule(trace, launched) if server.is_overlapped else launched
        done = max(end, waits) + 3 * US
        trace.add("cuda_runtime", "cudaStreamSynchronize", waits, done, correlation=0)
        step = f"execute_{count}_context_0(sq0sk0)_generation_{count}(sq{count}sk{900 * count})"
        trace.add("user_annotation", step, now, done)
        if server.has_stacks:
            trace.frame("vllm/v1/worker/gpu_worker.py(700): execute_model", now, done)
        self.free[number] = done
        ended = tuple(client for client, left in running.items() if left == 1)
        self._send(done, number, tuple(running), ended=ended)
        self.running[number] = {each: left - 1 for each, left in running.items() if left > 1}

    def _schedule(self, trace: Recorded, begin: int) -> int:
        end = begin + self.server.scheduling_ns
        if self.server.has_stacks:
            trace.frame("vllm/v1/core/sched/scheduler.py(350): schedule", begin, end)
        return end


def write_server(folder: Path, server: Server) -> ServerRun:
    """Runs it, and writes the traces of the front end and the engines into a folder."""
    run = ServerRun(server)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"host_{_FRONT}.async_llm.1.pt.trace.json", run.front, {})
    for number, engine in enumerate(run.engines):
        distributed = {"distributedInfo": {"rank": number, "world_size": len(run.engines)}}
        _write(folder / f"host_{engine.pid}.rank-{number}.1.pt.trace.json", engine, distributed)
    return run


def _write(path: Path, recorded: Recorded, more: dict[str, Any]) -> None:
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}
    gpus = {"deviceProperties": [device]} if more else {}
    document = {"schemaVersion": 1, "with_stack": 1, **gpus, **more, "traceEvents": recorded.events}
    path.write_text(json.dumps(document))
