"""Programs whose units of work are known, as traces: a host thread that launches, and a device that
works in order."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tests.kit.traces import gpu_op, launch, operator, slice_event

Event = dict[str, Any]
LAYERS = 6
# A layer of a transformer.
LAYER = (
    "norm",
    "qkv_gemm",
    "rotary",
    "attention",
    "out_gemm",
    "add",
    "up_gemm",
    "act",
    "down_gemm",
)


class Program:
    """A program as it runs. Times are in microseconds, with 10 % of jitter."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.events: list[Event] = []
        self.now = 1_000.0
        self.free = 0.0
        self.calls = 0

    def _about(self, us: float) -> float:
        return round(us * self.rng.uniform(0.9, 1.1), 3)

    def rest(self, us: float) -> None:
        """The host does something else."""
        self.now += self._about(us)

    def kernel(self, name: str, us: float = 20, host_us: float = 8, op: str = "") -> None:
        """An operator that launches a kernel."""
        op = op or f"aten::{name.partition('_')[2].partition('_')[0] or name}"
        begin, took = self.now, self._about(host_us)
        self._launch(name, us, begin + 1, took - 2, "cudaLaunchKernel", "kernel")
        self.events.append(operator(op, begin, took))
        self.now = begin + took + 1

    def copy(self, name: str = "Memcpy HtoD (Pageable -> Device)", us: float = 10) -> None:
        """A copy for which the host waits."""
        begin = self.now
        self._launch(name, us, begin + 1, 5, "cudaMemcpyAsync", "gpu_memcpy")
        self.now = max(begin + 7, self.free + 2)
        self.events.append(operator("aten::copy_", begin, self.now - begin))

    def read(self) -> None:
        """A value is read back."""
        self.copy("Memcpy DtoH (Device -> Pageable)", 2)

    def _launch(
        self, name: str, us: float, at: float, took: float, call: str, category: str
    ) -> None:
        self.calls += 1
        self.events.append(launch(at, took, self.calls, call))
        start = max(self.free, at + 5)
        self.free = start + self._about(us)
        self.events.append(
            gpu_op(start, self.free - start, self.calls, category=category, name=name)
        )

    def kernels(self, names: Iterable[str], us: float = 20, op: str = "") -> None:
        for name in names:
            self.kernel(name, us, op=op)

    def forward(self, tag: str = "", us: float = 20) -> None:
        """The layers of a model between an embedding and a head."""
        self.kernel(f"embedding{tag}", us)
        for _ in range(LAYERS):
            self.kernels((f"{name}{tag}" for name in LAYER), us)
        self.kernels((f"final_norm{tag}", f"head_gemm{tag}"), us)

    def backward(self, tag: str = "") -> None:
        self.kernel(f"loss{tag}")
        for _ in range(LAYERS):
            names = (f"{name}{tag}_backward" for name in reversed(LAYER))
            self.kernels(names, op="autograd::engine::evaluate_function: OpBackward0")

    def optimizer(self, tag: str = "") -> None:
        begin = self.now
        self.kernels(f"adam{tag}_{number}" for number in range(4))
        name = "Optimizer.step#Adam.step"
        self.events.append(slice_event("user_annotation", name, begin, self.now - begin))

    def train(self, passes: int = 1) -> None:
        """A step of training."""
        for _ in range(passes):
            self.copy()
            self.forward()
            self.backward()
        self.optimizer()
        self.rest(50)

    def decode(self, us: float = 6) -> None:
        """Generates a token."""
        self.forward("_decode", us)
        self.kernel("sample", us)
        self.read()
        self.rest(100)

    def prefill(self) -> None:
        """Reads a prompt."""
        self.kernel("embedding_decode", 40)
        for _ in range(LAYERS):
            self.kernels((f"{name}_prefill" for name in LAYER), 60)
        self.kernels(("final_norm_decode", "head_gemm_decode", "sample"), 40)
        self.read()
        self.rest(100)


def gradient_accumulation(run: Program) -> None:
    for _ in range(5):
        run.train(passes=4)


def prefill_and_decodes(run: Program) -> None:
    run.prefill()
    for _ in range(9):
        run.decode()


def mixed_prefills(run: Program) -> None:
    """A server that reads a prompt after every fifth token."""
    for _ in range(4):
        run.prefill()
        for _ in range(5):
            run.decode()


def chunked_prefill(run: Program) -> None:
    for _ in range(4):
        run.prefill()
    for _ in range(12):
        run.decode()


def speculative_decoding(run: Program) -> None:
    """A small model drafts four tokens, which the large one verifies."""
    for _ in range(8):
        for _ in range(4):
            run.kernels((f"draft_{number}" for number in range(6)), 4)
        run.forward("_verify", 10)
        run.kernel("accept", 3)
        run.read()
        run.rest(80)


def training_and_evaluation(run: Program) -> None:
    for _ in range(8):
        run.train()
    for _ in range(6):
        run.copy()
        run.forward("_eval")
        run.read()
        run.rest(60)


def stalling_loader(run: Program) -> None:
    """Each fifth step waits for its batch."""
    for number in range(15):
        if number % 5 == 4:
            run.rest(20_000)
        run.train()


def warm_up(run: Program) -> None:
    """The first three steps take far longer."""
    for number in range(10):
        run.rest(30_000 if number < 3 else 0)
        run.train()


def benchmark_loop(run: Program) -> None:
    """Launches without a gap, and one synchronization."""
    run.rest(11_000)
    for _ in range(149):
        run.kernel("gemm", 60, 4)
    run.events.append(
        slice_event("cuda_runtime", "cudaDeviceSynchronize", run.now, run.free - run.now)
    )


def micro_batches(run: Program) -> None:
    """A pipeline's stage: all forward passes, then all backward passes."""
    for _ in range(4):
        for _ in range(4):
            run.kernel("ncclDevKernel_SendRecv", 30)
            run.forward()
        for _ in range(4):
            run.kernel("ncclDevKernel_SendRecv", 30)
            run.backward()
        run.optimizer()
        run.rest(100)


def single_cold_pass(run: Program) -> None:
    run.copy()
    for number, name in enumerate(("embedding", *LAYER)):
        run.kernel(name, 20, 9_000 if number < 6 else 8)
    for _ in range(LAYERS - 1):
        run.kernels(LAYER)
    run.kernels(("final_norm", "head_gemm"))
    run.read()


def retried_step(run: Program) -> None:
    """One step runs out of memory in the backward pass, and is done again."""
    for number in range(8):
        if number == 4:
            run.copy()
            run.forward()
            run.rest(5_000)
        run.train()


def two_threads(run: Program) -> None:
    """Two threads that serve requests, each at its own pace and on its own stream."""
    for _ in range(9):
        run.decode()
    other = Program(run.rng.randrange(100))
    for _ in range(7):
        other.prefill()
    for event in other.events:
        args = event.get("args", {})
        if "correlation" in args:
            args["correlation"] += run.calls
        event["tid"] = 8 if event["pid"] != event["tid"] else event["tid"] + 1
        args["stream"] = 8
    run.events += other.events


def two_models(run: Program) -> None:
    """Two models in turn, as of a GAN."""
    for _ in range(7):
        for tag in ("_generator", "_discriminator"):
            run.forward(tag)
            run.backward(tag)
            run.optimizer(tag)
        run.rest(60)
