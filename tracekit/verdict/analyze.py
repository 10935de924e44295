"""Analyzes a trace in a database: asks the queries, replays the trace, judges the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tracekit.advice.model import Judged
from tracekit.errors import TracekitError
from tracekit.thresholds import Thresholds
from tracekit.verdict.advice import are_shapes_recorded, fix_list, list_notes, replayed_host
from tracekit.verdict.judge import judge, judge_briefly
from tracekit.verdict.model import (
    Analysis,
    Beside,
    Facts,
    Finding,
    Gpu,
    HostThread,
    Idle,
    Launch,
    Period,
    Phase,
    Repetition,
    Trace,
    Window,
)
from tracekit.verdict.regime import flip_of
from tracekit.verdict.sites import Sites, events_of, name_links, sites_of, sites_of_each
from tracekit.verdict.steady import hardly_longer, repeats_nothing

if TYPE_CHECKING:
    from tracekit.advice.model import FixList
    from tracekit.database.reader import Reader
    from tracekit.replay.gains import WindowGains
    from tracekit.replay.whatif import Replay

# The queries whose answers an analysis holds; `--explain` prints them.
QUERIES = (
    "overview",
    "health",
    "capture_facts",
    "partition",
    "idle_causes",
    "launch_stats",
    "cpu_time",
    "top_kernels",
    "memory_traffic",
    "host_work",
    "device_work",
    "device_limits",
    "host_waits",
    "stream_waits",
    "replay_steps",
    "one_offs",
    "repetition",
)


# Kinds of windows; by default the verdict takes the first kind that the trace has.
_ORDER = ("range", "gpu_active", "host_active", "step", "trace")


class Examined(NamedTuple):
    """What is found out about one trace."""

    analysis: Analysis
    fixes: FixList | None
    """None: the trace cannot be replayed."""
    extra: Any
    """What `also` returned; None also if the trace cannot be replayed."""


def gather(
    database: Reader,
    trace_id: int | None = None,
    window: str | None = None,
    thresholds: Thresholds | None = None,
) -> list[Analysis]:
    """The analyses of one trace, or of all traces in the database.

    Raises:
        TracekitError: the database has no such trace, or a trace has no such window.
    """
    known = database.trace_ids()
    if trace_id is not None and trace_id not in known:
        ids = ", ".join(map(str, known))
        raise TracekitError(f"{database.name}: has no trace {trace_id}; its traces are {ids}")
    chosen = known if trace_id is None else [trace_id]
    judging = thresholds or Thresholds()
    together = database.sharing() if trace_id is None else nullcontext()
    with database.judging(judging), together:
        examinations = [_examination(database, each, window, judging) for each in chosen]
        asked = database.each(next, examinations)
        sites = sites_of_each(dict(zip(chosen, asked, strict=True)), database)
        return [
            _finished(examination, sites[each]).analysis
            for each, examination in zip(chosen, examinations, strict=True)
        ]


def analyze(
    database: Reader,
    trace_id: int,
    window: str | None = None,
    thresholds: Thresholds | None = None,
) -> Analysis:
    """Asks the queries about one trace, replays it, and judges the answers.

    See `examined`.
    """
    return examined(database, trace_id, window, thresholds).analysis


def examined(
    database: Reader,
    trace_id: int,
    window: str | None = None,
    thresholds: Thresholds | None = None,
    *,
    combine: bool = False,
    also: Callable[[WindowGains, tuple[str, int]], object] | None = None,
) -> Examined:
    """The analysis of one trace, and what could be changed.

    `window` is `gpu_active`, `trace`, the name of a step, or the name of annotated ranges: then the
    one of median length is judged, or with `NAME@2` the second. The default is the GPU-active span;
    in a trace without GPU ops, it is the span of the host's busiest thread. With `combine`, the
    list of changes tells what the best combination gives. `also` is called with the replays and the
    window, as `WindowGains.gains` names it, while their graph is in memory.

    Raises:
        TracekitError: the trace has no such window.
    """
    judging = thresholds or Thresholds()
    with database.judging(judging):
        examination = _examination(database, trace_id, window, judging, combine, also)
        return _finished(examination, sites_of(next(examination), database, trace_id))


# Gives the event_ids whose sites it needs, and gets them.
_Examination = Generator[list[int | None], Sites, Examined]


def _finished(examination: _Examination, sites: Sites) -> Examined:
    try:
        examination.send(sites)
    except StopIteration as end:
        found: Examined = end.value
        return found
    raise AssertionError("an examination asks for sites once")


def _examination(
    database: Reader,
    trace_id: int,
    window: str | None,
    thresholds: Thresholds,
    combine: bool = False,
    also: Callable[[WindowGains, tuple[str, int]], object] | None = None,
) -> _Examination:
    ranges, at = _ranges(database, trace_id, window)
    overview = database.ask("overview", trace=trace_id)[0]
    # A trace without events that last has no span.
    replayable = overview["span_ns"] is not None
    with database.in_background(
        lambda: _replay(database, trace_id, thresholds, ranges) if replayable else None
    ) as replay:
        trace = _trace(database, trace_id, overview)
        periods = _gpu_facts(database, trace_id) or _host_facts(database, trace_id, overview)
        main = periods[0] if window is None or ranges is not None else _chosen(periods, window)
        top_kernels = database.ask("top_kernels", trace=trace_id, top=10)
        memory_traffic = database.ask("memory_traffic", trace=trace_id)
        replayed, reason = _replayed(replay, trace, main)
    if ranges is not None:
        main = _range_facts(replayed, main, at, reason)
        periods = [main, *periods]
    others: list[Period] = []
    for each in periods:
        if each.gpu is None or main.gpu is None or each.gpu.device_id == main.gpu.device_id:
            gains = replayed.gains(*_number(replayed, each)) if replayed else None
            regime = judge_briefly(each, gains, thresholds)
            if others and hardly_longer(each.window, others[0].window, thresholds):
                regime = (others[0].regime, others[0].bottleneck)
            others.append(Period(each.window, each.gpu, each.idle, each.host, gains, *regime))
    causal = None
    if replayed:
        place = _number(replayed, main)
        causal = replayed.causal(*place, flip_of(main, replayed, place, thresholds))
    phases = _phases(replayed, thresholds) if replayed else []
    found = replayed.replay.one_offs if replayed else []
    advised = replayed or replayed_host(replay)
    repetition = _repetition(database, trace_id)
    extra = also(replayed, _number(replayed, main)) if replayed and also else None
    fixes = None
    if advised:
        place = ("trace", 0) if main.gpu is None else _number(advised, main)
        judged = Judged(
            *place,
            main.window.name,
            main.window.start_ns,
            main.window.end_ns,
            repeats=not repeats_nothing(repetition),
        )
        fixes = fix_list(advised, judged, trace, thresholds, combine=combine)
    # Frees the graph, which is large, before the next queries run.
    del replayed, advised, replay
    links = causal.links if causal else []
    sites = yield [each.event_id for each in found] + [link["event_id"] for link in links]
    one_offs = events_of(found, sites)
    name_links(links, sites)
    steps = [each for each in others if each.window.kind == "step"]
    windows = [each for each in others if each.window.kind != "step"]
    shaped = are_shapes_recorded(database, trace_id)
    beside = Beside(one_offs, steps, windows, repetition, shaped)
    verdict = judge(main, trace.health, causal, thresholds, beside, reason)
    if fixes:
        notes = list_notes(fixes, verdict, database, trace_id, thresholds)
        fixes = replace(fixes, bottleneck=verdict.bottleneck, notes=notes)
    analysis = Analysis(
        trace=trace,
        window=main.window,
        gpu=main.gpu,
        idle=main.idle,
        launch=main.launch,
        host=main.host,
        verdict=verdict,
        causal=causal,
        one_offs=one_offs,
        steps=steps,
        phases=phases,
        windows=windows,
        devices=[f.gpu for f in periods if f.gpu and f.window.kind == "gpu_active"],
        top_kernels=top_kernels,
        memory_traffic=memory_traffic,
        advice=fixes.advice if fixes else [],
    )
    return Examined(analysis, fixes, extra)


def _ranges(
    database: Reader, trace_id: int, window: str | None
) -> tuple[str, int | None] | tuple[None, None]:
    """The name of the ranges that `window` means, and which of them; None if it means no range."""
    if window in (None, "gpu_active", "host_active", "trace"):
        return None, None
    from tracekit.replay.windows import range_of

    return range_of(database, trace_id, window) or (None, None)


def _range_facts(replayed: WindowGains | None, span: Facts, at: int | None, reason: str) -> Facts:
    """The range of median length, or the one numbered `at`, as a window of the device."""
    from tracekit.replay.windows import typical

    if replayed is None or span.gpu is None:
        raise TracekitError(f"ranges cannot be judged: {reason or 'the trace has no GPU ops'}")
    replay = replayed.replay
    assert replay.ranges is not None
    number = typical(replay.ranges.lengths(replay.run(steady=True)), at)
    begin, end = replay.ranges.spans(replay.measured())
    name, device = f"{replay.ranges.name}@{number + 1}", span.gpu.device_id
    # On the device's clock.
    origin = replay.graph.host.origin_ns - replay.graph.device.shift_ns.get(device or 0, 0)
    rows = replay.database.ask(
        "interval_partition",
        trace=replay.trace_id,
        device=device,
        from_ns=int(begin[number]) + origin,
        to_ns=int(end[number]) + origin,
    )
    if not rows or not rows[0]["gpu_ops"]:
        raise TracekitError(f"no GPU op runs in the range {name}")
    row = rows[0]
    window = Window("range", name, row["start_ns"], row["end_ns"], row["span_ns"])
    idle = Idle(**_pick(Idle, row, causes=None), causes=row["causes"])
    return Facts(window, Gpu(**_pick(Gpu, row)), idle, span.launch, None)


def _replay(database: Reader, trace_id: int, thresholds: Thresholds, ranges: str | None) -> Replay:
    from tracekit.replay.whatif import Replay

    return Replay(database, trace_id, thresholds, ranges)


def _replayed(
    replay: Callable[[], Replay | None], trace: Trace, main: Facts
) -> tuple[WindowGains | None, str]:
    """The gains of changes in replays of the trace, or why it cannot be replayed."""
    if main.gpu is None:
        return None, ""
    from tracekit.replay.gains import WindowGains

    captured = trace.capture or {}
    profiled, plain = captured.get("profiled_step_ns"), captured.get("unprofiled_step_ns")
    known = isinstance(profiled, int) and isinstance(plain, int) and plain > 0
    dilation = profiled / plain if known else None  # type: ignore[operator]
    try:
        graph = replay()
    except TracekitError as error:
        return None, str(error)
    assert graph is not None
    return WindowGains(graph, dilation), ""


def _number(replayed: WindowGains, facts: Facts) -> tuple[str, int]:
    """The kind and number by which the replay knows this window."""
    assert facts.gpu is not None
    if facts.window.kind == "range":
        return "range", int(facts.window.name.rpartition("@")[2]) - 1
    if facts.window.kind != "step":
        return facts.window.kind, int(facts.gpu.device_id or 0)
    return "step", replayed.replay.steps.numbers[facts.window.name, facts.window.start_ns]


def _repetition(database: Reader, trace_id: int) -> Repetition | None:
    rows = database.ask("repetition", trace=trace_id)
    return Repetition(**_pick(Repetition, rows[0])) if rows else None


def _phases(replayed: WindowGains, thresholds: Thresholds) -> list[Phase]:
    ranges, steps = replayed.replay.ranges, replayed.replay.steps
    found = []
    if ranges is not None:
        for number in range(len(ranges)):
            gains = replayed.gains("range", number)
            name = f"{ranges.name}@{number + 1}"
            found.append(Phase(name, gains.window_ns, gains.host, gains.device))
        return found
    for number in range(len(steps) if "phase" in steps.kinds else 0):
        gains = replayed.gains("step", number)
        found.append(Phase(steps.names[number], gains.window_ns, gains.host, gains.device))
    # A phase that gets longer where a side is faster overlaps the phase before it: its length from
    # one completion to the next means nothing.
    if any(min(each.host_gain, each.device_gain) < -thresholds.longer_phase for each in found):
        return []
    return found


def _chosen(periods: list[Facts], window: str) -> Facts:
    for facts in periods:
        if window in (facts.window.kind, facts.window.name) and window != "step":
            return facts
    known = ", ".join(dict.fromkeys(f.window.name for f in periods))
    raise TracekitError(f"no window is named {window!r}; this trace has: {known}")


def _trace(database: Reader, trace_id: int, overview: dict[str, Any]) -> Trace:
    health = database.ask("health", trace=trace_id)
    captured = json.loads(database.ask("capture_facts", trace=trace_id)[0]["facts"] or "null")
    return Trace(
        **_pick(Trace, overview, health=None, capture=None),
        health=[Finding(**_pick(Finding, row)) for row in health],
        capture=captured if isinstance(captured, dict) else None,
    )


def _gpu_facts(database: Reader, trace_id: int) -> list[Facts]:
    """The windows of all devices: the main device first, and of each device the GPU-active span
    first."""
    causes: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in database.ask("idle_causes", trace=trace_id):
        key = _window_key(row)
        causes.setdefault(key, {})[row["cause"]] = row["idle_ns"]
    launches = {
        row["device_id"]: Launch(row["launches"], **_pick(Launch, row, count=None))
        for row in database.ask("launch_stats", trace=trace_id)
    }
    found = []
    for row in database.ask("partition", trace=trace_id):
        row["causes"] = causes.get(_window_key(row), {})
        found.append(
            Facts(
                Window(*_values(Window)(row)),
                Gpu(*_values(Gpu)(row)),
                Idle(*_values(Idle)(row)),
                launches.get(row["device_id"]),
                None,
            )
        )
    ranked = "SELECT trace_id, device_id, place FROM ranked_devices"
    ranks = dict(database.rows_of_trace(ranked, trace_id))
    return sorted(
        found,
        key=lambda f: (
            ranks[f.gpu.device_id if f.gpu else None],
            _ORDER.index(f.window.kind),
            f.window.start_ns,
        ),
    )


_window_key = itemgetter("device_id", "kind", "name", "start_ns", "end_ns")


def _host_facts(database: Reader, trace_id: int, overview: dict[str, Any]) -> list[Facts]:
    """The windows of a trace without GPU ops; without operators either, one empty window."""
    rows = database.ask("cpu_time", trace=trace_id)
    found = [
        Facts(Window(**_pick(Window, row)), None, None, None, HostThread(**_pick(HostThread, row)))
        for row in rows
    ]
    if found:
        return sorted(found, key=lambda f: (_ORDER.index(f.window.kind), f.window.start_ns))
    start, span = overview["start_ns"] or 0, overview["span_ns"] or 0
    return [
        Facts(Window("trace", "whole trace", start, start + span, span), None, None, None, None)
    ]


def _pick(kind: type, row: dict[str, Any], **without: None) -> dict[str, Any]:
    """The values of `row` for the fields of `kind`, except the fields in `without`."""
    return {each.name: row[each.name] for each in fields(kind) if each.name not in without}


@cache
def _values(kind: type) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Gets the values for the fields of `kind`, in their order, out of a row."""
    return itemgetter(*(each.name for each in fields(kind)))
