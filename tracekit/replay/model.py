"""The results of replays for a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

T = TypeVar("T", int, float)


class Price(Struct, frozen=True):
    """The saving of changes in a window, and the window's length without them."""

    saves_ns: int
    of_ns: int

    @property
    def share(self) -> float:
        """The fraction of the window that they save: at most 1."""
        return self.saves_ns / self.of_ns if self.of_ns else 0.0

    def of_part(self, part_ns: int) -> Price:
        """The price in a part of the window. A saving longer than the part also saves the rest."""
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
    """The gains of changes in a window of the unrecorded run, as fractions of its length; negative
    if it gets longer."""

    window_ns: int
    """The window's length without one-offs and the recorder's cost to the host: measured by
    `capture`, or replayed."""
    host: float
    """The gain from halving the host's work."""
    device: float
    """The gain from halving the device's work."""
    removed: dict[str, float]
    """The gain from removing each cause, largest first."""
    cuda_graph: float
    """The gain from free launches, as in CUDA graphs."""
    unknown: float
    """The gain from removing waits that the trace does not explain."""
    work_ns: dict[str, int]
    """The work of each cause in the whole trace, on all threads and devices, without waits."""
    one_offs_ns: int = 0
    """The time that one-offs add to the window (tracekit/replay/one_offs.py)."""
    device_one_offs_ns: int = 0
    """The device's part of one_offs_ns."""
    removed_at_most: dict[str, float] = field(default_factory=dict)
    """The gain from removing math or memory-bandwidth if it also limits all kernels of
    `math-or-memory`: the true gain lies between `removed` and this. Empty if the limit of every
    kernel is known."""
    recorder_ns: int | None = None
    """The time that the recorder added to the window; None: its cost to the host is unknown or
    small."""

    @property
    def recorded_ns(self) -> int:
        """The window's length without one-offs, as recorded."""
        return self.window_ns + (self.recorder_ns or 0)

    def less(self, cause: str, share: float) -> Gains:
        """The gains with that of one cause reduced by a fraction of the window."""
        gained = max(0.0, self.removed.get(cause, 0.0) - share)
        return replace(self, removed=largest_first(self.removed | {cause: gained}))

    def within(self, span_ns: int) -> Gains:
        """The gains of a window with this recorded length. The replayed one may be longer, since
        replays correct clocks. One-offs add at most the recorded length."""
        one_offs_ns = min(self.one_offs_ns, span_ns)
        device_ns = min(self.device_one_offs_ns, one_offs_ns)
        return replace(self, one_offs_ns=one_offs_ns, device_one_offs_ns=device_ns)

    def without(self, ns: int) -> Gains:
        """The gains of the window without a part that the changes do not shorten: at most the whole
        rest. A change that shortens the part first loses its gain there (`less`)."""
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
    """Numbers by cause, largest first."""
    return dict(sorted(by_cause.items(), key=lambda item: -item[1]))


class Causal(Struct, frozen=True):
    """The results of replays for the verdict's window: the JSON of `causal`."""

    gains: Gains
    flip: float | None
    """The speedup of the bounding side at which the verdict's margin changes its sign; None: not
    even at `fastest` (tracekit/verdict/regime.py)."""
    undilated: tuple[float, float] | None
    """The gains of host and device again if the profiler's cost to the host is known; all gains
    exclude it."""
    path: dict[str, float]
    """Shares of the critical path by cause; they add up to 1."""
    links: list[dict[str, Any]]
    """The longest links of the path (`start_ns` counts from the trace's start)."""
    clock_shift_ns: int
    """Time added to the device's clock so that no op starts before its launch; negative: time
    subtracted so that calls return after the ops that they wait for."""
    edges_left_out: int
    """The number of dependencies that recorded times contradict, including links of ops that start
    long before their launch."""
