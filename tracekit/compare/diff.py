"""Compares two runs: what changed, which parts account for the time, and conditions for CI. For
runs of several ranks, the verdicts on both and the rank that differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.database import catalog
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.evidence.units import ITERATION, counted_units, named_units
from tracekit.records import Record, Shown
from tracekit.stages import stage
from tracekit.text import counted, duration, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import LateRank, RunVerdict
from tracekit.verdicts import verdict_together, verdicts

SCHEMA = "tracekit/diff/1"

_SERIOUS = ("error", "warning")

# Units whose kind an inference server tells.
_SERVED = {"prefill", "decode", "mixed"}

# The form of a module in a part's name.
_MODULE = re.compile(r"\[\d+\](/|$)")

Rows = list[dict[str, Any]]

# The queries `diff_NAME`: all rows of the first ones are shown, and the first rows of the others.
_WHOLE = ("summary", "waterfall", "classes", "units")
_LISTS = ("kernels", "operators", "modules", "parts", "memory")


class NothingInCommon(TracekitError):
    """The runs do not have a common rank."""


class Diff(Shown, frozen=True):
    """Run b compared with run a: each list has the rows of the query `diff_NAME`.

    `a` and `b` are the paths of the traces. `doubts` are the findings of the queries `health` and
    `missing`, for both runs, that make these numbers doubtful.
    """

    form: ClassVar[str] = SCHEMA

    a: str
    """The path of the trace to compare with."""
    b: str
    """The path of the trace that is compared."""
    summary: Rows
    waterfall: Rows
    classes: Rows
    kernels: Rows
    operators: Rows
    modules: Rows
    memory: Rows
    """The call sites that hold the memory at the peak; snapshots have nothing else to compare."""
    doubts: Rows
    """Reasons to doubt these numbers."""
    runs: RunComparison | None = None
    """The multi-rank runs to which the traces belong; null: the traces are compared alone."""
    parts: Rows = field(default_factory=list)
    """Parts of the program, by call site."""
    units: Rows = field(default_factory=list)
    """What each run repeats, outermost first."""

    @property
    def has_places(self) -> bool:
        """Whether parts are call sites in the program; without modules, they are operators."""
        return any(_MODULE.search(row["part"]) for row in self.parts)

    @property
    def span(self) -> dict[str, Any] | None:
        """The compared lengths `a` and `b` in ns: the whole spans if only one run has steps. None:
        not comparable, since only one run has GPU ops, or steps."""
        if self.waterfall:
            return {"a": self.waterfall[0]["a_ns"], "b": self.waterfall[-1]["b_ns"]}
        return next((row for row in self.summary if row["metric"] == "span_ns"), None)

    @property
    def is_mixed(self) -> bool:
        """Whether only one of the runs has GPU ops."""
        return "no_gpu_ops" in {row["code"] for row in self.doubts}

    @property
    def memory_title(self) -> str:
        """The memory that each run holds at its peak."""
        a, b = (size(self.memory[0][f"{side}_total_bytes"]) for side in "ab")
        return f"Memory at the peak: {a} in a, {b} in b"

    @property
    def ratio(self) -> float | None:
        """The longer length over the shorter one, to three digits; None: unknown."""
        return None if self.other_work else _ratio(self.span)

    @property
    def other_work(self) -> str:
        """A sentence if the runs repeat different things, so that their lengths say nothing of each
        other; empty: they do the same, or it is not known what they do."""
        outer = [row for row in self.units if row["level"] == 1]
        kinds = [[row["kind"] for row in outer if row[f"{side}_count"]] for side in "ab"]
        if not all(kinds) or set(kinds[0]) & set(kinds[1]) or not {*kinds[0], *kinds[1]} & _SERVED:
            return ""
        a, b = (named_units(of_side[0]) for of_side in kinds)
        return f"The two do different work, {a} in a and {b} in b, so their lengths do not compare"

    @property
    def units_differ(self) -> str:
        """A sentence if the compared units are of different kinds, which may be different amounts
        of work; empty: they are not, or `other_work` says so."""
        outer = [row for row in self.units if row["level"] == 1]
        kinds = [[row["kind"] for row in outer if row[f"{side}_count"]] for side in "ab"]
        if self.other_work or not all(kinds) or set(kinds[0]) & set(kinds[1]):
            return ""
        a, b = (named_units(of_side[0]) for of_side in kinds)
        return (
            f"a is in {a}, b in {b}: one of a may be more work than one of b. Mark the steps of "
            "both (profiler.step()) to compare like with like."
        )

    @property
    def unequal_units(self) -> dict[str, Any] | None:
        """What both runs repeat, but not equally often in the compared windows (layers of a single
        pass, or iterations of a loop): one of them is compared. None: the windows are compared."""
        both = [row for row in self.units if row["a_count"] and row["b_count"]]
        first = both[0] if both else None
        if first is None or first["a_count"] == first["b_count"]:
            return None
        return first if first["level"] > 1 or first["kind"] == ITERATION else None

    @property
    def title(self) -> str:
        """A sentence that compares the lengths of a and b, or of what both repeat."""
        if self.other_work:
            return self.other_work
        if unit := self.unequal_units:
            a, b = (counted_units(unit["kind"], unit[f"{side}_count"]) for side in "ab")
            lengths = {side: unit[f"{side}_median_ns"] for side in "ab"}
            return f"{_compared(lengths)} for each {unit['kind']} ({a} in a, {b} in b)"
        if self.span is None and self.memory:
            return self.memory_title
        return _compared(self.span)


def _ratio(span: Mapping[str, Any] | None) -> float | None:
    if span is None or not span["a"] or not span["b"]:
        return None
    return float(f"{max(span['b'] / span['a'], span['a'] / span['b']):.3g}")


def _compared(span: Mapping[str, Any] | None) -> str:
    """A sentence that compares two lengths."""
    ratio = _ratio(span)
    if span is None or ratio is None:
        return "Two runs"
    if ratio == 1:
        sentence = "b takes as long as a"
    elif span["b"] > span["a"]:
        sentence = f"b takes {ratio:.3g} times as long as a"
    else:
        sentence = f"b is {ratio:.3g} times as fast as a"
    return f"{sentence}: {duration(span['a'])} in a, {duration(span['b'])} in b"


class Pair(Struct, frozen=True):
    """Two traces of an opened database, by their trace_ids, and the runs to which they belong."""

    database: Session
    a: int
    b: int
    note: str = ""
    """A note on the chosen ranks, if there are several."""
    runs: RunComparison | None = None

    def diff(self, top: int = 20) -> Diff:
        """Compares the runs and the traces."""
        return replace(diff(self.database, self.a, self.b, top), runs=self.runs)

    def fails(self, condition: str) -> bool:
        """Whether a condition on the numbers of the traces is true."""
        return fails(self.database, condition, self.a, self.b)


@stage("comparing")
def diff(database: Session, a: int = 1, b: int = 2, top: int = 20) -> Diff:
    """Compares two traces of one database, given by trace_id. `top` limits the rows of the lists of
    kernels, operators and modules.

    Raises:
        TracekitError: when the database has no such trace.
    """
    traces = {row["trace_id"]: row for row in database.ask("overview")}
    paths = {trace_id: row["path"] for trace_id, row in traces.items()}
    for trace_id in (a, b):
        if trace_id not in paths:
            known_ids = ", ".join(map(str, paths))
            raise TracekitError(
                f"{database.name}: has no trace {trace_id}; its traces are {known_ids}"
            )
    doubts = database.findings()
    findings = {
        (row["trace_id"], row["code"]): row
        for name in ("diff_waterfall", "diff_kernels", "diff_operators")
        for row in database.doubts(name, findings=doubts)
        if row["trace_id"] in (a, b)
        and (
            row["severity"] in _SERIOUS
            or row["code"] == "no_gpu_ops"
            or _is_dilated(row, traces[row["trace_id"]]["span_ns"], database.thresholds)
        )
    }
    without = [key for key in findings if key[1] == "no_gpu_ops"]
    if len(without) == len({a, b}):
        # Runs without GPU ops are compared by host activities.
        findings = {key: row for key, row in findings.items() if key not in without}
    rows: dict[str, Any] = {name: database.ask(f"diff_{name}", a=a, b=b) for name in _WHOLE}
    rows |= {name: database.ask(f"diff_{name}", a=a, b=b, top=top) for name in _LISTS}
    return Diff(paths[a], paths[b], **rows, doubts=[*findings.values()])


def fails(database: Session, expression: str, a: int = 1, b: int = 2) -> bool:
    """Whether a condition on the numbers of two runs is true.

    `expression` is SQL over `a` and `b`, which have the columns of the query `run_metrics`, such as
    `b.span_ns > 1.05 * a.span_ns`.

    Raises:
        TracekitError: when the expression is not valid, or is neither true nor false.
    """
    figures = catalog.query("run_metrics").sql
    query = catalog.render_template(
        "read_gate", figures=figures, condition=expression, a=int(a), b=int(b)
    )
    try:
        database.require_select(query)
        _, rows = database.fetch(query)
    except TracekitError as error:
        reason = str(error).removeprefix("SQL: ").split(" | ")[0]
        raise TracekitError(
            f"cannot evaluate the condition {expression!r}: {reason}. Compare columns of a and b, "
            "as in 'b.span_ns > 1.05 * a.span_ns'"
        ) from error
    if len(rows) != 1 or rows[0][0] is None:
        reason = "it is NULL" if rows else "one of the runs has no GPU ops"
        raise TracekitError(f"cannot evaluate the condition {expression!r}: {reason}")
    return bool(rows[0][0])


# -- runs of several ranks -------------------------------------------------------------------------


class RunComparison(Record, frozen=True):
    """Run b compared with run a, each judged as a whole."""

    a: str
    """The name of the run to compare with."""
    b: str
    """The name of the run that is compared."""
    verdict_a: RunVerdict | None
    """The verdict on run a; null: none."""
    verdict_b: RunVerdict | None
    """The verdict on run b; null: none."""
    rank: int | None
    """The rank that sets the slower run's pace, whose traces are compared; null: none."""
    why: list[str]
    """What changed between the runs, as sentences; also why a run has no verdict."""


