"""The results of a sweep: the points of its grid, and the fastest variant at each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tracekit.database.session import Session
from tracekit.records import Shown
from tracekit.verdicts import verdicts

# The axes of a grid, from the outermost to the innermost; each is a field of `Options`.
AXES = ("dtype", "batch", "seq", "dim", "hidden")

Size = int | str


class HalvingGains(Struct, frozen=True):
    """Gains, by replay, from halving each side's work and from a CUDA graph: fractions of the
    window."""

    host: float
    """The gain from halving the host's work (fraction of the window)"""
    device: float
    """The gain from halving the device's work (fraction of the window)"""
    cuda_graph: float
    """The gain from free launches (fraction of the window)"""


class Point(Struct, frozen=True):
    """A workload at one size: a row of the query `sweep_points`, and the verdict on its trace.

    `share_busy` is a share of the GPU-active span, as in the verdict. Without a GPU, `gains` is
    None and `share_compute` is the compute operators' share of the profiler's steps.
    """

    trace_id: int
    workload: str
    variant: str | None
    device: str
    batch: int | None
    seq: int | None
    dim: int | None
    hidden: int | None
    dtype: str
    activation: str | None
    reason: str | None
    is_wrong: bool
    step_ns: int | None
    spread: float | None
    rows_per_s: float | None
    host_ns: int | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    profiled_step_ns: int | None
    dilation: float | None
    operators: float | None
    launches: float | None
    kernels: float | None
    kernel_ns: int | None
    traffic_bytes: int | None
    traffic_bytes_per_s: float | None
    regime: str | None = None
    """The verdict's regime."""
    bottleneck: str | None = None
    """The cause whose removal gains most."""
    share_busy: float | None = None
    """The device's busy share (fraction of the GPU-active span)"""
    share_compute: float | None = None
    """Time in compute operators, without a GPU (fraction of the steps)"""
    gains: HalvingGains | None = None

    @property
    def size(self) -> tuple[Size | None, ...]:
        """The point's position in the grid: a value for each of AXES."""
        return tuple(getattr(self, axis) for axis in AXES)


class Shape(Struct, frozen=True):
    """A position in the grid, with the baseline's regime and the fastest variant.

    The baseline counts as fastest unless three quarters of another variant's rounds were faster.
    `speedup` is over the baseline; None if the baseline did not run in the same rounds.
    """

    dtype: str
    batch: int | None
    seq: int | None
    dim: int | None
    hidden: int | None
    regime: str | None
    """The baseline's regime."""
    fastest: str | None
    """The fastest variant."""
    speedup: float | None


class Sweep(Shown, frozen=True):
    """The requested points, in the grid's order, shape by shape."""

    form: ClassVar[str] = "tracekit/sweep/1"

    database: str
    """The file that holds the points."""
    device: str
    """The device that the points used."""
    baseline: str
    """The variant that speed-ups refer to."""
    variants: list[str]
    """The variants that were compared."""
    captured: int
    """The number of points that this call ran; the others were already in the database."""
    points: list[Point]
    """Each variant at each size."""
    shapes: list[Shape]
    """The sizes of the grid."""

    @property
    def axes(self) -> list[str]:
        """The axes that vary between the points; if none does, the first axis."""
        known = {axis: {getattr(point, axis) for point in self.points} for axis in AXES}
        varying = [axis for axis, values in known.items() if len(values) > 1]
        return varying or [axis for axis in ("batch", "dim") if known[axis] != {None}][:1]

    @property
    def is_right(self) -> bool:
        """Whether no variant gives a wrong answer."""
        return not any(point.is_wrong for point in self.points)


def sweep_in(database: Session) -> Sweep | None:
    """The sweep in a database: all its points, each with the verdict on its trace.

    Speed-ups refer to the workload that ran first. None: no sweep.
    """
    rows = database.ask("sweep_points")
    if not rows:
        return None
    points = [point_of(database, row) for row in rows]
    names = list(
        dict.fromkeys(point.workload for point in sorted(points, key=lambda p: p.trace_id))
    )
    even = [point.workload for point in points if point.speedup == point.speedup_low == 1]
    first = (even or names)[0]
    device = ", ".join(dict.fromkeys(point.device for point in points))
    return Sweep(database.name, device, first, names, 0, points, compare(points, first))


def compare(points: Sequence[Point], baseline: str) -> list[Shape]:
    """The fastest variant at each size, in the points' order."""
    sizes: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        sizes.setdefault(point.size, []).append(point)
    shapes = []
    for size, here in sizes.items():
        base = next((point for point in here if point.workload == baseline), None)
        ran = sorted((point for point in here if point.step_ns), key=lambda p: p.step_ns or 0)
        if base in ran and all(point.speedup is not None for point in ran):
            clear = [point for point in ran if (point.speedup_low or 0) > 1]
            ran = [max(clear, key=lambda p: p.speedup or 0)] if clear else [base]
        fastest, speedup = (ran[0].workload, ran[0].speedup) if ran else (None, None)
        regime = base.regime if base else None
        place: dict[str, Any] = dict(zip(AXES, size, strict=True))
        shapes.append(Shape(**place, regime=regime, fastest=fastest, speedup=speedup))
    return shapes


def point_of(database: Session, row: Mapping[str, Any]) -> Point:
    """A row of `sweep_points` with the verdict on its trace."""
    point = Point(**{name: row[name] for name in Point.__struct_fields__ if name in row})
    if point.reason is not None:
        return point
    analysis = verdicts(database, point.trace_id)[0]
    span_ns, host = analysis.window.span_ns, analysis.host
    gains = analysis.causal.gains if analysis.causal else None
    return replace(
        point,
        regime=analysis.verdict.regime,
        bottleneck=analysis.verdict.bottleneck,
        share_busy=analysis.gpu.busy_ns / span_ns if analysis.gpu and span_ns else None,
        share_compute=host.compute_ns / span_ns if host and span_ns else None,
        gains=HalvingGains(gains.host, gains.device, gains.cuda_graph) if gains else None,
    )
