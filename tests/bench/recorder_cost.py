"""Measures the cost of PyTorch's profiler to the host for each recorded event.

    python -m tests.bench.recorder_cost [TURNS]

trains a small model on this CPU in turns without a profiler and with each of its settings, and
prints the cost of a setting for each operator, and of stacks for each Python frame. A cost is the
median over the turns of the thread's CPU time, minus that of the previous turn without a profiler,
divided by the events in the trace.

    python -m tests.bench.recorder_cost CAPTURE...

prints for each trace of a run that waits for its host, and whose step was also timed without the
profiler, that cost beside the estimate. `queries/thresholds.csv` keeps what the estimate is made of
(`recorded_*`).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import tracekit

_STEPS = 20
# The profiler's settings, with the events that each of them costs.
COUNTED = {
    "record_shapes": "cpu_op", "profile_memory": "cpu_op", "with_stack": "python_function",
}  # fmt: skip

_SIZE = "SELECT (SELECT count(*) FROM steps), (SELECT coalesce(sum(dur_ns), 0) FROM gpu_ops)"


def training() -> Callable[[], None]:
    """Steps of a model whose operators do next to nothing: only the host takes time."""
    model = torch.nn.Sequential(
        *[torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()] * 8
    )
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    data = torch.ones(4, 8)

    def steps() -> None:
        for _ in range(_STEPS):
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()

    return steps


def costs(turns: int) -> dict[str, tuple[float, Counter[str]]]:
    """The nanoseconds that recording adds to a turn in each setting, and the events by category."""
    steps, events = training(), {}
    added: defaultdict[str, list[int]] = defaultdict(list)
    steps()
    for _ in range(turns):
        for setting in ("", *COUNTED):
            plain, chosen = _timed(steps), {setting: True} if setting else {}
            with profile(activities=[ProfilerActivity.CPU], **chosen) as recorder:
                steps()
                added[setting].append(_timed(steps) - plain)
            events[setting] = events.get(setting) or _events(recorder)
    return {name: (statistics.median(each), events[name]) for name, each in added.items()}


def _timed(steps: Callable[[], None]) -> int:
    """All threads' CPU time: the backward pass runs in its own thread."""
    begin = time.process_time_ns()
    steps()
    return time.process_time_ns() - begin


def _events(recorder: Any) -> Counter[str]:
    """The events of one of two turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        recorder.export_chrome_trace(str(path))
        found = json.loads(path.read_text())["traceEvents"]
    return Counter({name: n // 2 for name, n in Counter(e.get("cat") for e in found).items()})


@dataclass(frozen=True)
class Recorded:
    """What recording a step cost its host, as measured and as estimated; 0: no estimate."""

    path: Path
    measured_ns: int
    estimated_ns: float

    @property
    def ratio(self) -> float:
        """The estimate over the measured cost."""
        return self.estimated_ns / self.measured_ns if self.measured_ns else 0.0

    def __str__(self) -> str:
        return (
            f"{self.measured_ns:12,} ns a step, estimated {self.estimated_ns:12,.0f}, "
            f"{self.ratio:.2f}: {self.path}"
        )


def of_capture(path: Path) -> Recorded | None:
    """None: the step's length without the profiler is not known, or the GPU does not wait."""
    with tracekit.load(path) as database:
        _, profiled_ns, unprofiled_ns, cost_ns = database.recorder().row(0)
        steps, busy_ns = database.sql(_SIZE).row(0)
    if not unprofiled_ns or busy_ns > steps * unprofiled_ns / 2:
        return None
    return Recorded(path, profiled_ns - unprofiled_ns, (cost_ns or 0) / steps)


def spread(ratios: list[float]) -> str:
    """The median of ratios, and their tenths."""
    if len(ratios) < 2:
        return f"{len(ratios)}: " + "".join(f"{each:.2f}" for each in ratios)
    low, *_, high = statistics.quantiles(ratios, n=10)
    return f"{len(ratios)}: median {statistics.median(ratios):.2f}, tenths {low:.2f} {high:.2f}"


def of_captures(paths: list[str]) -> None:
    """Prints what recording a step cost where the GPU waits for the host, and the estimate."""
    found = [each for path in paths if (each := of_capture(Path(path)))]
    print(*found, spread([each.ratio for each in found]), sep="\n")


def main(turns: int) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    found = costs(turns)
    plain, events = found.pop("")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {turns} turns")
    print(f"an operator: {plain / events['cpu_op']:,.0f} ns of {events['cpu_op']:,}")
    for setting, (took, events) in found.items():
        count = events[COUNTED[setting]]
        print(f"more with {setting}: {(took - plain) / count:,.0f} ns of each of {count:,}")


if __name__ == "__main__":
    first = sys.argv[1] if len(sys.argv) > 1 else "25"
    main(int(first)) if first.isdigit() else of_captures(sys.argv[1:])
