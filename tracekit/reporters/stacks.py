"""Writes the flame graph for other tools: speedscope's JSON, or folded stacks.

Both have the frames of the question `flame_graph`, and thus the same sums. Frames that it leaves
out count as their callers' own time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.files import is_standard_output, written_whole
from tracekit.text import printable

# flamegraph.pl would read a number after a frame's last space as a second count.
_COUNT_BEHIND = re.compile(r"\s+(?=\d+(?:\.\d*)?$)")

# A call path (frames from the thread inwards), and the nanoseconds in its last frame alone.
Stack = tuple[tuple[str, ...], int]


def write(
    database: Session, form: str, output: str, weight: str = "host", trace: int | None = None
) -> int:
    """Writes the flame graph of one trace; returns its number of stacks.

    speedscope's format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources.
    Folded stacks, one a line with its nanoseconds: https://www.brendangregg.com/flamegraphs.html.

    Raises:
        TracekitError: when there are several traces and `trace` does not choose one, when nothing
            in the trace has such time, or when `output` cannot be written.
    """
    rows = database.ask("flame_graph", trace=database.only(trace))
    threads = {name: found for name, found in stacks(rows, weight).items() if found}
    if not threads:
        what = "host slices" if weight == "host" else "GPU ops that link to host slices"
        raise TracekitError(f"{database.name}: a flame graph needs {what}, and the trace has none")
    if form == "speedscope":
        launched_ns = {row["name"]: row["gpu_ns"] for row in rows if row["parent"] is None}
        # The most interesting thread comes first: the one with most GPU work.
        first = max(threads, key=lambda name: (launched_ns[name], len(threads[name])))
        text = _speedscope(threads, database.name, first)
    else:
        text = (
            f"{';'.join(map(_frame, path))} {time_ns}\n"
            for found in threads.values()
            for path, time_ns in found
        )
    encoded = (part.encode("utf-8", "replace") for part in text)
    if is_standard_output(output):
        sys.stdout.buffer.writelines(encoded)
        sys.stdout.flush()
    else:
        with written_whole(output, database.inputs) as beside, beside.open("wb") as sink:
            sink.writelines(encoded)
    return sum(map(len, threads.values()))


def stacks(rows: list[dict[str, Any]], weight: str) -> dict[str, list[Stack]]:
    """The stacks of each thread, in the order in which the flame graph is drawn.

    A thread's stacks add up to its time in `rows`. Where slices overlap, so that the frames inside
    a frame take longer than itself, they share its time in proportion.
    """
    column = f"{weight}_ns"
    inside: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row[f"{weight}_from_ns"], row["name"])):
        inside.setdefault(row["parent"], []).append(row)
    by_thread: dict[str, list[Stack]] = {}
    for thread in inside.get(None, []):
        of_thread = by_thread.setdefault(thread["name"], [])
        # Not recursive: stacks may be as deep as the program's.
        waiting: list[Any] = [((thread["name"],), thread["node"], thread[column])]
        while waiting:
            path, node, time_ns = waiting.pop()
            frames = [frame for frame in inside.get(node, []) if frame[column]]
            times = _within([frame[column] for frame in frames], time_ns)
            if own_ns := time_ns - sum(times):
                of_thread.append((path, own_ns))
            for frame, each_ns in reversed(list(zip(frames, times, strict=True))):
                waiting.append(((*path, frame["name"]), frame["node"], each_ns))
    return by_thread


def _within(times: list[int], most: int) -> list[int]:
    """Times that add up to at most `most`: in proportion, in whole nanoseconds."""
    whole = sum(times)
    if whole <= most:
        return times
    ends = [passed * most // whole for passed in accumulate(times, initial=0)]
    return [end - begin for begin, end in pairwise(ends)]


def _speedscope(threads: Mapping[str, list[Stack]], name: str, first: str) -> Iterator[str]:
    frames: dict[str, int] = {}
    profiles = []
    for thread, thread_stacks in threads.items():
        samples = [
            [frames.setdefault(each, len(frames)) for each in path] for path, _ in thread_stacks
        ]
        weights = [weight for _, weight in thread_stacks]
        profiles.append({
            "type": "sampled", "name": printable(thread), "unit": "nanoseconds",
            "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights,
        })  # fmt: skip
    file = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": printable(name),
        "exporter": "tracekit",
        "activeProfileIndex": list(threads).index(first),
        "shared": {"frames": [{"name": printable(frame)} for frame in frames]},
        "profiles": profiles,
    }
    yield from json.JSONEncoder().iterencode(file)
    yield "\n"


def _frame(name: str) -> str:
    name = " ".join(printable(name).replace(";", ":").split())
    return _COUNT_BEHIND.sub("_", name) or "(no name)"
