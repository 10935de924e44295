"""Checks the answer of every variant of the MLP, and times it.

    python -m tests.bench.variants --device cpu --rows 8        on a CPU

Times are medians of interleaved rounds without the profiler, so that a slow spell of the machine
affects all variants. `make gpu-check` prints the same tables for a GPU, and more.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch

from tests.bench.measuring import device_of, head, line
from tracekit import Database, load, profile
from tracekit.capture.workload import CannotRun, Options, Runnable, WrongAnswer, prepare
from tracekit.errors import first_line
from tracekit.experiments.timing import Step, interleaved
from tracekit.ingest.hardware import peaks
from tracekit.workloads import WORKLOADS
from tracekit.workloads.base import Shape
from tracekit.workloads.graphs import captured

BASES = ("mlp-compiled", "mlp-eager")
# Not part of tracekit, and not on every machine.
PEERS = ("mlp-liger",)
_OF_CLOCKS = (
    "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "temperature.gpu", "power.draw",
)  # fmt: skip
# Steps in one CUDA graph, so that its own launch does not count.
_IN_A_GRAPH = 20
# More than the L2 cache of any device.
_FLUSHED_BYTES = 256 << 20
_REPEATS = 30
MLPS = [name for name in WORKLOADS if name.startswith("mlp-")]
COLUMNS = (
    "variant", "what ran", "us", "spread", "host us", "as graph, us", "x mlp-compiled",
    "x mlp-eager",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A variant: what ran, and microseconds per step in each round.

    `graph_us` is the same with the step replayed as a CUDA graph, so without its host, and
    `host_us` the time until the host has issued a step. If the variant could not run, `what` says
    why and `us` is empty. `stand_in` says why something else ran than the name promises; `wrong`
    means that the answer was wrong.
    """

    name: str
    what: str
    us: list[float]
    graph_us: list[float] = field(default_factory=list)
    host_us: float | None = None
    stand_in: str | None = None
    wrong: bool = False

    @property
    def failed(self) -> bool:
        """Whether its figures are not for the variant that its name says, on a GPU; peers may be
        missing."""
        return self.wrong or (self.stand_in is not None and self.name not in PEERS)


@dataclass(frozen=True)
class Roof:
    """One implementation of the fused act(gate) * up against the memory bandwidth.

    `bytes_per_s` is the bytes that it must move over its kernels' time `us`; `share` is their share
    of the device's memory bandwidth, or None if that is unknown.
    """

    name: str
    us: float
    bytes_per_s: float
    share: float | None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {self.share:.0%} of the memory roof"
        rate = f"{self.bytes_per_s / 1e9:,.0f} GB/s"
        return f"act(gate) * up in {self.name}: {self.us:.1f} us, {rate}{share}"


def measure_variants(names: list[str], options: Options) -> list[Row]:
    """Builds, checks and times the variants of one shape; on a GPU, as CUDA graphs, too."""
    # Without this, torch.compile stops compiling for new shapes after a few.
    torch.compiler.reset()
    built: dict[str, Runnable] = {}
    rows = {}
    for name in names:
        try:
            built[name] = prepare(name, options)
        except CannotRun as error:
            rows[name] = Row(name, error.reason, [], wrong=isinstance(error, WrongAnswer))
    steps = {name: each.step for name, each in built.items()}
    device = torch.device(options.device)
    times = interleaved(steps, device)
    graphs = as_graphs(steps) if device.type == "cuda" else {}
    replays = interleaved(graphs, device) if graphs else {}
    for name, each in built.items():
        us = [ns / 1e3 for ns in times[name].step_ns]
        graph_ns = replays[name].step_ns if name in replays else []
        graph_us = [ns / 1e3 / _IN_A_GRAPH for ns in graph_ns]
        host_us = statistics.median(times[name].host_ns) / 1e3
        facts = each.facts
        rows[name] = Row(name, facts["variant"], us, graph_us, host_us, facts.get("note"))
    return [rows[name] for name in names]


def as_graphs(steps: Mapping[str, Step]) -> dict[str, Step]:
    """Captures several repetitions of each step as one CUDA graph. Leaves out steps that cannot be
    captured."""
    found: dict[str, Step] = {}
    for name, step in steps.items():
        try:
            found[name] = captured(partial(_repeated, step))
        except Exception as error:
            print(f"- {name} cannot be captured: {first_line(error)}", flush=True)
    return found


def _repeated(step: Step) -> None:
    for _ in range(_IN_A_GRAPH):
        step()


