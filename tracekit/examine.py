"""The one way from traces in a database to results: collects the evidence on a window, judges it,
and looks for possible changes.

Replays and judging are imported on use: stored verdicts do not need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import LIMITS, UNKNOWN_LIMIT
from tracekit.errors import TracekitError
from tracekit.evidence.collect import (
    account_between,
    accounts_of,
    dominant_of,
    events_of,
    name_links,
    phases_of,
    rank_wait_of,
    reached,
    recorder_of,
    repeating_of,
    repetition_of,
    sites_of,
    step_numbers,
    trace_of,
)
from tracekit.evidence.model import Evidence, Period, Trace
from tracekit.stages import stage
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import UNKNOWN, flip_of
from tracekit.verdict.windows import is_anecdote, is_hardly_longer, is_unrepeated

if TYPE_CHECKING:
    from tracekit.advice.model import FixList
    from tracekit.database.session import Session
    from tracekit.replay.model import Causal, Gains
    from tracekit.replay.prices import WindowGains
    from tracekit.replay.replay import Replay, WindowId

# Windows other than steps and ranges.
_FIXED = ("gpu_active", "host_active", "trace")


class Examination(Struct, frozen=True):
    """The results for one trace."""

    analysis: Analysis
    fixes: FixList | None
    """None: the trace cannot be replayed."""
    gains: WindowGains | None
    """The replays, if they are kept; None also if the trace cannot be replayed."""
    place: tuple[str, int]
    """The verdict's window, as `WindowGains.gains` names it."""


def examine_all(
    database: Session,
    trace_ids: Sequence[int] | None = None,
    window: str | None = None,
    thresholds: Thresholds | None = None,
) -> list[Analysis]:
    """The analyses of these traces, or of all traces in the database.

    Raises:
        TracekitError: the database has no such trace, or a trace has no such window.
    """
    chosen = database.trace_ids() if trace_ids is None else [*map(database.only, trace_ids)]
    with database.sharing():
        return [examine(database, each, window, thresholds).analysis for each in chosen]


def examine(
    database: Session,
    trace_id: int,
    window: str | None = None,
    thresholds: Thresholds | None = None,
    *,
    combine: bool = False,
    keep_replays: bool = False,
) -> Examination:
    """The analysis of one trace, and possible changes.

    Args:
        window: `gpu_active`, `trace`, the name of a step, or the name of annotated ranges: `NAME`
        is the one of median length, `NAME@2` the second. The default is the
            profiler's step of median length, without steps the GPU-active span, and without GPU ops
            the span of the host's busiest thread.
        combine: whether the list of changes has the best combination.
        keep_replays: whether the result holds the replays; their graph is large.

    Raises:
        TracekitError: the trace has no such window, or its events cannot be read.
    """
    database.require_events(trace_id)
    judging = thresholds or Thresholds()
    with database.judging(judging), stage(f"judging trace {trace_id}"):
        return _Examiner(database, trace_id, judging).examine(window, combine, keep_replays)


