"""The windows of a trace: what took time in each, and which one is judged."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tracekit.causes import in_words_of
from tracekit.errors import TracekitError
from tracekit.evidence.model import Evidence, Gpu, HostThread, Idle, Launch, Window, of_row

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.replay.replay import Replay, WindowId

# Kinds of windows, in the order in which they are listed.
_ORDER = ("range", "gpu_active", "host_active", "step", "trace")
# Kinds of which there is one, so that the kind may be given as the name.
FIXED = ("gpu_active", "host_active", "trace")


class Accounts:
    """The windows of a trace, with what took time in each."""

    def __init__(self, database: Session, trace_id: int, overview: dict[str, Any]) -> None:
        """`overview` is the trace's row of that question."""
        self._database, self._trace_id = database, trace_id
        of_devices = _of_devices(database, trace_id, overview["device_word"])
        every = of_devices or _of_host(database, trace_id, overview)
        self.devices = [a.gpu for a in every if a.gpu and a.window.kind == "gpu_active"]
        """All devices, over their GPU-active spans; the main one first."""
        main = every[0].gpu
        self.all = [
            each
            for each in every
            if main is None or (each.gpu and each.gpu.device_id == main.device_id)
        ]
        """The windows of the main device, its GPU-active span first. Without GPU ops, those of the
        host's busiest thread; at least one."""
        self.first = self.all[0]
        self._names = list(dict.fromkeys(each.window.name for each in every))

    def chosen(
        self, window: str | None, replay: Replay | None, at: int | None
    ) -> tuple[Evidence, WindowId]:
        """The window of this name, by default the one to judge, and what the replay calls it.

        Of the ranges that are replayed, it is the one numbered `at`, by default that of median
        length.

        Raises:
            TracekitError: there is no such window, or no GPU op runs in it.
        """
        places = self.places(replay)
        if window is None:
            meant = replay.place() if self.first.gpu and replay else None
            # Without such a step, use the first account.
            number = places.index(meant) if meant in places else 0
            return self.all[number], places[number]
        if replay and replay.ranges is not None:
            return self._range(replay, at)
        for account, place in zip(self.all, places, strict=True):
            if window == account.window.name or (window in FIXED and window == account.window.kind):
                return account, place
        raise TracekitError(
            f"no window is named {window!r}; this trace has: {', '.join(self._names)}"
        )

    def places(self, replay: Replay | None) -> list[WindowId]:
        """The kind and number by which the replay knows each window."""
        numbers = _step_numbers(self.all, replay.steps.names) if replay else {}
        return [
            ("trace", 0)
            if each.gpu is None or replay is None
            else (each.window.kind, numbers.get(at, int(each.gpu.device_id or 0)))
            for at, each in enumerate(self.all)
        ]

    def _range(self, replay: Replay, at: int | None) -> tuple[Evidence, WindowId]:
        gpu = self.first.gpu
        assert replay.ranges is not None and gpu is not None
        number = replay.place(at=at)[1]
        # On the device's clock.
        origin = replay.graph.host.origin_ns - replay.graph.device.shift_ns.get(
            gpu.device_id or 0, 0
        )
        begin, end = (int(each[number]) + origin for each in replay.ranges.spans(replay.measured()))
        named = ("range", replay.ranges.names[number])
        account = account_between(self._database, self._trace_id, self.first, named, (begin, end))
        return account, ("range", number)


def account_between(
    database: Session, trace_id: int, of: Evidence, window: tuple[str, str], times: tuple[int, int]
) -> Evidence:
    """The accounting of a device between two instants, as a window of this kind and name.

    Raises:
        TracekitError: no GPU op runs there.
    """
    assert of.gpu is not None
    rows = database.ask(
        "interval_partition",
        trace=trace_id,
        device=of.gpu.device_id,
        from_ns=times[0],
        to_ns=times[1],
    )
    if not rows or not rows[0]["gpu_ops"]:
        raise TracekitError(f"no GPU op runs in the {' '.join(window)}")
    row = rows[0]
    named = Window(*window, row["start_ns"], row["end_ns"], row["span_ns"])
    gpu, idle = of_row(Gpu, row), of_row(Idle, row)
    return Evidence(window=named, gpu=gpu, idle=idle, launch=of.launch, ops=gpu.gpu_ops)


def _step_numbers(accounts: Sequence[Evidence], names: Sequence[str]) -> dict[int, int]:
    """The replay's number of each step, by the step's index among all accounts of one device."""
    # Steps of one name are in the same order in both.
    numbers: dict[str, deque[int]] = defaultdict(deque)
    for number, name in enumerate(names):
        numbers[name].append(number)
    return {
        at: numbers[each.window.name].popleft()
        for at, each in enumerate(accounts)
        if each.window.kind == "step"
    }


def _of_devices(database: Session, trace_id: int, word: str) -> list[Evidence]:
    causes: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in database.ask("idle_causes", trace=trace_id):
        causes.setdefault(_window_key(row), {})[row["cause"]] = row["idle_ns"]
    launches = {
        row["device_id"]: of_row(Launch, row, count=row["launches"])
        for row in database.ask("launch_stats", trace=trace_id)
    }
    found = []
    for row in database.ask("partition", trace=trace_id):
        window, gpu = of_row(Window, row), of_row(Gpu, row)
        if window.kind == "gpu_active":
            window = replace(window, name=in_words_of(word, window.name))
        idle = of_row(Idle, row, causes=causes.get(_window_key(row), {}))
        launch = launches.get(row["device_id"])
        found.append(Evidence(window=window, gpu=gpu, idle=idle, launch=launch, ops=gpu.gpu_ops))
    ranked = "SELECT trace_id, device_id, place FROM ranked_devices"
    ranks = dict(database.rows_of_trace(ranked, trace_id))
    return sorted(
        found,
        key=lambda each: (
            ranks[each.gpu.device_id if each.gpu else None],
            _ORDER.index(each.window.kind),
            each.window.start_ns,
            each.window.end_ns,
        ),
    )


_window_key = itemgetter("device_id", "kind", "name", "start_ns", "end_ns")


def _of_host(database: Session, trace_id: int, overview: dict[str, Any]) -> list[Evidence]:
    rows, waited = database.ask("cpu_time", trace=trace_id), []
    if any(row["launches"] for row in rows):
        waited = database.ask("last_wait", trace=trace_id)
    last_wait_ns = waited[0]["last_wait_ns"] if waited else None
    found = [
        Evidence(
            window=of_row(Window, row),
            host=of_row(HostThread, row, last_wait_ns=last_wait_ns),
            ops=row["operators"],
        )
        for row in rows
    ]
    if found:
        return sorted(found, key=lambda f: (_ORDER.index(f.window.kind), f.window.start_ns))
    start, span = overview["start_ns"] or 0, overview["span_ns"] or 0
    return [Evidence(window=Window("trace", "whole trace", start, start + span, span))]
