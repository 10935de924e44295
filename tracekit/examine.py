"""Turns traces in a database into results: collects evidence on a window, judges it, and looks
for possible changes.

Replays and rules are imported on use: stored verdicts do not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import LIMITS, UNKNOWN_LIMIT, UNRECORDED
from tracekit.errors import TracekitError
from tracekit.evidence import collect
from tracekit.evidence.accounts import FIXED, Accounts
from tracekit.evidence.collect_memory import memory_of
from tracekit.evidence.model import (
    Account,
    Blocked,
    Evidence,
    OneOffEvent,
    Period,
    Trace,
    forbids_verdicts,
)
from tracekit.evidence.units import is_single_pass, recorded_units
from tracekit.replay.model import WHOLE_TRACE, WindowId
from tracekit.stages import stage
from tracekit.verdict.model import Analysis, Verdict
from tracekit.verdict.parts import with_parts
from tracekit.verdict.regime import UNKNOWN, flip_of
from tracekit.verdict.units import with_verdicts
from tracekit.verdict.windows import are_few, is_hardly_longer

if TYPE_CHECKING:
    from tracekit.advice.model import FixList
    from tracekit.database.session import Session
    from tracekit.replay.model import Causal, Gains
    from tracekit.replay.one_offs import OneOff
    from tracekit.replay.prices import WindowGains
    from tracekit.replay.replay import Replay


class Examination(Struct, frozen=True):
    """The results for one trace."""

    analysis: Analysis
    fixes: FixList | None
    """None: the trace cannot be replayed."""
    gains: WindowGains | None
    """The replays; None: not kept, or the trace cannot be replayed."""
    window_id: WindowId
    """The verdict's window."""


def examine_all(
    database: Session,
    trace_ids: Sequence[int] | None = None,
    window: str | None = None,
    on_replay: Callable[[Replay], object] | None = None,
) -> list[Analysis]:
    """The analyses of these traces, or of all traces in the database. `on_replay` is called with
    the replay of each.

    Raises:
        TracekitError: when the database has no such trace, or a trace has no such window.
    """
    chosen = database.trace_ids() if trace_ids is None else [*map(database.only, trace_ids)]
    with database.sharing():
        examined = (examine(database, each, window, on_replay=on_replay) for each in chosen)
        return [each.analysis for each in examined]


def examine(
    database: Session,
    trace_id: int,
    window: str | None = None,
    *,
    combine: bool = False,
    keep_replays: bool = False,
    on_replay: Callable[[Replay], object] | None = None,
) -> Examination:
    """The analysis of one trace, and possible changes.

    Args:
        window: `gpu_active`, `trace`, the name of a step, or the name of annotated ranges: `NAME`
            is the one of median length, `NAME@2` the second. The default is the typical step,
            without steps the GPU-active span, and without GPU ops the span of the host's busiest
            thread.
        combine: whether the list of changes has the best combination.
        keep_replays: whether the result holds the replays; their graph is large.
        on_replay: is called with the trace's replay, if it can be replayed.

    Raises:
        TracekitError: the trace has no such window, or its events cannot be read.
    """
    database.require_events(trace_id)
    with stage(f"judging trace {trace_id}"):
        return _Examiner(database, trace_id, on_replay).examine(window, combine, keep_replays)


def replayed(database: Session, analysis: Analysis) -> tuple[Replay | None, WindowId]:
    """The replay of an already judged trace, and its verdict's window; None: the trace cannot be
    replayed.

    Raises:
        TracekitError: the trace's events cannot be read.
    """
    from tracekit.replay.replay import Replay

    trace_id = analysis.trace.trace_id
    database.require_events(trace_id)
    overview = database.ask("overview", trace=trace_id)[0]
    try:
        replay = None if overview["span_ns"] is None else Replay(database, trace_id)
    except TracekitError:
        replay = None
    typical = replay.window_id() if replay else WHOLE_TRACE
    gpu, kind = analysis.judged.gpu, analysis.judged.window.kind
    if gpu is None or kind == typical.kind:
        return replay, typical
    return replay, WHOLE_TRACE if kind == "trace" else WindowId(kind, gpu.device_id or 0)