def replayed(database: Session, analysis: Analysis) -> tuple[Replay | None, WindowId]:
    """The replay of a trace that was judged before, and the window of its verdict, by default
    thresholds; None: it cannot be replayed.

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
    place = replay.place() if replay else ("trace", 0)
    gpu, kind = analysis.judged.gpu, analysis.judged.window.kind
    return replay, place if gpu is None or kind == place[0] else (kind, gpu.device_id or 0)


class _Examiner:
    """Examines one trace; the replays are freed once nothing needs them."""

    def __init__(self, database: Session, trace_id: int, thresholds: Thresholds) -> None:
        self.database, self.trace_id, self.thresholds = database, trace_id, thresholds
        overview = database.ask("overview", trace=trace_id)[0]
        self.trace: Trace = trace_of(database, trace_id, overview)
        accounts = accounts_of(database, trace_id, overview)
        main = accounts[0].gpu
        self.devices = [a.gpu for a in accounts if a.gpu and a.window.kind == "gpu_active"]
        self.names = list(dict.fromkeys(each.window.name for each in accounts))
        # The windows of the main device.
        self.accounts = [
            each
            for each in accounts
            if main is None or (each.gpu and each.gpu.device_id == main.device_id)
        ]
        # The span is unknown if no event has a duration.
        self.is_replayable = overview["span_ns"] is not None
        self.no_replay = ""
        self.ranges: tuple[str, int | None] | None = None
        self.repetition = repetition_of(database, trace_id)
        absent = database.ask("missing", trace=trace_id)
        # The messages about missing data, by code.
        self.missing = {row["code"]: row["message"] for row in absent}

    def examine(self, window: str | None, combine: bool, keep_replays: bool) -> Examination:
        from tracekit.advice.catalogue import is_against
        from tracekit.verdict.judge import judge
        from tracekit.verdict.next_steps import list_notes
        from tracekit.verdict.once import longest_once, without_once

        replayed = self._replayed(window)
        main, place = self._chosen(window, replayed)
        # Replays of the host alone price changes; its verdict is by time.
        of_host = self.accounts[0].gpu is None
        causal = self._causal(main, place, replayed) if replayed and not of_host else None
        fixes = None
        if replayed:
            of_window = causal.gains if causal else replayed.gains(*place)
            fixes = self._fixes(main, place, of_window, replayed, combine)
        if of_host:
            replayed = None
        periods = self._periods(replayed)
        if main not in self.accounts:
            periods.insert(0, self._period(main, causal.gains if causal else None))
        found = replayed.replay.one_offs if replayed else []
        phases = phases_of(replayed) if replayed else []
        marked_ns = None
        if replayed and main.window.kind == "step":
            marked_ns = replayed.replay.steps.lasted_ns[place[1]]
        kept = replayed if keep_replays else None
        # Frees the graph, which is large, before the next questions are asked.
        del replayed
        links = causal.links if causal else []
        ids = [each.event_id for each in found] + [link["event_id"] for link in links]
        ids += [event_id for each in found for event_id, _ in each.inner]
        sites = sites_of(ids, self.database, self.trace_id)
        name_links(links, sites)
        events = events_of(found, sites)
        if fixes and causal:
            steps = self.repetition.steps if self.repetition else 0
            if not events and steps < self.thresholds.fewest_alike:
                priced_ns = max((each.saves_ns for each in fixes.advice if each.once), default=0)
                since_ns = min(each.window.start_ns for each in self.accounts)
                period = self._period(main, causal.gains)
                once = longest_once(period, causal, priced_ns, since_ns, self.thresholds)
                if once is not None:
                    events, causal = [once], without_once(causal, once)
            fixes = fixes.of_window(causal.gains.window_ns)
        first = next((each for each in fixes.advice if not each.once), None) if fixes else None
        top = self.database.ask("top_kernels", trace=self.trace_id, top=10)
        dominant = ""
        if main.gpu and causal and causal.gains.removed.get(UNKNOWN_LIMIT, 0.0) > 0:
            dominant = dominant_of(self.database, self.trace_id, main.gpu.device_id, top)
        untraced_ns = main.idle.causes.get("untraced", 0) if main.idle else 0
        meanwhile = []
        if untraced_ns >= self.thresholds.small_gain * main.window.span_ns:
            meanwhile = self.database.ask("unrecorded_waits", trace=self.trace_id)
        profiler, shaped = recorder_of(self.database, self.trace_id, self.missing)
        evidence = replace(
            main,
            causal=causal,
            no_replay=self.no_replay,
            health=self.trace.health,
            one_offs=events,
            steps=[each for each in periods if each.window.kind == "step"],
            windows=[each for each in periods if each.window.kind != "step"],
            repetition=self.repetition,
            rank_wait=rank_wait_of(self.database, self.trace_id, main, self.thresholds),
            profiler=profiler,
            device_word=self.trace.device_word,
            has_calls="no_runtime_calls" not in self.missing,
            shaped=shaped,
            meanwhile=meanwhile,
            dominant=dominant,
            ops=self.accounts[0].ops,
            advised=first.cause if first else None,
            advised_remedy=first.remedy if first else None,
            advised_share=(first.share or 0.0) if first else 0.0,
        )
        verdict = judge(evidence, self.thresholds)
        if verdict.regime == UNKNOWN:
            repeating = repeating_of(self.database, self.trace_id, main)
            if repeating is not None:
                verdict = judge(replace(evidence, repeating=repeating), self.thresholds)
        if fixes and verdict.regime == UNKNOWN:
            # Prices rest on data that the trace lacks.
            fixes = replace(fixes, advice=[a for a in fixes.advice if a.once], together=None)
        if fixes:
            notes = list_notes(fixes.advice, verdict)
            bottleneck, advised = str(verdict.bottleneck), [a for a in fixes.advice if not a.once]
            if bottleneck in (*LIMITS, UNKNOWN_LIMIT) and not any(
                is_against(a, bottleneck) for a in advised
            ):
                # Without a remedy against it, the peak is the only bound that is known.
                near = reached(self.database, self.trace_id, self.thresholds)
                notes += near
                verdict = replace(verdict, try_next=[*verdict.try_next, *near])
            fixes = replace(fixes, bottleneck=verdict.bottleneck, notes=notes)
        judged = Period(
            main.window, main.gpu, main.idle, main.host, evidence.gains, verdict.regime,
            verdict.bottleneck,
        )  # fmt: skip
        accounted = self.accounts[0] if window is None else main
        analysis = Analysis(
            trace=self.trace,
            window=accounted.window,
            gpu=accounted.gpu,
            idle=accounted.idle,
            launch=accounted.launch,
            host=accounted.host,
            verdict=verdict,
            judged=judged,
            causal=causal,
            one_offs=list(evidence.one_offs),
            steps=[judged if each.window == judged.window else each for each in evidence.steps],
            phases=phases,
            windows=[judged if each.window == judged.window else each for each in evidence.windows],
            devices=self.devices,
            top_kernels=top,
            memory_traffic=self.database.ask("memory_traffic", trace=self.trace_id),
            advice=fixes.advice if fixes else [],
            meanwhile=meanwhile,
            marked_ns=marked_ns,
        )  # fmt: skip
        return Examination(analysis, fixes, kept, place)

    # -- replays

    def _replayed(self, window: str | None) -> WindowGains | None:
        """The replays of the trace; None if it cannot be replayed."""
        if not self.is_replayable:
            return None
        from tracekit.replay.prices import WindowGains
        from tracekit.replay.replay import Replay
        from tracekit.replay.windows import range_of

        if window is not None and window not in _FIXED:
            self.ranges = range_of(self.database, self.trace_id, window)
        name = self.ranges and self.ranges[0]
        try:
            replay = Replay(self.database, self.trace_id, self.thresholds, name)
        except TracekitError as error:
            self.no_replay = str(error)
            return None
        return WindowGains(replay)

    def _causal(self, main: Evidence, place: tuple[str, int], replayed: WindowGains) -> Causal:
        from tracekit.verdict.recorder import without_queued

        gains = replayed.gains(*place)
        flip = flip_of(self._period(main, gains), replayed, place)
        return without_queued(replayed.causal(*place, flip), main.window, self.trace.health)

    def _fixes(
        self,
        main: Evidence,
        place: tuple[str, int],
        of_window: Gains,
        replayed: WindowGains,
        combine: bool,
    ) -> FixList:
        from tracekit.advice.find import find

        # Without a device, all of the trace is replayed.
        of_host = main.gpu is None and place[0] == "trace"
        window = replace(main.window, name="whole trace") if of_host else main.window
        with stage("pricing possible changes"):
            found = find(
                replayed, place, of_window, window, self.trace.health, self.missing,
                repeats=not is_unrepeated(self.repetition), combine=combine,
            )  # fmt: skip
        return replace(found, trace=self.trace.path)

    # -- windows

    def _chosen(
        self, window: str | None, replayed: WindowGains | None
    ) -> tuple[Evidence, tuple[str, int]]:
        """The verdict's window, and its kind and number among the replays' windows."""
        first = self.accounts[0]
        if window is None:
            meant = replayed.replay.place() if first.gpu and replayed else None
            # Without such a step, use the first account.
            every = range(len(self.accounts))
            at = next((at for at in every if self._place(at, replayed) == meant), 0)
            return self.accounts[at], self._place(at, replayed)
        if self.ranges is not None:
            if first.gpu is None or replayed is None:
                reason = self.no_replay or "the trace has no GPU ops"
                raise TracekitError(f"ranges cannot be judged: {reason}")
            return self._range(first, replayed)
        for at, each in enumerate(self.accounts):
            if window == each.window.name or (window in _FIXED and window == each.window.kind):
                return each, self._place(at, replayed)
        raise TracekitError(
            f"no window is named {window!r}; this trace has: {', '.join(self.names)}"
        )

    def _range(self, device: Evidence, replayed: WindowGains) -> tuple[Evidence, tuple[str, int]]:
        """The range of median length, or the one with the number in the window's name."""
        replay, at = replayed.replay, self.ranges and self.ranges[1]
        assert replay.ranges is not None and device.gpu is not None
        number = replay.place(at=at)[1]
        # On the device's clock.
        shift_ns = replay.graph.device.shift_ns.get(device.gpu.device_id or 0, 0)
        origin = replay.graph.host.origin_ns - shift_ns
        begin, end = (int(each[number]) + origin for each in replay.ranges.spans(replay.measured()))
        named = ("range", replay.ranges.names[number])
        account = account_between(self.database, self.trace_id, device, named, (begin, end))
        return account, ("range", number)

    def _place(self, at: int, replayed: WindowGains | None) -> tuple[str, int]:
        """The kind and number by which the replay knows the window of an account."""
        account = self.accounts[at]
        if account.gpu is None or replayed is None:
            return "trace", 0
        if account.window.kind == "step":
            return "step", step_numbers(self.accounts, replayed.replay.steps.names)[at]
        return account.window.kind, int(account.gpu.device_id or 0)

    def _periods(self, replayed: WindowGains | None) -> list[Period]:
        """All windows of the main device, or of the host, judged briefly."""
        numbers = step_numbers(self.accounts, replayed.replay.steps.names) if replayed else {}
        found: list[Period] = []
        for at, each in enumerate(self.accounts):
            gains = None
            if replayed and each.gpu:
                kind = each.window.kind
                gains = replayed.gains(kind, numbers.get(at, int(each.gpu.device_id or 0)))
            period = self._period(each, gains)
            if found and is_hardly_longer(each.window, found[0].window, self.thresholds):
                first = found[0]
                period = replace(period, regime=first.regime, bottleneck=first.bottleneck)
            found.append(period)
        return found

    def _period(self, account: Evidence, gains: Gains | None) -> Period:
        from tracekit.verdict.judge import judge_briefly

        period = Period(
            account.window, account.gpu, account.idle, account.host, gains, UNKNOWN, None
        )
        regime, bottleneck = judge_briefly(period, self.thresholds)
        if is_anecdote(bottleneck, self.accounts[0].ops, self.repetition, self.thresholds):
            return period
        return replace(period, regime=regime, bottleneck=bottleneck)
