"""The windows of a trace: what took time in each, and which one is judged."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tracekit.causes import in_words_of
from tracekit.errors import TracekitError
from tracekit.evidence.model import Account, Gpu, HostThread, Idle, Launch, Window, of_row
from tracekit.replay.model import WHOLE_TRACE, WindowId

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.replay.replay import Replay

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
        self.launch = _launch(database, trace_id, main.device_id) if main else None
        """How work reached the main device."""
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
    ) -> tuple[Account, WindowId]:
        """The window of this name, by default the one to judge, and what the replay calls it.

        Of the ranges that are replayed, it is the one numbered `at`, by default that of median
        length.

        Raises:
            TracekitError: there is no such window, or no GPU op runs in it.
        """
        ids = self.window_ids(replay)
        if window is None:
            judged = replay.window_id() if self.first.gpu and replay else None
            # Without such a step, use the first account.
            number = ids.index(judged) if judged in ids else 0
            return self.all[number], ids[number]
        if replay and replay.ranges is not None:
            return self._range(replay, at)
        for account, window_id in zip(self.all, ids, strict=True):
            if window == account.window.name or (window in FIXED and window == account.window.kind):
                return account, window_id
        raise TracekitError(
            f"no window is named {window!r}; this trace has: {', '.join(self._names)}"
        )

    def window_ids(self, replay: Replay | None) -> list[WindowId]:
        """Which window of the replay each one is."""
        numbers = _step_numbers(self.all, replay.steps.names) if replay else {}
        return [
            WHOLE_TRACE
            if account.gpu is None or replay is None or account.window.kind == "trace"
            else WindowId(account.window.kind, numbers.get(index, account.gpu.device_id or 0))
            for index, account in enumerate(self.all)
        ]

    def _range(self, replay: Replay, at: int | None) -> tuple[Account, WindowId]:
        gpu = self.first.gpu
        assert replay.ranges is not None and gpu is not None
        window_id = replay.window_id(at=at)
        number = window_id.number
        # On the device's clock.
        origin = replay.graph.host.origin_ns - replay.graph.device.shift_ns.get(
            gpu.device_id or 0, 0
        )
        begin, end = (int(ns[number]) + origin for ns in replay.ranges.spans(replay.measured()))
        named = ("range", replay.ranges.names[number])
        account = account_between(self._database, self._trace_id, self.first, named, (begin, end))
        return account, window_id


def account_between(
    database: Session, trace_id: int, of: Account, window: tuple[str, str], times: tuple[int, int]
) -> Account:
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
    return Account(named, of_row(Gpu, row), of_row(Idle, row))


def _step_numbers(accounts: Sequence[Account], names: Sequence[str]) -> dict[int, int]:
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


def _of_devices(database: Session, trace_id: int, word: str) -> list[Account]:
    causes: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in database.ask("idle_causes", trace=trace_id):
        causes.setdefault(_window_key(row), {})[row["cause"]] = row["idle_ns"]
    accounts = []
    for row in database.ask("partition", trace=trace_id):
        window, gpu = of_row(Window, row), of_row(Gpu, row)
        if window.kind == "gpu_active":
            window = replace(window, name=in_words_of(word, window.name))
        idle = of_row(Idle, row, causes=causes.get(_window_key(row), {}))
        accounts.append(Account(window, gpu, idle))
    ranked = "SELECT trace_id, device_id, place FROM ranked_devices"
    ranks = dict(database.rows_of_trace(ranked, trace_id))
    return sorted(
        accounts,
        key=lambda account: (
            ranks[account.gpu.device_id if account.gpu else None],
            _ORDER.index(account.window.kind),
            account.window.start_ns,
            account.window.end_ns,
        ),
    )


def _launch(database: Session, trace_id: int, device_id: int | None) -> Launch | None:
    rows = database.ask("launch_stats", trace=trace_id)
    row = next((row for row in rows if row["device_id"] == device_id), None)
    return of_row(Launch, row, count=row["launches"]) if row else None


_window_key = itemgetter("device_id", "kind", "name", "start_ns", "end_ns")


def _of_host(database: Session, trace_id: int, overview: dict[str, Any]) -> list[Account]:
    rows, waited = database.ask("cpu_time", trace=trace_id), []
    if any(row["launches"] for row in rows):
        waited = database.ask("last_wait", trace=trace_id)
    last_wait_ns = waited[0]["last_wait_ns"] if waited else None
    served = database.ask("server_time", trace=trace_id)
    roles = {row["role"]: row["own_ns"] for row in served if row["is_front_end"]}
    given = {"last_wait_ns": last_wait_ns, "roles": roles}
    accounts = [Account(of_row(Window, row), host=of_row(HostThread, row, **given)) for row in rows]
    if accounts:
        return sorted(
            accounts, key=lambda each: (_ORDER.index(each.window.kind), each.window.start_ns)
        )
    start, span = overview["start_ns"] or 0, overview["span_ns"] or 0
    return [Account(Window("trace", "whole trace", start, start + span, span))]