def table(rows: list[Row]) -> list[str]:
    """Medians, the spread without the two extremes, and ratios of medians, as Markdown.

    Ratios are of graph replays if both have some.
    """
    bases = {row.name: row for row in rows if row.name in BASES and row.us}
    lines = [*head(COLUMNS)]
    for row in rows:
        if not row.us:
            lines.append(line(row.name, row.what, *"------"))
            continue
        median, times = statistics.median(row.us), sorted(row.us)
        ratios = [
            f"{_times_as_fast(row, bases[base]):.2f}" if base in bases else "-" for base in BASES
        ]
        spread = (times[-2] - times[1]) / median
        host = "-" if row.host_us is None else f"{row.host_us:,.1f}"
        graph = f"{statistics.median(row.graph_us):,.1f}" if row.graph_us else "-"
        us = f"{median:,.1f}"
        lines.append(line(row.name, row.what, us, f"{spread:.0%}", host, graph, *ratios))
    return lines


def _times_as_fast(row: Row, base: Row) -> float:
    has_graphs = row.graph_us and base.graph_us
    ours, theirs = (each.graph_us if has_graphs else each.us for each in (row, base))
    return statistics.median(theirs) / statistics.median(ours)


def kernel_us(calls: Mapping[str, Callable[[], object]], device: torch.device) -> dict[str, float]:
    """Mean time of each call's kernels, from the profiler; the L2 cache is cleared before each.

    Events around a call would add 2 to 4 us to it.
    """
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device=device)
    for call in calls.values():
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.json.gz")
        with profile(path):
            for name, call in calls.items():
                for _ in range(_REPEATS):
                    flushed.zero_()
                    with torch.profiler.record_function(name):
                        call()
        with load(path) as database:
            return in_ranges_us(database, list(calls))


def in_ranges_us(database: Database, names: list[str]) -> dict[str, float]:
    """Mean time of the kernels launched in one range, by the range's name."""
    rows = {row["name"]: row for row in database.ask("annotation_time")}
    return {name: rows[name]["gpu_ns"] / rows[name]["count"] / 1e3 for name in names}


def roofs(shape: Shape) -> list[Roof]:
    """The fused kernels against the GPU's memory bandwidth (tracekit/hardware.toml).

    Counts two reads and one write per element.
    """
    from tracekit.workloads.kernels.extension import why_not
    from tracekit.workloads.kernels.glu import glu

    device = torch.cuda.get_device_name(shape.device)
    known = next((each for each in peaks(None) if re.search(each.match, device)), None)
    bandwidth = known and known.memory_gb_per_s and known.memory_gb_per_s * 1e9
    packed = shape.random(shape.batch * shape.seq, 2 * shape.hidden, seed=1)
    gate, up = (each.contiguous() for each in packed.chunk(2, dim=-1))
    kernels: dict[str, Callable[[], object]] = {"Triton": lambda: glu(gate, up, shape.activation)}
    if why_not(shape.device) is None:
        act_mul = torch.ops.tracekit.act_mul
        kernels["CUDA"] = lambda: act_mul(packed, shape.activation)
    found = []
    for name, us in kernel_us(kernels, shape.device).items():
        rate = 3 * gate.numel() * gate.element_size() / (us * 1e-6)
        found.append(Roof(name, us, rate, rate / bandwidth if bandwidth else None))
    return found


def clocks() -> str:
    """The driver, the clocks of cores and memory, the temperature and the power, in one line."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_OF_CLOCKS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return "clocks: unknown (nvidia-smi failed)"
    values = done.stdout.splitlines()[0].split(", ")
    return ", ".join(f"{name} {value}" for name, value in zip(_OF_CLOCKS, values, strict=True))


def main() -> int:
    """Returns 1 if a variant gives a wrong answer, or on a GPU, if another one ran in its place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64, 64 * 128])
    parser.add_argument("--variants", nargs="*", choices=MLPS, default=MLPS)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    parser.add_argument("--json", type=Path, help="also writes the figures to this file")
    given = parser.parse_args()
    device = device_of(given, parser)
    is_gpu = device.type == "cuda"
    dtype, where = ("bf16", torch.cuda.get_device_name()) if is_gpu else ("fp32", "CPU")
    if is_gpu:
        print(f"- {clocks()}")
    print(f"# {where}, torch {torch.__version__}, {given.dim} to {given.hidden}, {dtype}")
    failed: list[str] = []
    kept: dict[str, object] = {}
    for count in given.rows:
        sizes = {"batch": 1, "seq": count, "dim": given.dim, "hidden": given.hidden}
        rows = measure_variants(given.variants, Options(**sizes, dtype=dtype, device=given.device))
        print(f"\n{count} rows\n", *table(rows), sep="\n", flush=True)
        kept[str(count)] = [asdict(row) for row in rows]
        failed += [row.name for row in rows if (row.failed if is_gpu else row.wrong)]
        if is_gpu:
            found = roofs(Shape(**sizes, dtype=torch.bfloat16, device=device))
            print("", *(f"- {roof}" for roof in found), f"- {clocks()}", sep="\n", flush=True)
            kept[f"{count} roofs"] = [asdict(roof) for roof in found]
    if given.json:
        given.json.write_text(json.dumps(kept), encoding="utf-8")
    if failed:
        print(f"wrong, or not what ran: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
