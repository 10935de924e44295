"""Holds the fix list against experiments: faults that a program shows, and the same without them.

    python -m tests.bench.faults --device cpu --traces build/faults

Each faulty step is captured twice, the second time with Python stacks, and the fix lists of both
traces say what the change would save. The two steps take turns without the profiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import tracekit
from tests.bench.diagnosis.captured import Images
from tracekit.advice.model import Advice
from tracekit.errors import first_line
from tracekit.examine import examine
from tracekit.experiments.timing import Step, interleaved

STEPS, WARMUP = 8, 10
HEADER = (
    "| fault | first of the list | promised | place | with stacks | observed | error |",
    "|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Pair:
    """A step with a fault, one without it, and the remedies that name the change.

    The mended step has `samples` times as many samples. `needs_gpu`: a CPU has no such fault.
    """

    remedies: tuple[str, ...]
    faulty: Step
    mended: Step
    samples: int = 1
    needs_gpu: bool = False


@dataclass(frozen=True)
class Tried:
    """What the fix list promised for a fault, and what was observed, as shares of a step.

    `place` is the promise's place in the list; None: the list does not have it. `with_stacks` is
    the promise of the trace with stacks.
    """

    fault: str
    first: str
    promised: float | None
    place: int | None
    with_stacks: float | None
    observed: float
    faulty_us: float

    @property
    def error(self) -> float | None:
        """The promised saving minus the observed one, in shares of the step."""
        promised = self.with_stacks if self.promised is None else self.promised
        return None if promised is None else promised - self.observed

    def __str__(self) -> str:
        promised, with_stacks = (
            "not in the list" if each is None else f"{each:.1%}"
            for each in (self.promised, self.with_stacks)
        )
        error = "-" if self.error is None else f"{100 * self.error:+.1f} points"
        return (
            f"| {self.fault} | {self.first} | {promised} | {self.place or '-'} | {with_stacks} "
            f"| {self.observed:.1%} | {error} |"
        )


class Faults:
    """The pairs, on `device`; small on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.is_gpu = device, device.type == "cuda"
        self.large = 4096 if self.is_gpu else 256
        torch.manual_seed(0)

    def random(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*sizes, device=self.device, dtype=dtype)

    def pairs(self) -> dict[str, Callable[[], Pair]]:
        return {
            "many small kernels": self.small_kernels,
            "a chain of elementwise operators": self.chain,
            "products in fp32": self.products,
            "training in fp32": self.training,
            "a small batch": self.small_batch,
            "inputs in pageable memory": self.pageable,
            "batches loaded in the process": self.loading,
            "values read in the loop": self.reads,
            "tensors made on the CPU": self.made_on_cpu,
            "a loop over items": self.items,
            "attention by hand": self.attention,
            "an optimizer that steps each parameter": self.optimizer,
            "normalization by hand": self.norms,
            "the same mask in each step": self.mask,
            "gradients set to zero": self.gradients,
        }

    def small_kernels(self) -> Pair:
        model, x = self._layers(24, 256).eval(), self.random(8, 256)

        @torch.no_grad
        def step() -> Tensor:
            return model(x)

        def mended() -> Step:
            from tracekit.workloads.graphs import captured

            return captured(step)

        return Pair(("cuda-graph",), step, mended() if self.is_gpu else step, needs_gpu=True)

    def chain(self) -> Pair:
        x = self.random(self.large, self.large)

        def chain(x: Tensor) -> Tensor:
            for _ in range(6):
                x = torch.tanh(x * 1.01 + 0.1)
            return x

        compiled = torch.compile(chain)
        return Pair(("torch-compile",), lambda: chain(x), lambda: compiled(x))

    def products(self) -> Pair:
        a, b = (self.random(self.large, self.large) for _ in range(2))

        def step(allowed: bool) -> Tensor:
            torch.backends.cuda.matmul.allow_tf32 = allowed
            found = torch.relu(a @ b)
            torch.backends.cuda.matmul.allow_tf32 = False
            return found

        return Pair(("tensor-cores",), lambda: step(False), lambda: step(True), needs_gpu=True)

    def training(self) -> Pair:
        model, x = self._layers(4, self.large // 2), self.random(self.large, self.large // 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

        def step(mixed: bool) -> None:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=mixed):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return Pair(("tensor-cores",), lambda: step(False), lambda: step(True), needs_gpu=True)

    def small_batch(self) -> Pair:
        model = self._layers(24, 256).eval()
        few, many = self.random(8, 256), self.random(64, 256)

        @torch.no_grad
        def step(x: Tensor) -> Tensor:
            return model(x)

        return Pair(("larger-batch",), lambda: step(few), lambda: step(many), samples=8)

    def pageable(self) -> Pair:
        weight = self.random(self.large, self.large)
        batch = torch.randn(self.large, self.large)
        pinned = batch.pin_memory() if self.is_gpu else batch

        def step(x: Tensor) -> Tensor:
            found = x.to(self.device, non_blocking=True)
            for _ in range(4):
                found = found @ weight
            return found

        return Pair(("pinned-copies",), lambda: step(batch), lambda: step(pinned), needs_gpu=True)

    def loading(self) -> Pair:
        model = self._layers(8, 64)

        def loader(workers: int) -> Step:
            batches: Iterator[Tensor] = iter(DataLoader(Images(), 4, num_workers=workers))
            return lambda: model(next(batches).to(self.device))

        return Pair(("dataloader-workers",), loader(0), loader(4))

    def reads(self) -> Pair:
        model, x = self._layers(1, 1024), self.random(1024, 1024)

        @torch.no_grad
        def step(reads: bool) -> float:
            total, found = 0.0, x
            for _ in range(12):
                found = model(found)
                total += found[0, 0].item() if reads else 0.0
            return total

        return Pair(("sync-by-line",), lambda: step(True), lambda: step(False), needs_gpu=True)

    def made_on_cpu(self) -> Pair:
        x = self.random(1024, 1024)

        def step(device: str | torch.device) -> Tensor:
            found = x
            for _ in range(6):
                found = found + torch.zeros(1024, 1024, device=device).to(self.device)
            return found

        return Pair(
            ("create-on-device",), lambda: step("cpu"), lambda: step(self.device), needs_gpu=True
        )

    def items(self) -> Pair:
        model, items = self._layers(1, 256).eval(), self.random(64, 16, 256)

        def step(together: bool) -> list[Tensor]:
            with torch.no_grad():
                return [model(items.flatten(0, 1))] if together else [model(x) for x in items]

        return Pair(("batch-items",), lambda: step(False), lambda: step(True))

    def attention(self) -> Pair:
        sizes = (8, 16, 1024, 64) if self.is_gpu else (1, 2, 128, 64)
        q, k, v = (self.random(*sizes, dtype=torch.bfloat16) for _ in range(3))

        def by_hand() -> Tensor:
            scores = q @ k.transpose(-2, -1) / 8
            return torch.softmax(scores, -1) @ v

        return Pair(
            ("fused-attention",),
            by_hand,
            lambda: functional.scaled_dot_product_attention(q, k, v),
        )

    def optimizer(self) -> Pair:
        def training(**how: bool) -> Step:
            model, x = self._layers(24, 256), self.random(64, 256)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)

            def step() -> None:
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

            return step

        return Pair(("fused-optimizer",), training(foreach=False), training(fused=True))

    def norms(self) -> Pair:
        x = self.random(self.large, self.large, dtype=torch.bfloat16)
        weight = self.random(self.large, dtype=torch.bfloat16)

        def by_hand() -> Tensor:
            wide = x.float()
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return weight * (wide * scale).to(x.dtype)

        return Pair(
            ("fused-norms",), by_hand, lambda: functional.rms_norm(x, weight.shape, weight, 1e-6)
        )

    def mask(self) -> Pair:
        size = self.large // 2
        x = self.random(size, size, dtype=torch.bfloat16)

        def made() -> Tensor:
            ones = torch.ones(size, size, dtype=torch.bool, device=self.device)
            return torch.tril(ones).logical_not()

        kept = made()

        def step(mask: Callable[[], Tensor]) -> Tensor:
            found = x
            for _ in range(4):
                found = (found @ x).masked_fill(mask(), 0.0)
            return found

        return Pair(("mask-again",), lambda: step(made), lambda: step(lambda: kept))

    def gradients(self) -> Pair:
        model, x = self._layers(8, self.large // 2), self.random(64, self.large // 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

        def step(to_none: bool) -> None:
            optimizer.zero_grad(set_to_none=to_none)
            model(x).square().mean().backward()
            optimizer.step()

        return Pair(("zero-grad-to-none",), lambda: step(False), lambda: step(True))

    def _layers(self, count: int, width: int) -> nn.Module:
        layers = [
            each for _ in range(count) for each in (nn.Linear(width, width), nn.ReLU(inplace=True))
        ]
        return nn.Sequential(*layers).to(self.device)


def tried(name: str, pair: Pair, device: torch.device, trace: Path) -> Tried:
    """Captures a pair's faulty step into `trace`, and times both steps."""
    for each in (pair.faulty, pair.mended):
        for _ in range(3):
            each()
    place, promised = None, []
    first = "nothing"
    for stacks in (False, True):
        path = trace.with_name(
            f"{trace.name}-stacks.json.gz" if stacks else f"{trace.name}.json.gz"
        )
        with tracekit.profile(path, STEPS, warmup=WARMUP, stacks=stacks) as profiler:
            for _ in range(WARMUP + 1 + STEPS):
                pair.faulty()
                profiler.step()
        advised = of_list(path)
        wanted = [n for n, each in enumerate(advised) if each.remedy in pair.remedies]
        promised.append(advised[wanted[0]].share if wanted else None)
        if not stacks:
            place = wanted[0] + 1 if wanted else None
            first = next((f"{each.remedy} {each.share:.0%}" for each in advised), "nothing")
    times = interleaved({"faulty": pair.faulty, "mended": pair.mended}, device)
    before, after = times["faulty"].step_ns, times["mended"].step_ns
    ratios = [a / pair.samples / b for a, b in zip(after, before, strict=True)]
    observed = 1 - median(ratios)
    return Tried(name, first, promised[0], place, promised[1], observed, median(before) / 1e3)


def of_list(trace: Path) -> list[Advice]:
    """The fix list of a trace, without one-offs and what has no share."""
    with tracekit.load(trace) as database:
        fixes = examine(database, database.only(None)).fixes
        return [each for each in fixes.advice if each.share is not None] if fixes else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--traces", type=Path, required=True, help="the folder for traces")
    parser.add_argument("--json", type=Path, help="also writes the figures to this file")
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA device; --device cpu runs on the CPU")
    given.traces.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    found, failed = [], 0
    print(*HEADER, sep="\n", flush=True)
    for name, build in Faults(device).pairs().items():
        trace = given.traces / name.replace(" ", "-")
        try:
            pair = build()
            if pair.needs_gpu and device.type != "cuda":
                continue
            found.append(tried(name, pair, device, trace))
            print(found[-1], flush=True)
        except Exception as error:
            failed += 1
            print(f"| {name} | {first_line(error)} |{' - |' * 5}", flush=True)
    errors = [abs(each.error) for each in found if each.error is not None]
    if errors:
        print(f"- promised minus observed: {100 * median(errors):.1f} points in the median")
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in found]), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
