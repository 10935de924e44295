"""A recorded run played again on a machine whose host or device is slower or faster.

The replay goes by the host's time. Between waits the host's clock is stretched by the host's
factor; a wait ends when the GPU ops it awaits have ended. A GPU op starts when its call has
launched it, the previous op of its stream has ended, and so has the op of another stream that it
visibly waited for."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.kit.cuts import OF_DEVICE, Event, correlation_of, is_slice

Stream = tuple[Any, Any]

# Calls that return when the device, a stream, or their own copy is done.
_WAITS_FOR_DEVICE = re.compile(r"DeviceSynchronize|CtxSynchronize|(cuda|hip)Free$")
_WAITS_FOR_STREAM = re.compile(r"(Stream|Event)Synchronize")
_COPIES = re.compile(r"Memcpy")

# A wait cannot be shorter than a call.
_CALL_US = 5.0
# Timestamps of the host and the device may disagree by this much.
_SKEW_US = 2.0
# A copy is its call's work if at least this part of it is within the call.
_MOST = 0.8
# Longer gaps are not the device's own.
_DEVICE_GAP_US = 20.0
# A launch waits while this many ops of its stream have not ended.
_QUEUE = 1024


def retimed(events: list[Event], host: float = 1.0, device: float = 1.0) -> list[Event]:
    """The events of the run in which the host's own work takes `host` times as long, and GPU ops
    take `device` times as long. Unchanged if the trace has no GPU op."""
    if not any(_is_op(each) for each in events):
        return events
    return _Replay(events, host, device).events()


@dataclass(eq=False)
class _Op:
    """A GPU op; times in microseconds since the first host event."""

    event: Event
    stream: Stream
    start: float
    end: float
    call: _Call | None
    due: float = 0.0
    """The host's time at which the op and all before it on its stream are launched."""
    after: _Op | None = None
    """The op of another stream that it waited for."""
    new_start: float = 0.0
    new_end: float = 0.0


@dataclass(eq=False)
class _Call:
    """A runtime or driver call of the host."""

    name: str
    thread: tuple[Any, Any]
    begin: float
    end: float
    ops: list[_Op] = field(default_factory=list)


class _Clock:
    """The host's new time as a function of its recorded time."""

    def __init__(self, factor: float) -> None:
        self._factor, self._olds, self._news = factor, [0.0], [0.0]

    def __call__(self, old: float) -> float:
        at = bisect_right(self._olds, old) - 1
        if at < 0:
            return old * self._factor
        old_0, new_0 = self._olds[at], self._news[at]
        if at + 1 == len(self._olds):
            return new_0 + (old - old_0) * self._factor
        old_1, new_1 = self._olds[at + 1], self._news[at + 1]
        return new_0 + (new_1 - new_0) * (old - old_0) / (old_1 - old_0)

    def wait(self, begin: float, end: float, until: float) -> None:
        """The time between `begin` and `end` was a wait, and now lasts until a new time. A wait
        within another one may only lengthen it."""
        is_within = self._olds[-1] > begin
        if is_within and until <= self(end):
            return
        self._add(begin)
        self._add(end)
        at = bisect_left(self._olds, end)
        shift = until - self._news[at]
        self._news[at:] = [new + shift for new in self._news[at:]]

    def _add(self, old: float) -> None:
        new, at = self(old), bisect_left(self._olds, old)
        if at == len(self._olds) or self._olds[at] != old:
            self._olds.insert(at, old)
            self._news.insert(at, new)


