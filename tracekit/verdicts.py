"""The verdicts on the traces in a database, stored or new.

The rules are imported on use: stored verdicts do not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracekit.database.session import Session
from tracekit.errors import explained
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis, RunVerdict

if TYPE_CHECKING:
    from tracekit.replay.replay import Replay


def verdicts(
    database: Session,
    trace: int | None = None,
    window: str | None = None,
    on_replay: Callable[[Replay], object] | None = None,
) -> list[Analysis]:
    """The analyses of all traces, or of one trace_id. Stored ones are used, unless a window or
    the session's thresholds ask for others, or other rules judged them (`rows.rules`). `on_replay`
    is called with the replay of each other trace.

    Raises:
        TracekitError: when there is no such trace or window, or a stored verdict cannot be read.
    """
    chosen = database.in_order() if trace is None else [database.only(trace)]
    stored = stored_verdicts(database, trace, window)
    if others := [each for each in chosen if each not in stored]:
        from tracekit.examine import examine_all

        with database.with_all_ranks() as whole:
            examined = examine_all(whole, others, window, on_replay)
        stored |= zip(others, examined, strict=True)
    return [stored[each] for each in chosen]


def stored_verdicts(
    database: Session, trace: int | None = None, window: str | None = None
) -> dict[int, Analysis]:
    """The stored analyses of all traces, or of one trace_id, by trace_id. Analyses of a given
    window, with other thresholds or by other rules (`rows.rules`) are never stored.

    Raises:
        TracekitError: when a stored verdict cannot be read.
    """
    if window is not None or database.thresholds != Thresholds():
        return {}
    stored = "SELECT trace_id, analysis, judged_by FROM verdict WHERE is_main"
    if trace is not None:
        stored += f" AND trace_id = {trace:d}"
    rows = database.fetch(stored)[1]
    if not rows:
        return {}
    from tracekit.verdict.rows import judged_by, read

    with explained(f"{database.name}: a stored verdict cannot be read", ValueError):
        return {
            trace_id: read(text)
            for trace_id, text, by in rows
            if by == judged_by(database.context_of(trace_id)) or trace_id in database.without_events
        }


def verdict_together(
    database: Session, analyses: list[Analysis]
) -> tuple[list[Analysis], RunVerdict | None, str]:
    """The analyses, with who waits for whom, and the verdict on the run whose ranks are these
    traces, or why there is no such verdict.

    A single trace has neither.
    """
    if len(analyses) < 2:
        return analyses, None, ""
    runs = {rank.run for rank in getattr(database, "ranks", ())}
    if len(runs) > 1:
        return analyses, None, "these are several runs: choose one, as LAKE/run=NAME"
    if unread := database.without_events:
        return analyses, None, f"another version of tracekit wrote {len(unread):,} of the ranks"
    from tracekit.evidence.collect_run import run_evidence
    from tracekit.evidence.server import server_evidence
    from tracekit.verdict.run_verdict import judge_run
    from tracekit.verdict.run_words import with_waits

    evidence, server = run_evidence(database), server_evidence(database)
    if server is not None:
        from tracekit.verdict.server_verdict import judge_server, with_server

        if isinstance(evidence, str):
            return analyses, judge_server(server), ""
    if isinstance(evidence, str):
        return analyses, None, evidence
    verdict = judge_run(evidence, analyses)
    if server is not None:
        verdict = with_server(verdict, server)
    return with_waits(analyses, verdict, evidence.thresholds), verdict, ""


def to_advise(database: Session, trace: int | None = None) -> tuple[int, str]:
    """The trace_id on which to advise, and why that one. Of the ranks of a run, it is the rank that
    sets the pace, or the median by length of the ranks with the most common bound. There is no
    reason if there is only one trace, or if `trace` chooses it.

    Raises:
        TracekitError: when there is no such trace, several traces are not one run, or nothing tells
            which of them is best.
    """
    if trace is not None or len(database.trace_ids()) == 1:
        return database.only(trace), ""
    from tracekit.verdict.run_words import bound_of_most

    analyses, verdict, _ = verdict_together(database, verdicts(database))
    if verdict is not None and verdict.pace is not None:
        return verdict.pace.trace_id, f"rank {verdict.pace_rank}, which sets the pace"
    bound, bound_alike = bound_of_most(analyses) if verdict is not None else ("", [])
    if not bound_alike:
        return database.only(None), ""
    bound_alike.sort(key=lambda analysis: analysis.judged.window.span_ns)
    chosen = bound_alike[(len(bound_alike) - 1) // 2].trace
    most = "all" if len(bound_alike) == len(analyses) else "most"
    return chosen.trace_id, f"rank {chosen.rank}, {bound}, as {most} ranks are"
