"""Work and rates of twenty kernels by their shapes, beside what the device's counters say.

    python -m tests.bench.counted_kernels record cuda FOLDER
    python -m tests.bench.counted_kernels table FOLDER

`record` records each kernel once with tracekit, and once under ncu; it analyzes nothing. `table`
needs no GPU. Rates are of each recording's own time.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import tracekit
from tests.bench.gpu_check import find_tool
from tests.bench.measuring import ROOT, head, line
from tests.bench.programs.registry import Sized

# As the clocks are, so that rates compare with those of the other recording.
NCU = (
    "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw",
    "--print-units", "base",
)  # fmt: skip
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
# FLOPs: of products on tensor cores, and of fp32 instructions, of which a fused one is two.
FLOPS = {
    f"sm__ops_path_tensor_src_{each}_dst_fp32.sum": 1 for each in ("bf16", "fp16", "tf32")
} | {
    f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum": count
    for name, count in (("fadd", 1), ("fmul", 1), ("ffma", 2))
}  # fmt: skip
# Without names that differ between devices.
SURE = (TIME, BYTES)
# How far work by shapes may be from the counters, where shapes tell it exactly.
MOST_OFF = 0.05
COLUMNS = (
    "kernel", "known", "GB/s by shapes", "by counters", "bytes off", "TFLOP/s by shapes",
    "by counters", "FLOPs off",
)  # fmt: skip
KERNELS = """
    SELECT annotation, k.dur_ns, l.flops, l.bytes, l.is_exact
    FROM annotated_ops AS a JOIN kernels AS k USING (trace_id, event_id)
    LEFT JOIN op_limit AS l USING (trace_id, event_id)
    WHERE a.is_innermost ORDER BY k.start_ns
"""

Call = Callable[[], Tensor]


def calls(make: Sized) -> Iterator[tuple[str, Call]]:
    """Twenty operators of a kernel or two each, far larger than the cache. One at a time: their
    tensors take gigabytes."""
    rows, width = make.pick((1 << 16, 4096), (4, 16))
    half = partial(make.random, dtype=torch.bfloat16)
    x, y = make.random(rows, width), make.random(rows, width)
    yield "add in fp32", lambda: x + y
    yield "copy", lambda: x.clone()
    yield "transposed copy", lambda: x.t().contiguous()
    yield "cast to bf16", lambda: x.bfloat16()
    yield "sum of rows", lambda: x.sum(-1)
    yield "choice", lambda: torch.where(x > 0, x, y)
    yield "concatenation", lambda: torch.cat([x, y])
    a, b = half(rows, width), half(rows, width)
    yield "product by element in bf16", lambda: a * b
    yield "GELU in bf16", lambda: functional.gelu(a)
    yield "softmax in bf16", lambda: torch.softmax(a, -1)
    weight = half(width)
    yield "layer norm in bf16", lambda: functional.layer_norm(a, (width,), weight, weight)
    chosen = torch.randint(rows, (rows,), device=make.device)
    yield "embedding in bf16", lambda: functional.embedding(chosen, a)
    size = make.pick(8192, 16)
    m, n = half(size, size), half(size, size)
    yield "matrix product in bf16", lambda: m @ n
    bias = half(size)
    yield "linear layer in bf16", lambda: functional.linear(m, n, bias)
    yield "matrix times vector in bf16", lambda: functional.linear(m[:1], n)
    f, g = make.random(size // 2, size // 2), make.random(size // 2, size // 2)
    yield "matrix product in fp32", lambda: f @ g

    def tf32() -> Tensor:
        with make.tf32(True):
            return f @ g

    yield "matrix product in tf32", tf32
    batch = [make.random(make.pick(64, 2), size // 8, size // 8, dtype=torch.float16) for _ in "ab"]
    yield "batched product in fp16", lambda: batch[0] @ batch[1]
    heads = [half(*make.pick((8, 16, 4096, 128), (1, 2, 8, 8))) for _ in "qkv"]
    yield "attention in bf16", lambda: functional.scaled_dot_product_attention(*heads)
    form = torch.channels_last
    pictures = half(*make.pick((64, 256, 56, 56), (1, 4, 8, 8))).to(memory_format=form)
    filters = half(*make.pick((256, 256, 3, 3), (4, 4, 3, 3))).to(memory_format=form)
    yield "convolution in bf16", lambda: functional.conv2d(pictures, filters, padding=1)


def once(device: str) -> None:
    """Runs each kernel once in the part of the process that ncu looks at."""
    make = Sized(torch.device(device))
    for _, call in calls(make):
        call()
        if make.is_gpu:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()


def record(device: str, folder: Path) -> int:
    """Writes kernels.json.gz and kernels-ncu.csv; 1 if ncu says nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    make = Sized(torch.device(device))
    with tracekit.profile(folder / "kernels.json.gz"):
        for name, call in calls(make):
            call()
            with torch.profiler.record_function(name):
                call()
            if make.is_gpu:
                torch.cuda.synchronize()
    if not make.is_gpu:
        print("- counters need a GPU")
        return 0
    torch.cuda.empty_cache()
    ncu = find_tool("ncu")
    if not ncu:
        print("- ncu is not on the PATH")
        return 1
    log = folder / "kernels-ncu.csv"
    for metrics in ((*SURE, *FLOPS), SURE):
        chosen = ["--metrics", ",".join(metrics), "--log-file", str(log)]
        module = [sys.executable, "-m", "tests.bench.counted_kernels", "once", device]
        done = subprocess.run([ncu, *NCU, *chosen, *module], cwd=ROOT)
        if done.returncode == 0 and counted(log):
            print(f"- {log.name}: {len(counted(log))} kernels")
            return 0
        print(f"- ncu, with {len(metrics)} counters: exit status {done.returncode}", flush=True)
    return 1