def compare_runs(a: Session, b: Session, names: tuple[str, str]) -> RunComparison | None:
    """The changes between two runs, whose ranks are in the two sessions; None: both have one
    rank."""
    if len(a.trace_ids()) == len(b.trace_ids()) == 1:
        return None
    judged_runs: list[RunVerdict | None] = []
    why: list[str] = []
    for session, name in zip((a, b), names, strict=True):
        with session.sharing():
            _, verdict, reason = verdict_together(session, verdicts(session))
        judged_runs.append(verdict)
        if reason:
            why.append(f"{name} has no verdict as one run: {reason}.")
    if judged_runs == [None, None] and not why:
        return None
    ordered = [
        (each, name) for each, name in zip(judged_runs, names, strict=True) if each is not None
    ]
    # The slower run first.
    ordered.sort(key=lambda each: -(each[0].step_ns or 0))
    pace = next((each for each in ordered if each[0].pace_rank is not None), None)
    why += [f"{name}: {each.headline}." for each, name in ordered]
    if pace is not None:
        why += _pace(*pace, [each for each in ordered if each is not pace])
    rank = None if pace is None else pace[0].pace_rank
    return RunComparison(*names, judged_runs[0], judged_runs[1], rank, why)


# The name and the rank of each trace of a run, in order.
Ranks = Sequence[tuple[str, int | None]]


