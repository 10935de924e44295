"""What replays show about a window, as numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Gains:
    """What changes gain in a window, as fractions of its length; negative if it gets longer."""

    window_ns: int
    """The window's replayed length without one-offs."""
    host: float
    """With the host's work halved."""
    device: float
    """With the device's work halved."""
    removed: dict[str, float]
    """With each cause removed, the largest gain first."""
    cuda_graph: float
    """With free launches, as in CUDA graphs."""
    unknown: float
    """With the waits removed that the trace does not explain."""
    work_ns: dict[str, int]
    """Work on each cause in the whole trace, on any thread or device, without the time spent
    waiting."""
    one_offs_ns: int = 0
    """What one-offs add to the window's length (tracekit/replay/one_offs)."""
    device_one_offs_ns: int = 0
    """Of that, what the device works longer."""
    removed_at_most: dict[str, float] = field(default_factory=dict)
    """With math or memory-bandwidth removed, if it also limits all kernels of `math-or-memory`:
    what removing it gains lies between `removed` and this. Empty if the trace tells the limit of
    every kernel."""
    undilated: tuple[float, float] | None = None
    """With the host's or the device's work halved in a run that is not recorded; None if what
    recording costs the host is not known, or small."""


@dataclass(frozen=True)
class Causal:
    """What replays show about the verdict's window: the JSON of `causal`, key for key."""

    gains: Gains
    flip: float | None
    """How many times faster the side that bounds the window has to be before the verdict's margin
    changes its sign; None if it does not even at `fastest` times (tracekit/verdict/regime.py)."""
    undilated: tuple[float, float] | None
    """The gains of host and device without the profiler's own cost, as `capture` measured it or as
    its events cost; None if that is not known, or small."""
    path: dict[str, float]
    """The critical path by cause: shares that add up to 1."""
    links: list[dict[str, Any]]
    """The longest links of the path (`start_ns` counts from the trace's start)."""
    clock_shift_ns: int
    """What was added to the device's times so that no op starts before its launch, or, if negative,
    taken away so that calls return after what they wait for."""
    edges_left_out: int
    """Dependencies that the recorded times contradict, including the links of ops that start long
    before their launch."""
