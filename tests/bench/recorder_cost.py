"""Measures the cost of PyTorch's profiler to the host for each recorded event, on this CPU.

    python -m tests.bench.recorder_cost [TURNS]

trains a small model in turns without a profiler and with each of its settings, and prints the cost
of a setting for each operator, and of stacks for each Python frame. A cost is the median over the
turns of the thread's CPU time, minus that of the previous turn without a profiler, divided by the
events in the trace. `queries/thresholds.csv` keeps the figures (`recorded_*_ns`).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

_STEPS = 20
# The profiler's settings, with the events that each of them costs.
COUNTED = {
    "record_shapes": "cpu_op", "profile_memory": "cpu_op", "with_stack": "python_function",
}  # fmt: skip


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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