def ranks_in(session: Session) -> Ranks:
    """A session's ranks, by trace_id; a trace without a rank is identified by its file's name."""
    rows = ((row["rank"], row["path"]) for row in session.ask("overview"))
    return [
        (f"file={PurePath(path).name}" if rank is None else f"rank={rank}", rank)
        for rank, path in rows
    ]


def common_rank(
    names: tuple[str, str],
    a: Ranks,
    b: Ranks,
    runs: RunComparison | None,
    rank: int | None = None,
) -> tuple[int, int, str]:
    """The given rank; by default the one that sets the pace of the slower of two runs, otherwise
    the first common one.
    Returns its index in each run, and a note that names it if there are several ranks.

    Raises:
        NothingInCommon: when the runs have no common rank.
    """
    first, second = names
    if len(a) == len(b) == 1:
        return 0, 0, ""
    require_common_rank(names, a, b, rank)
    others = {name: place for place, (name, _) in enumerate(b)}
    both = [place for place, (name, _) in enumerate(a) if name in others]
    wanted = rank if rank is not None or runs is None else runs.rank
    place = next((each for each in both if a[each][1] == wanted), both[0])
    chosen = a[place][0]
    note = (
        f"compares {chosen} of run {first!r}, which has {counted(len(a), 'trace')}, with {chosen} "
        f"of run {second!r}, which has {counted(len(b), 'trace')}"
    )
    return place, others[chosen], note


def require_common_rank(
    names: tuple[str, str], a: Ranks, b: Ranks, rank: int | None = None
) -> None:
    """Checks that two runs can be compared by a rank, the given one or any, before either is
    judged, which takes long.

    Raises:
        NothingInCommon: when the runs do not both have the rank, or have none in common.
    """
    for name, ranks in zip(names, (a, b), strict=True):
        if rank is not None and rank not in (known := [each for _, each in ranks]):
            listed = ", ".join(str(each) for each in known if each is not None) or "unknown"
            raise NothingInCommon(f"run {name!r} has no rank {rank}; its ranks are {listed}")
    if len(a) == len(b) == 1 or {name for name, _ in a} & {name for name, _ in b}:
        return
    raise NothingInCommon(
        f"run {names[0]!r} and run {names[1]!r} have no rank in common: choose one of each (of a "
        "lake, as LAKE/run=NAME/rank=N; of a database, by --trace-ids)"
    )


def _pace(run: RunVerdict, name: str, others: list[tuple[RunVerdict, str]]) -> list[str]:
    """A sentence on the extra time of the rank that sets a run's pace."""
    late = run.pace
    if late is None or late.cause is None or late.excess_ns is None:
        return []
    where = f", most of it in {late.place}" if late.place else ""
    extra = f"{duration(late.excess_ns)} more on {late.cause}"
    sentences = [
        f"In {name}, rank {late.rank} spends {extra} in the average step than its peers{where}."
    ]
    for other, its_name in others:
        same = next((rank for rank in other.late_ranks if rank.rank == late.rank), None)
        if same is None or not _is_alike(same, late):
            sentences.append(f"In {its_name} it does not.")
    return sentences


def _is_alike(one: LateRank, other: LateRank) -> bool:
    """Whether a rank is late for the same reason and by about the same time in two runs."""
    return one.cause == other.cause and 2 * (one.excess_ns or 0) >= (other.excess_ns or 0)


def _is_dilated(finding: Mapping[str, Any], span_ns: int | None, thresholds: Thresholds) -> bool:
    """Whether it is an estimate that the recorder made a trace so much longer that a measured
    length would be a warning."""
    if finding["code"] != "recorder_cost" or span_ns is None:
        return False
    return bool(span_ns > thresholds.dilation_ratio * (span_ns - finding["time_ns"]))