class _Examiner:
    """Examines one trace; frees the replays as soon as possible."""

    def __init__(
        self,
        database: Session,
        trace_id: int,
        on_replay: Callable[[Replay], object] | None = None,
    ) -> None:
        self.on_replay = on_replay
        self.database, self.trace_id, self.thresholds = database, trace_id, database.thresholds
        overview = database.ask("overview", trace=trace_id)[0]
        self.trace: Trace = collect.trace_of(database, trace_id, overview)
        self.accounts = Accounts(database, trace_id, overview)
        # The span is unknown when no event has a duration.
        self.is_replayable = overview["span_ns"] is not None
        self.no_replay = ""
        self.units = collect.units_of(database, trace_id)
        self.steps = collect.steps_of(database, trace_id)
        absent = database.ask("missing", trace=trace_id)
        # The messages about missing data, by code.
        self.missing = {row["code"]: row["message"] for row in absent}

    def examine(self, window: str | None, combine: bool, keep_replays: bool) -> Examination:
        from tracekit.advice.find import of_part
        from tracekit.verdict.judge import judge

        top = self.database.ask("top_kernels", trace=self.trace_id, top=10)
        window = self._step_named(window)
        ranges = self._ranges(window)
        replayed = self._replayed(ranges and ranges[0])
        replay = replayed.replay if replayed else None
        if replay is not None and self.on_replay is not None:
            self.on_replay(replay)
        main, window_id = self.accounts.chosen(window, replay, ranges and ranges[1])
        # Host-only replays price changes; the verdict on a host is by time.
        of_device = replayed if self.accounts.first.gpu else None
        causal = self._causal(main, window_id, of_device) if of_device else None
        fixes = None
        if replayed:
            of_window = causal.gains if causal else replayed.gains(window_id)
            fixes = self._fixes(main, window_id, of_window, replayed, top, combine)
        periods = self._periods(main, causal, of_device)
        one_offs: list[OneOff] = []
        marked_ns = None
        if of_device:
            one_offs = of_device.replay.one_offs
            if main.window.kind == "step" and of_device.replay.steps.are_marked:
                marked_ns = of_device.replay.steps.lasted_ns[window_id.number]
        blocked = self._blocked(of_device, window_id, main) if of_device else None
        kept = of_device if keep_replays else None
        # Frees the large graph before the next queries run.
        del replay, replayed, of_device
        events = self._events(one_offs, causal)
        if fixes and causal:
            events, causal = self._with_longest(events, causal, main, fixes)
            fixes = of_part(fixes, causal.gains.window_ns)
        evidence = self._evidence(main, causal, events, periods, fixes, top)
        verdict = judge(evidence, self.thresholds)
        if fixes:
            fixes, verdict = self._with_notes(fixes, verdict, causal)
        judged = replace(evidence.period, regime=verdict.regime, bottleneck=verdict.bottleneck)
        accounted = self.accounts.first if window is None else main
        analysis = Analysis(
            trace=self.trace,
            window=accounted.window,
            gpu=accounted.gpu,
            idle=accounted.idle,
            launch=self.accounts.launch,
            host=accounted.host,
            verdict=verdict,
            judged=judged,
            causal=causal,
            one_offs=events,
            steps=[judged if step.window == judged.window else step for step in evidence.steps],
            units=with_verdicts(self.units, evidence.steps),
            windows=[judged if each.window == judged.window else each for each in evidence.windows],
            devices=self.accounts.devices,
            top_kernels=top,
            memory_traffic=self.database.ask("memory_traffic", trace=self.trace_id),
            advice=fixes.advice if fixes else [],
            meanwhile=list(evidence.meanwhile),
            marked_ns=marked_ns,
            priced_ns=fixes.window_ns if fixes else None,
            unsure=fixes.unsure if fixes else [],
            thresholds=self.thresholds,
            settings=collect.settings_of(self.database, self.trace_id),
            together_ns=fixes.first_ns if fixes else None,
            communication=collect.communication_of(
                self.database, self.trace_id, main, self.thresholds
            ),
            blocked=blocked,
            memory=evidence.memory,
        )
        return Examination(with_parts(analysis), fixes, kept, window_id)

    # -- evidence and judgement

    def _events(self, one_offs: list[OneOff], causal: Causal | None) -> list[OneOffEvent]:
        """The one-offs with their call sites, which are also added to the critical path's links."""
        links = causal.links if causal else []
        ids = [one_off.event_id for one_off in one_offs] + [link["event_id"] for link in links]
        ids += [event_id for one_off in one_offs for event_id, _ in one_off.inner]
        sites = collect.call_sites_of(ids, self.database, self.trace_id)
        collect.name_links(links, sites)
        return collect.events_of(one_offs, sites)

    def _blocked(self, replayed: WindowGains, window_id: WindowId, main: Account) -> Blocked | None:
        """Where the host waits for the device while it works on the window."""
        replay, window = replayed.replay, main.window
        times = replay.window(window_id).on_host((window.start_ns, window.end_ns))
        least_ns = self.thresholds.named_gain * window.span_ns
        waits = replay.waits_for_device(*times)
        return collect.blocked_of(self.database, self.trace_id, waits, least_ns)

    def _with_longest(
        self, events: list[OneOffEvent], causal: Causal, main: Account, fixes: FixList
    ) -> tuple[list[OneOffEvent], Causal]:
        """The one-offs and the gains without them. If there are none and few steps were recorded,
        the longest event counts as one."""
        from tracekit.verdict.once import longest_once, without_once

        if events or recorded_units(self.units) >= self.thresholds.fewest_alike:
            return events, causal
        priced_ns = max((fix.saves_ns for fix in fixes.advice if fix.once), default=0)
        since_ns = min(each.window.start_ns for each in self.accounts.all)
        period = self._period(main, causal.gains)
        once = longest_once(period, causal, priced_ns, since_ns, self.thresholds)
        return (events, causal) if once is None else ([once], without_once(causal, once))

    def _evidence(
        self,
        main: Account,
        causal: Causal | None,
        one_offs: list[OneOffEvent],
        periods: list[Period],
        fixes: FixList | None,
        top: list[dict[str, Any]],
    ) -> Evidence:
        """All evidence for the verdict on a window; `top` are the kernels with the most time."""
        database, trace_id = self.database, self.trace_id
        dominant = ""
        if main.gpu and causal and causal.gains.removed.get(UNKNOWN_LIMIT, 0.0) > 0:
            dominant = collect.dominant_of(database, trace_id, top)
        untraced_ns = main.idle.causes.get("untraced", 0) if main.idle else 0
        asks_meanwhile = untraced_ns >= self.thresholds.small_gain * main.window.span_ns
        profiler, shaped = collect.recorder_of(database, trace_id, self.missing)
        first = next((fix for fix in fixes.advice if not fix.once), None) if fixes else None
        return Evidence(
            period=self._unjudged(main, causal.gains if causal else None),
            flip=causal.flip if causal else None,
            links=causal.links if causal else [],
            clock_shift_ns=causal.clock_shift_ns if causal else 0,
            launch=self.accounts.launch,
            no_replay=self.no_replay,
            health=self.trace.health,
            one_offs=one_offs,
            steps=[period for period in periods if period.window.kind == "step"],
            windows=[period for period in periods if period.window.kind != "step"],
            units=self.units,
            repeating=collect.repeating_of(database, trace_id, main, self.units),
            rank_wait=collect.rank_wait_of(database, trace_id, main, self.thresholds),
            profiler=profiler,
            device_word=self.trace.device_word,
            has_calls="no_runtime_calls" not in self.missing,
            shaped=shaped,
            meanwhile=database.ask("unrecorded_waits", trace=trace_id) if asks_meanwhile else [],
            holes=database.ask("holes", trace=trace_id) if asks_meanwhile else [],
            dominant=dominant,
            ops=self.accounts.first.ops,
            advised=first.cause if first else None,
            advised_remedy=first.remedy if first else None,
            advised_share=(first.share or 0.0) if first else 0.0,
            memory=memory_of(database, trace_id, self.trace.health),
        )

    def _with_notes(
        self, fixes: FixList, verdict: Verdict, causal: Causal | None
    ) -> tuple[FixList, Verdict]:
        """The list, with a note on how it relates to the verdict. If nothing in it addresses the
        device's limit, the only known bound is the peak: the list and the verdict say how near it
        is."""
        from tracekit.advice.find import without_prices
        from tracekit.advice.model import is_against
        from tracekit.verdict.next_steps import bound_then, list_notes

        if verdict.regime == UNKNOWN:
            # Prices need data that the trace lacks.
            fixes = without_prices(fixes)
        graph = causal.gains.cuda_graph if causal else 0.0
        notes = list_notes(fixes.advice, fixes.unsure, verdict, graph)
        bottleneck = verdict.bottleneck
        of_device = bottleneck in (*LIMITS, UNKNOWN_LIMIT)
        if of_device and not any(is_against(a, bottleneck) for a in fixes.advice if not a.once):
            near = collect.reached(self.database, self.trace_id, self.thresholds)
            notes += near
            verdict = replace(verdict, try_next=[*verdict.try_next, *near])
        if together := fixes.together:
            together = replace(together, then=bound_then(together, self.thresholds))
        return replace(fixes, bottleneck=bottleneck, notes=notes, together=together), verdict

    # -- replays

    def _step_named(self, window: str | None) -> str | None:
        from tracekit.replay.windows import step_named

        if window is None or window in FIXED:
            return window
        return step_named(self.database, self.trace_id, window)

    def _ranges(self, window: str | None) -> tuple[str, int | None] | None:
        """The range name in `window`, and the number of the range; None: another kind of window.

        Raises:
            TracekitError: when ranges cannot be judged.
        """
        from tracekit.replay.windows import range_of

        if window is None or window in FIXED or not self.is_replayable:
            return None
        named = range_of(self.database, self.trace_id, window)
        if named and self.accounts.first.gpu is None:
            raise TracekitError("ranges cannot be judged: the trace has no GPU ops")
        return named

    def _replayed(self, ranges: str | None) -> WindowGains | None:
        """The replays of the trace and of the ranges with a name; None: it cannot be replayed."""
        from tracekit.replay.prices import WindowGains
        from tracekit.replay.replay import Replay

        if not self.is_replayable:
            return None
        try:
            return WindowGains(Replay(self.database, self.trace_id, ranges))
        except TracekitError as error:
            if ranges is not None:
                raise TracekitError(f"ranges cannot be judged: {error}") from error
            self.no_replay = str(error)
            return None

    def _causal(self, main: Account, window_id: WindowId, replayed: WindowGains) -> Causal:
        from tracekit.verdict.recorder import without_queued

        period = Period.of(main, replayed.gains(window_id))
        flip = flip_of(period, self.thresholds, partial(replayed.halved_at, window_id))
        causal = replayed.causal(window_id, flip)
        causal = without_queued(causal, main.window, self.trace.health)
        return replace(causal, gains=causal.gains.within(main.window.span_ns))

    def _fixes(
        self,
        main: Account,
        window_id: WindowId,
        of_window: Gains,
        replayed: WindowGains,
        top: list[dict[str, Any]],
        combine: bool,
    ) -> FixList:
        from tracekit.advice.find import find

        most = max((row["count"] for row in top), default=None)
        is_unlike = most is not None and most < self.thresholds.fewest_alike
        repeats = not (is_single_pass(self.units) and (is_unlike or self._are_few()))
        # Without a device, the whole trace is replayed.
        of_host = main.gpu is None and window_id == WHOLE_TRACE
        window = replace(main.window, name="whole trace") if of_host else main.window
        with stage("pricing possible changes"):
            fixes = find(
                replayed, window_id, of_window, window, self.trace.health, self.missing,
                repeats=repeats, combine=combine,
            )  # fmt: skip
        return replace(fixes, trace=self.trace.path)

    # -- windows

    def _periods(
        self, main: Account, causal: Causal | None, replayed: WindowGains | None
    ) -> list[Period]:
        """Short verdicts on every window of the main device, or of the host."""
        periods: list[Period] = []
        ids = self.accounts.window_ids(replayed.replay if replayed else None)
        for account, window_id in zip(self.accounts.all, ids, strict=True):
            gains = replayed.gains(window_id) if replayed and account.gpu else None
            period = self._period(account, gains and gains.within(account.window.span_ns))
            if periods and is_hardly_longer(account.window, periods[0].window, self.thresholds):
                first = periods[0]
                period = replace(period, regime=first.regime, bottleneck=first.bottleneck)
            periods.append(period)
        if main not in self.accounts.all:
            periods.insert(0, self._period(main, causal.gains if causal else None))
        return periods

    def _unjudged(self, account: Account, gains: Gains | None) -> Period:
        step = self.steps.get(account.window.name, {}) if account.window.kind == "step" else {}
        return replace(Period.of(account, gains), **step)

    def _period(self, account: Account, gains: Gains | None) -> Period:
        from tracekit.verdict.judge import judge_briefly

        period = self._unjudged(account, gains)
        if forbids_verdicts(self.trace.health) or not period.is_whole:
            return period
        regime, bottleneck = judge_briefly(period, self.thresholds)
        if bottleneck == UNRECORDED and self._are_few():
            return period
        return replace(period, regime=regime, bottleneck=bottleneck)

    def _are_few(self) -> bool:
        return are_few(self.accounts.first.ops, self.units, self.thresholds)
