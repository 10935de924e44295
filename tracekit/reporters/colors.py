"""One color for each meaning, the same in every output.

The colors are Okabe and Ito's (https://jfly.uni-koeln.de/color/) and Paul Tol's muted scheme
(https://sronpersonalpages.nl/~pault/), which people with any color vision can tell apart. Two
colors may be similar if their names never appear side by side without a label.
"""

from __future__ import annotations

from typing import Final

from tracekit.causes import UNRECORDED
from tracekit.verdict.regime import COMPUTE, OVERHEAD, UNKNOWN

# Activities of a host thread, and reasons why a device waits for it.
HOST = {
    "launch": "#5e3c99",
    "runtime": "#2f5597",
    "dispatch": "#d55e00",
    "view": "#f2a27c",
    "python": "#e8b923",
    "untraced": "#d6cfb8",
    "waiting": "#cfd4d9",
    "sync": "#882255",
    "input": "#aa4499",
    "allocation": "#b07a3c",
    "compilation": "#6b3a1e",
    "copy": "#4a9fd6",
    "launch_latency": "#b3a2d6",
    "held": "#7d8a3c",
    "host_function": "#a0522d",
}

# Activities of a device, and their limits.
DEVICE = {
    "compute": "#009e73",
    "math": "#117733",
    "memory-bandwidth": "#44aa99",
    "math-or-memory": "#2f9e8a",
    "latency": "#a3b92f",
    "communication": "#cc79a7",
    "communication, overlapped": "#7c74a8",
    "memcpy": "#4a9fd6",
    "allocated": "#4477aa",
    "reserved": "#b8a04a",
    "idle": "#9aa0a6",
    "unknown": "#7f7f7f",
}

REGIME = {OVERHEAD: "#d55e00", COMPUTE: "#009e73", UNKNOWN: "#7f7f7f"}

# The runs of a comparison, and whether a part takes longer or shorter in b than in a.
RUN = {"a": "#868e96", "b": "#8250c4"}
CHANGE = {"longer": "#d6604d", "shorter": "#4393c3"}
UNCHANGED = "#eeeeee"

# Activities of a rank in a collective.
RANK = {"waiting for others": "#999933", "on the wire": DEVICE["communication"]}

ALL = DEVICE | HOST | REGIME | RUN | CHANGE | RANK

# Vega's color schemes for amounts, and for differences from a midpoint.
AMOUNTS: Final = "viridis"
DIFFERENCES: Final = "blueorange"


def of(name: str) -> str:
    """The color of a cause, an activity or a regime; gray for others."""
    return ALL.get(name, DEVICE["unknown"])


# Variants of a workload, in a sweep's order.
VARIANTS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#882255", "#999933",
)  # fmt: skip

# Kinds of frames in a flame graph. Black text is readable on all of them.
KINDS = {
    "thread": "#b0b7be",
    "python": "#ddaa33",
    "annotation": "#cc9ad0",
    "cpu_op": "#e58a4e",
    "runtime": "#7fb3d9",
    "driver": "#aab4e6",
    "replayed": "#a9d18e",
    "gpu": "#4dbd98",
}


def name_of(activity: str) -> str:
    """The name that determines the color of an activity or cause."""
    if activity == UNRECORDED:
        return "untraced"
    return activity if activity in ALL else "unknown"