@dataclass(frozen=True)
class Counted:
    """A kernel as ncu counted it; None: it has no such counter."""

    name: str
    ns: float
    bytes: float
    flops: float | None


def counted(log: Path) -> list[Counted]:
    """The kernels of a log of ncu, in order. Its second row has units."""
    if not log.exists():
        return []
    lines = log.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(each for each in lines if each.startswith('"'))
    found = []
    for row in rows:
        if row["ID"]:
            flops = {name: _number(row.get(name)) for name in FLOPS}
            known = {name: value for name, value in flops.items() if value is not None}
            total = sum(FLOPS[name] * value for name, value in known.items()) if known else None
            ns, moved = (_number(row.get(each)) or 0.0 for each in SURE)
            found.append(Counted(row["Kernel Name"], ns, moved, total))
    return found


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def table(folder: Path) -> Iterator[str]:
    """Work and rates of each kernel, by shapes and by counters; kernels are matched in order."""
    with tracekit.load(folder / "kernels.json.gz") as run:
        ours = run.sql(KERNELS).rows()
    theirs = counted(folder / "kernels-ncu.csv")
    if len(ours) != len(theirs):
        yield f"{len(ours)} kernels are recorded and {len(theirs)} counted: not comparable"
        return
    yield from head(COLUMNS)
    off: list[float] = []
    for (what, ns, flops, moved, is_exact), each in zip(ours, theirs, strict=True):
        known = {True: "exactly", False: "at least", None: "no"}[is_exact]
        cells: list[Any] = []
        for work, count, scale in ((moved, each.bytes, 1.0), (flops, each.flops, 1e-3)):
            share = work / count - 1 if work and count else None
            if is_exact and share is not None and scale == 1.0:
                off.append(abs(share))
            cells += [
                _rate(work, ns, scale), _rate(count, each.ns, scale),
                "-" if share is None else f"{share:+.1%}",
            ]  # fmt: skip
        yield line(what, known, *cells)
    within = sum(each <= MOST_OFF for each in off)
    yield f"\n- bytes within {MOST_OFF:.0%} of the counters: {within} of {len(off)} known exactly"


def _rate(work: float | None, ns: float, scale: float) -> str:
    """Work over time: GB/s, or TFLOP/s with a scale of 1/1000."""
    return f"{scale * work / ns:,.1f}" if work and ns else "-"


def main() -> int:
    what, *given = sys.argv[1:]
    if what == "once":
        once(given[0])
    elif what == "record":
        return record(given[0], Path(given[1]))
    else:
        print(*table(Path(given[0])), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