class _Replay:
    def __init__(self, events: list[Event], host: float, device: float) -> None:
        self._all, self._host, self._device = events, host, device
        self._origin = min(
            (_float(each["ts"]) for each in events if is_slice(each) and not _is_op(each)),
            default=min(_float(each["ts"]) for each in events if _is_op(each)),
        )
        self._clock = _Clock(host)
        self._calls = self._read_calls()
        self._streams = self._read_ops()
        self._delay = min(
            (
                each.start - each.call.end
                for ops in self._streams.values()
                for each in ops
                if each.call and each.start > each.call.end
            ),
            default=0.0,
        )
        self._place_ops()

    def events(self) -> list[Event]:
        """The events at their new times."""
        self._run()
        ops = {id(each.event): each for ops in self._streams.values() for each in ops}
        starts = {
            (*each.stream, each.event["ts"]): each.new_start
            for ops in self._streams.values()
            for each in ops
        }
        last = max(each.new_end for each in ops.values())
        return [self._moved(each, ops, starts, last) for each in self._all]

    # -- reading -----------------------------------------------------------------------------------

    def _read_calls(self) -> dict[Any, _Call]:
        calls: dict[Any, _Call] = {}
        for each in self._all:
            if is_slice(each) and str(each.get("cat")).endswith(("runtime", "driver", "Runtime")):
                call = _Call(str(each["name"]), _track(each), *self._times(each))
                calls.setdefault(correlation_of(each) or f"none {len(calls)}", call)
        return calls

    def _read_ops(self) -> dict[Stream, list[_Op]]:
        streams: dict[Stream, list[_Op]] = defaultdict(list)
        for each in self._all:
            if _is_op(each):
                call = self._calls.get(correlation_of(each))
                op = _Op(each, _track(each), *self._times(each), call)
                streams[op.stream].append(op)
                if call:
                    call.ops.append(op)
        for ops in streams.values():
            ops.sort(key=lambda each: each.start)
        return streams

    def _place_ops(self) -> None:
        """When each op is due, and the op of another stream that it waited for: one that ended
        just before it started, where neither its launch nor its own stream explains the start."""
        for ops in self._streams.values():
            due = before = float("-inf")
            for each in ops:
                # Ops without calls at the start were launched before the recording.
                if each.call:
                    due = max(due, each.call.begin)
                elif due > float("-inf") and each.start - before > _DEVICE_GAP_US:
                    due = max(due, each.start - _CALL_US)
                each.due, before = due, max(before, each.end)
        ends = sorted(
            (each for ops in self._streams.values() for each in ops), key=lambda each: each.end
        )
        times = [each.end for each in ends]
        for stream, ops in self._streams.items():
            before = float("-inf")
            for each in ops:
                if self._own_gap(each, before) > _CALL_US:
                    at = bisect_right(times, each.start) - 1
                    while at >= 0 and times[at] >= each.start - _CALL_US:
                        if ends[at].stream != stream and ends[at].due < each.due:
                            each.after = ends[at]
                            break
                        at -= 1
                before = max(before, each.end)

    def _own_gap(self, op: _Op, before: float) -> float:
        """The time between an op's launch, or the end of the ops before it, and its start."""
        ready = min(op.call.end, op.start) + self._delay if op.call else before
        return op.start - max(before, ready)

    # -- replay ------------------------------------------------------------------------------------

    def _run(self) -> None:
        ops = sorted(
            (each for ops in self._streams.values() for each in ops),
            key=lambda each: (each.due, each.start),
        )
        ended: dict[Stream, list[float]] = defaultdict(list)
        news: dict[Stream, list[float]] = defaultdict(list)
        last: dict[tuple[Any, Any], Stream] = {}
        launches = sorted((each.begin, each.thread) for each in self._calls.values() if each.ops)
        at = 0
        for call in sorted(self._calls.values(), key=lambda each: each.begin):
            # A copy that ends within its call is part of it.
            while at < len(ops) and ops[at].due <= call.begin:
                self._start(ops[at], ended, news)
                if ops[at].call:
                    last[ops[at].call.thread] = ops[at].stream
                at += 1
            if (awaited := self._awaited(call, ended, last.get(call.thread))) is not None:
                streams = awaited
                old = max((ended[each][-1] for each in streams), default=call.begin)
                new = max((news[each][-1] for each in streams), default=0.0)
                self._wait(call, old, new, launches)
            elif call.ops and len(queue := news[call.ops[0].stream]) > _QUEUE:
                free = queue[-_QUEUE]
                if free > self._clock(call.end):
                    self._clock.wait(call.begin, call.end, free)
        for op in ops[at:]:
            self._start(op, ended, news)

    def _start(
        self, op: _Op, ended: dict[Stream, list[float]], news: dict[Stream, list[float]]
    ) -> None:
        clock, before = self._clock, ended[op.stream]
        old_before = before[-1] if before else float("-inf")
        new_before = news[op.stream][-1] if before else float("-inf")
        gap = max(self._own_gap(op, old_before), 0.0)
        if op.call is None and not before:
            # It was launched before the recording.
            ready, gap = max(op.start, 0.0) * self._device, 0.0
        elif op.call is None and gap > _DEVICE_GAP_US and op.due > float("-inf"):
            ready, gap = clock(op.start), 0.0
        elif op.call is None:
            ready = 0.0
        elif self._copies(op.call):
            ready = clock(op.call.begin) + self._host * min(op.start - op.call.begin, _CALL_US)
        else:
            ready = clock(min(op.call.end, op.start)) + self._delay
            ready = max(ready, clock(op.call.begin))
        if not before and op.call and gap > _DEVICE_GAP_US:
            # Work from before the recording.
            ready, gap = max(ready, op.start * self._device), 0.0
        # It overlaps with the op before it as much as it did.
        free = new_before - max(0.0, old_before - op.start) * self._device
        if op.after:
            free = max(free, op.after.new_end)
            gap = op.start - op.after.end
        op.new_start = max(ready, free) + min(gap, _DEVICE_GAP_US)
        op.new_end = op.new_start + (op.end - op.start) * self._device
        ended[op.stream].append(max(old_before, op.end))
        news[op.stream].append(max(new_before, op.new_end))

    def _awaited(
        self, call: _Call, ended: dict[Stream, list[float]], last: Stream | None
    ) -> list[Stream] | None:
        """The streams whose ops a call waits for; None if it does not wait."""
        done = {each for each, ends in ended.items() if ends and ends[-1] <= call.end + _SKEW_US}
        if self._copies(call):
            return [each.stream for each in call.ops]
        if _WAITS_FOR_DEVICE.search(call.name):
            return [*done]
        if not _WAITS_FOR_STREAM.search(call.name):
            return None
        if latest := max(done, key=lambda each: ended[each][-1], default=None):
            if ended[latest][-1] > call.begin:
                return [latest]
            return [last] if last in done else []
        return []

    def _copies(self, call: _Call) -> bool:
        """Whether a call is a copy that the host takes part in. It returns with the copy's end, or
        once the last bytes are in a buffer."""
        return bool(
            call.ops
            and _COPIES.search(call.name)
            and all(
                each.end <= call.end + _SKEW_US
                or call.end - each.start > _MOST * (each.end - each.start)
                for each in call.ops
            )
        )

    def _wait(self, call: _Call, old: float, new: float, launches: list[tuple[float, Any]]) -> None:
        """Lets a call wait until its ops' new end."""
        clock, own = self._clock, min(call.end - call.begin, _CALL_US) * self._host
        if old > call.begin:
            end = min(old, call.end)
            new -= (old - end) * self._device
            own = min(end - call.begin, _CALL_US) * self._host
            first = bisect_right(launches, call.begin, key=lambda each: each[0])
            until = bisect_left(launches, end, key=lambda each: each[0])
            if any(thread != call.thread for _, thread in launches[first:until]):
                # Another thread works meanwhile.
                own = max(own, clock(end) - clock(call.begin))
            clock.wait(call.begin, end, max(clock(call.begin) + own, new))
        elif new + own > clock(call.end) and call.end > call.begin:
            clock.wait(call.begin, call.end, new + own)

    # -- writing -----------------------------------------------------------------------------------

    def _moved(
        self,
        event: Event,
        ops: dict[int, _Op],
        starts: dict[tuple[Any, Any, Any], float],
        last: float,
    ) -> Event:
        if "ts" not in event or event.get("ph") == "M":
            return event
        if op := ops.get(id(event)):
            return self._at(event, op.new_start, op.new_end) | self._args(event)
        start = _float(event["ts"]) - self._origin
        if not is_slice(event):
            new = starts.get((*_track(event), event["ts"]))
            return self._at(event, self._clock(start) if new is None else new)
        end = start + _float(event["dur"])
        if event.get("cat") == "gpu_user_annotation":
            of_stream = self._streams.get(_track(event), [])
            first = bisect_left(of_stream, start, key=lambda each: each.start)
            until = bisect_left(of_stream, end, key=lambda each: each.start)
            if within := of_stream[first:until]:
                ends = max(each.new_end for each in within)
                return self._at(event, within[0].new_start, ends)
        new_end = self._clock(end)
        if event.get("cat") == "Trace":
            new_end = max(new_end, last)
        return self._at(event, self._clock(start), new_end)

    def _at(self, event: Event, start: float, end: float | None = None) -> Event:
        """The event at these times. Both are rounded alike, so that what nested still nests."""
        begin = round(self._origin + start, 3)
        if end is None:
            return event | {"ts": begin}
        return event | {"ts": begin, "dur": round(round(self._origin + end, 3) - begin, 3)}

    def _args(self, event: Event) -> Event:
        """The arguments of a GPU op, with the bandwidth it now reaches."""
        name, args = "memory bandwidth (GB/s)", event.get("args", {})
        if not isinstance(args.get(name), int | float):
            return {}
        return {"args": args | {name: args[name] / self._device}}

    def _times(self, event: Event) -> tuple[float, float]:
        start = _float(event["ts"]) - self._origin
        return start, start + _float(event["dur"])


def _is_op(event: Event) -> bool:
    return is_slice(event) and event.get("cat") in OF_DEVICE


def _track(event: Event) -> tuple[Any, Any]:
    return event.get("pid"), event.get("tid")


def _float(value: Any) -> float:
    return float(value or 0)
