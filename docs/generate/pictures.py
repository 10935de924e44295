"""Pictures of definitions: lanes of a timeline, drawn from simulated runs, as SVG in the page.

Text has the page's own color, so that a picture reads in light and dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import tracekit
from docs.generate.sources import ROOT
from tracekit.reporters.colors import DEVICE, HOST

_WIDTH, _LEFT, _LANE, _BOX, _TOP = 1000, 110, 56, 30, 8
_DATA = ROOT / "tests" / "data"
_LETTER = 7.5
_BLACK = "#111111"


@dataclass(frozen=True)
class Box:
    start: float
    end: float
    text: str
    color: str


Arrow = tuple[tuple[int, float], tuple[int, float]]


def _shape(lane: int, box: Box, x: float, width: float) -> str:
    y = _TOP + lane * _LANE
    title = f"<title>{html.escape(box.text)}</title>"
    drawn = (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{_BOX}" '
        f'fill="{box.color}">{title}</rect>'
    )
    if len(box.text) * _LETTER > width:
        return drawn
    return drawn + (
        f'<text x="{x + width / 2:.1f}" y="{y + 20}" text-anchor="middle" fill="{_BLACK}">'
        f"{html.escape(box.text)}</text>"
    )


def lanes(
    named: Sequence[tuple[str, Sequence[Box]]], caption: str, arrows: Sequence[Arrow] = ()
) -> str:
    """A figure: a row of boxes for each name, and arrows from (lane, time) to (lane, time)."""
    boxes = [box for _, members in named for box in members]
    first, last = min(box.start for box in boxes), max(box.end for box in boxes)
    scale = (_WIDTH - _LEFT) / (last - first)

    def x_of(time: float) -> float:
        return _LEFT + (time - first) * scale

    parts = []
    for lane, (name, members) in enumerate(named):
        y = _TOP + lane * _LANE + 20
        parts.append(f'<text x="0" y="{y}" fill="currentColor">{html.escape(name)}</text>')
        parts += [
            _shape(lane, box, x_of(box.start), (box.end - box.start) * scale) for box in members
        ]
    for (lane, start), (other, end) in arrows:
        parts.append(
            f'<line x1="{x_of(start):.1f}" y1="{_TOP + lane * _LANE + _BOX}" '
            f'x2="{x_of(end):.1f}" y2="{_TOP + other * _LANE}" stroke="currentColor"/>'
        )
    used = {box.text: box.color for box in boxes}
    key, x = [], _LEFT
    y = _TOP + len(named) * _LANE
    for text, color in used.items():
        key.append(
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>'
            f'<text x="{x + 18}" y="{y + 11}" fill="currentColor">{html.escape(text)}</text>'
        )
        x += 40 + round(len(text) * _LETTER)
    said = html.escape(caption, quote=True)
    return (
        f'<figure class="drawn"><svg viewBox="0 0 {_WIDTH} {y + 20}" role="img" '
        f'aria-label="{said}" font-size="14">{"".join([*parts, *key])}</svg>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _host(run: tracekit.Database, start: int, end: int) -> list[Box]:
    _, rows = run.fetch(
        f"SELECT greatest(start_ns, {start}), least(end_ns, {end}), activity FROM host_segment "
        f"WHERE start_ns < {end} AND end_ns > {start} AND activity IS NOT NULL ORDER BY start_ns"
    )
    return [Box(a, b, activity, HOST.get(activity, DEVICE["idle"])) for a, b, activity in rows]


@cache
def partition() -> str:
    with tracekit.load(_DATA / "simulated-overhead-bound.json.gz") as run:
        _, ops = run.fetch("SELECT start_ns, end_ns FROM gpu_ops ORDER BY start_ns LIMIT 3")
        start, end = ops[0][0], ops[2][1]
        _, pieces = run.fetch(
            f"SELECT start_ns, end_ns, activity, cause FROM gpu_timeline "
            f"WHERE start_ns >= {start} AND end_ns <= {end} ORDER BY start_ns"
        )
        host = _host(run, start, end)
    device = [
        Box(a, b, activity, DEVICE[activity])
        if cause is None
        else Box(a, b, cause, HOST.get(cause, DEVICE["idle"]))
        for a, b, activity, cause in pieces
    ]
    return lanes(
        [("host thread", host), ("device", device)],
        "A simulated run that is overhead-bound (tests/data/simulated-overhead-bound.json.gz), "
        "from the start of its first kernel to the end of its third. Each idle stretch of the "
        "device has the color of what the launching thread did meanwhile.",
    )


@cache
def queue() -> str:
    with tracekit.load(_DATA / "simulated-compute-bound.json.gz") as run:
        _, rows = run.fetch(
            "SELECT launch_start_ns, launch_end_ns, start_ns, end_ns FROM gpu_ops "
            "WHERE launch_id IS NOT NULL ORDER BY start_ns LIMIT 6"
        )
    return lanes(
        [
            ("host thread", [Box(a, b, "launch", HOST["launch"]) for a, b, _, _ in rows]),
            ("device", [Box(a, b, "compute", DEVICE["compute"]) for _, _, a, b in rows]),
        ],
        "A simulated run that is compute-bound (tests/data/simulated-compute-bound.json.gz): its "
        "first six launches. Each line goes from a launch call's start to its kernel's start: the "
        "launch delay. It grows, as launches wait in the queue.",
        [((0, a), (1, c)) for a, _, c, _ in rows],
    )


@cache
def late() -> str:
    compute, idle, call = DEVICE["compute"], DEVICE["idle"], HOST["launch"]
    return lanes(
        [
            ("host thread", [Box(0, 4, "launch", call), Box(34, 38, "launch", call)]),
            (
                "host-late",
                [
                    Box(5, 20, "compute", compute),
                    Box(20, 40, "host late", HOST["python"]),
                    Box(40, 55, "compute", compute),
                ],
            ),
            ("host thread", [Box(0, 4, "launch", call), Box(8, 12, "launch", call)]),
            (
                "device-late",
                [
                    Box(5, 20, "compute", compute),
                    Box(20, 40, "device", idle),
                    Box(40, 55, "compute", compute),
                ],
            ),
        ],
        "A sketch. Above, the launch of the second kernel began after the gap did: the host was "
        "late. Below, it began before: the device made the kernel wait.",
        [((0, 4), (1, 5)), ((0, 38), (1, 40)), ((2, 4), (3, 5)), ((2, 12), (3, 40))],
    )


def _replayed(host: int, device: int) -> tuple[list[Box], list[Box]]:
    """Four launches and their ops, one after another; lengths of a launch and of an op."""
    calls = [Box(host * i, host * (i + 1), "host's work", HOST["dispatch"]) for i in range(4)]
    ops: list[Box] = []
    for call in calls:
        start = max([call.end, *(op.end for op in ops[-1:])])
        ops.append(Box(start, start + device, "device's work", DEVICE["compute"]))
    return calls, ops


@cache
def halved() -> str:
    cases = {"as recorded": (10, 6), "half the host": (5, 6), "half the device": (10, 3)}
    rows: list[tuple[str, Sequence[Box]]] = []
    for name, (host, device) in cases.items():
        calls, ops = _replayed(host, device)
        rows += [(name, calls), ("", ops)]
    return lanes(
        rows,
        "A sketch of three replays: four launches of the host, above, and their ops on the device, "
        "below. With half the host's work the run is much shorter, with half the device's hardly: "
        "it is overhead-bound.",
    )


@cache
def collectives() -> str:
    compute, wire, wait = DEVICE["compute"], DEVICE["communication"], DEVICE["idle"]
    return lanes(
        [
            (
                "rank 0",
                [
                    Box(0, 20, "compute", compute),
                    Box(20, 45, "waiting", wait),
                    Box(45, 55, "wire", wire),
                    Box(55, 75, "compute", compute),
                ],
            ),
            (
                "rank 1",
                [
                    Box(0, 45, "compute", compute),
                    Box(45, 55, "wire", wire),
                    Box(55, 75, "compute", compute),
                ],
            ),
        ],
        "A sketch. Both ranks' kernels are the same collective. It begins to move bytes when the "
        "last rank has come, and ends for both together; rank 0's kernel also waits.",
    )


@cache
def units() -> str:
    compute, call = DEVICE["compute"], HOST["launch"]
    return lanes(
        [
            (
                "host thread",
                [Box(0, 28, "unit 1 on the host", call), Box(28, 56, "unit 2 on the host", call)],
            ),
            (
                "device",
                [Box(6, 44, "ops of unit 1", compute), Box(44, 82, "ops of unit 2", compute)],
            ),
            (
                "units",
                [
                    Box(0, 44, "unit 1", DEVICE["communication"]),
                    Box(44, 82, "unit 2", DEVICE["communication"]),
                ],
            ),
        ],
        "A sketch. The host leaves unit 1 long before the device has finished its ops. Unit 2 "
        "begins when the device has, and is complete when the device has finished its own.",
        [((0, 28), (1, 44)), ((1, 44), (2, 44))],
    )


PICTURES = {
    "partition": partition,
    "queue": queue,
    "late": late,
    "halved": halved,
    "collectives": collectives,
    "units": units,
}


def illustrated(text: str) -> str:
    """The text with pictures in place of lines such as `<!-- picture: queue -->`."""
    for name, drawn in PICTURES.items():
        mark = f"<!-- picture: {name} -->"
        if mark in text:
            text = text.replace(mark, drawn())
    return text
