"""The numbers that replays give for a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

T = TypeVar("T", int, float)


class Price(Struct, frozen=True):
    """What changes save in a window, and the length of the same run's window without them."""

    saves_ns: int
    of_ns: int

    @property
    def share(self) -> float:
        """The fraction of the window that they save: at most 1."""
        return self.saves_ns / self.of_ns if self.of_ns else 0.0

    def of_part(self, part_ns: int) -> Price:
        """The price in a part of the window. What is longer than the part also saves the rest."""
        if self.saves_ns <= part_ns:
            return Price(self.saves_ns, part_ns)
        return Price(max(0, self.saves_ns - (self.of_ns - part_ns)), part_ns)


class WindowId(NamedTuple):
    """Which window of a trace's replay."""

    kind: str
    """`gpu_active`, `trace`, `step` or `range`."""
    number: int
    """Of the device (`gpu_active`), of the step or of the range; 0 for `trace`, which is one window
    for all devices."""


WHOLE_TRACE = WindowId("trace", 0)


class Gains(Struct, frozen=True):
    """What changes gain in a window of the run that nobody records, as fractions of its length;
    negative if it gets longer."""

    window_ns: int
    """The window's length without one-offs and without what recording cost the host: as `capture`
    measured it, or replayed."""
    host: float
    """The gain from halving the host's work."""
    device: float
    """The gain from halving the device's work."""
    removed: dict[str, float]
    """The gain from removing each cause, the largest first."""
    cuda_graph: float
    """The gain from free launches, as in CUDA graphs."""
    unknown: float
    """The gain from removing waits that the trace does not explain."""
    work_ns: dict[str, int]
    """Work on each cause in the whole trace, on any thread or device, without the time spent
    waiting."""
    one_offs_ns: int = 0
    """What one-offs add to the window's length (tracekit/replay/one_offs); 0: nothing."""
    device_one_offs_ns: int = 0
    """The device's part of that."""
    removed_at_most: dict[str, float] = field(default_factory=dict)
    """The gain from removing math or memory-bandwidth if it also limits all kernels of
    `math-or-memory`: the true gain lies between `removed` and this. Empty if the limit of every
    kernel is known."""
    recorder_ns: int | None = None
    """How much longer the recorder made the window; None if its cost to the host is not known, or
    small."""

    @property
    def recorded_ns(self) -> int:
        """The window's length without one-offs, as recorded."""
        return self.window_ns + (self.recorder_ns or 0)

    def less(self, cause: str, share: float) -> Gains:
        """The gains if removing a cause gains less, by a fraction of the window."""
        gained = max(0.0, self.removed.get(cause, 0.0) - share)
        return replace(self, removed=largest_first(self.removed | {cause: gained}))

    def within(self, span_ns: int) -> Gains:
        """The gains of a window that was recorded with this length. A replay's may be longer: it
        sets clocks right. One-offs add at most all of what was recorded."""
        one_offs_ns = min(self.one_offs_ns, span_ns)
        device_ns = min(self.device_one_offs_ns, one_offs_ns)
        return replace(self, one_offs_ns=one_offs_ns, device_one_offs_ns=device_ns)

    def without(self, ns: int) -> Gains:
        """The gains of the window without a part that none of the changes shortens: at most all of
        what is left. A change that shortens the part loses its gain there first (`less`)."""
        left_ns = self.window_ns - ns

        def left(gain: float) -> float:
            return min(1.0, gain * self.window_ns / left_ns)

        return replace(
            self,
            window_ns=left_ns,
            host=left(self.host),
            device=left(self.device),
            removed={cause: left(gain) for cause, gain in self.removed.items()},
            removed_at_most={cause: left(gain) for cause, gain in self.removed_at_most.items()},
            cuda_graph=left(self.cuda_graph),
            unknown=left(self.unknown),
        )


def largest_first(by_cause: Mapping[str, T]) -> dict[str, T]:
    """Numbers by cause, the largest first."""
    return dict(sorted(by_cause.items(), key=lambda item: -item[1]))


class Causal(Struct, frozen=True):
    """The results of replays for the verdict's window: the JSON of `causal`, key for key."""

    gains: Gains
    flip: float | None
    """The factor by which the side that bounds the window must get faster before the verdict's
    margin changes its sign; None if it does not even at `fastest` (tracekit/verdict/regime.py)."""
    undilated: tuple[float, float] | None
    """The gains of host and device again, if the profiler's cost to the host is known: all gains
    are without it."""
    path: dict[str, float]
    """The critical path by cause: shares that add up to 1."""
    links: list[dict[str, Any]]
    """The longest links of the path (`start_ns` counts from the trace's start)."""
    clock_shift_ns: int
    """Time added to the device's clock so that no op starts before its launch; negative: time taken
    away so that calls return after the ops that they wait for."""
    edges_left_out: int
    """Dependencies that the recorded times contradict, including the links of ops that start long
    before their launch."""
