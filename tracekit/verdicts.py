"""The verdicts on the traces of a database: those that it stores, or new ones.

The rules are imported on use: stored verdicts do not need them.
"""

from __future__ import annotations

from tracekit.database.session import Session
from tracekit.errors import explained
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis, RunVerdict


def verdicts(
    database: Session, trace: int | None = None, window: str | None = None
) -> list[Analysis]:
    """The analyses of all traces, or of one trace_id: those that the database stores, unless a
    window or the session's thresholds ask for others, or other rules judged (`rows.rules`).

    Raises:
        TracekitError: there is no such trace or window, or a stored verdict cannot be read.
    """
    chosen = database.in_order() if trace is None else [database.only(trace)]
    found = stored_verdicts(database, trace, window)
    if others := [each for each in chosen if each not in found]:
        from tracekit.examine import examine_all

        with database.with_all_ranks() as whole:
            examined = examine_all(whole, others, window)
        found |= zip(others, examined, strict=True)
    return [found[each] for each in chosen]


def stored_verdicts(
    database: Session, trace: int | None = None, window: str | None = None
) -> dict[int, Analysis]:
    """The analyses that the database stores, by trace_id: of all traces, or of one trace_id. Those
    for a window or other thresholds, or by other rules (`rows.rules`), are not stored.

    Raises:
        TracekitError: a stored verdict cannot be read.
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
    """The analyses, which say who waits for whom, and the verdict of the run whose ranks these
    traces are, or why there is none.

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
    from tracekit.verdict.run_verdict import judge_run
    from tracekit.verdict.run_words import with_waits

    evidence = run_evidence(database)
    if isinstance(evidence, str):
        return analyses, None, evidence
    verdict = judge_run(evidence, analyses)
    return with_waits(analyses, verdict, evidence.thresholds), verdict, ""


def to_advise(database: Session, trace: int | None = None) -> tuple[int, str]:
    """The trace_id on which to advise, and why that one: of the ranks of a run, the one that sets
    the pace, or the median by length of those that are bound by what bounds most. No reason is
    given if there is only one trace, or if `trace` chooses it.

    Raises:
        TracekitError: there is no such trace, or several that are not one run, or of which nothing
            tells the best.
    """
    if trace is not None or len(database.trace_ids()) == 1:
        return database.only(trace), ""
    from tracekit.verdict.run_words import bound_of_most

    analyses, found, _ = verdict_together(database, verdicts(database))
    if found is not None and found.pace is not None:
        return found.pace.trace_id, f"rank {found.pace_rank}, which sets the pace"
    bound, alike = bound_of_most(analyses) if found is not None else ("", [])
    if not alike:
        return database.only(None), ""
    alike.sort(key=lambda each: each.judged.window.span_ns)
    chosen = alike[(len(alike) - 1) // 2].trace
    most = "all" if len(alike) == len(analyses) else "most"
    return chosen.trace_id, f"rank {chosen.rank}, {bound}, as {most} ranks are"
