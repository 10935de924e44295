"""The page of a comparison: two runs side by side, changes, a flame graph of differences, and each
run's own page."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from tracekit.compare.diff import Diff, Rows, diff
from tracekit.database import catalog
from tracekit.database.catalog import Value
from tracekit.database.session import Session
from tracekit.reporters import colors
from tracekit.reporters.diff import plain_waterfall
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, Maker, figure
from tracekit.reporters.html.page import View, part_of
from tracekit.reporters.html.sections.flame import frames_chart, frames_control
from tracekit.reporters.html.subject import TOGETHER, PageSubject
from tracekit.text import counted, duration, quoted, signed
from tracekit.verdict.model import Analysis

# The first screen shows these figures of a comparison.
_FIRST = {
    "span_ns": "length",
    "idle_ns": "idle in it",
    "launches": "launches",
    "kernels": "kernels",
    "copied_bytes": "copied",
}
# "change" is already the heading of change_ns.
_CHANGE = {"change": "what changed"}
# The number of kernels, operators and modules in tables, and of parts in sentences.
_TOP = 200
# Columns that only a row's details show. The names differ if the two runs spell a kernel's name
# differently.
_HIDDEN = {"hidden": ["a_name", "b_name"]}
_NAMED = 3
_FRAME_COLUMNS = (
    "depth", "name", "kind", "change", "a_host_ns", "b_host_ns", "a_gpu_ns", "b_gpu_ns", "a_count",
    "b_count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns",
)  # fmt: skip


def diff_view(
    database: Session, a: int, b: int, analyses: Sequence[Analysis] = ()
) -> tuple[Diff, View]:
    """The changes from run a to run b; `analyses` are the verdicts on them, a's first.

    Raises:
        TracekitError: when the database has no such trace.
    """
    comparison = diff(database, a, b, _TOP)
    runs = _Comparison(database, comparison, a, b)
    figures = {row["metric"]: row for row in comparison.summary}
    facts = {
        "found": comparison,
        "title": comparison.title,
        "first": [(name, figures[metric]) for metric, name in _FIRST.items() if metric in figures],
        "with_steps": "".join(side for side in "ab" if figures and figures["steps"][side]),
        "sentences": sentences(comparison),
        "sides": {a: "a", b: "b"},
        "analyses": list(zip("ab", analyses, strict=False)),
    }
    return comparison, View(
        "diff", "a and b", "diff.html", facts, [part_of(runs, s) for s in _SECTIONS]
    )


def sentences(comparison: Diff) -> list[str]:
    """Sentences on the parts of the step that account for the difference, and on added and removed
    work."""
    changed = _changed(plain_waterfall(comparison))
    lines = [
        f"{part['part']}: {signed(part['change_ns'])}"
        f" ({duration(part['a_ns'])} in a, {duration(part['b_ns'])} in b)."
        for part in sorted(changed, key=lambda part: -abs(part["change_ns"]))[:_NAMED]
    ]
    figures = {row["metric"]: row for row in comparison.summary}
    steps = figures.get("steps")
    if steps and steps["a"] and steps["b"] and steps["a"] != steps["b"]:
        counts = ", ".join(
            f"{figures[name]['a'] / steps['a']:,.0f} and {figures[name]['b'] / steps['b']:,.0f} "
            f"{name}"
            for name in (("launches", "kernels") if figures["kernels"]["a"] else ("operators",))
        )
        of_b = counted(steps["b"], "step")
        lines.append(f"a has {counted(steps['a'], 'step')}, b {of_b}. Per step: {counts}.")
    return lines


def waterfall_chart(rows: Rows) -> alt.TopLevelMixin | None:
    """How the changes of a step's parts add up to the change of the step, as a waterfall; `rows`
    are those of the query diff_waterfall. None: nothing changed."""
    changed = [row["part"] for row in _changed(rows)]
    if not changed:
        return None
    start = rows[0]["until_ns"]
    axis = alt.Axis(labelExpr=charts.WORDS)
    y = alt.Y("part:N", title=None, sort=[*changed, "in all"], axis=axis)
    base = (
        alt.Chart(_frame(rows))
        .transform_filter("datum.part != 'a' && datum.change_ns !== 0")
        .transform_calculate(
            at=f"datum.change_ns == null ? datum.until_ns - {start} : datum.change_ns"
        )
        .transform_calculate(
            part="datum.part == 'b' ? 'in all' : datum.part",
            to_ns=f"datum.until_ns - {start}",
            from_ns=f"datum.until_ns - {start} - datum.at",
            direction="datum.at > 0 ? 'longer' : 'shorter'",
            change="(datum.at > 0 ? '+' : '') + " + charts.duration_of("datum.at"),
        )
        .transform_calculate(right="max(datum.from_ns, datum.to_ns)")
        .encode(y=y, tooltip=["part:N", "change:N"])
    )
    x = charts.x("from_ns", "change of the step", 5, scale=alt.Scale(padding=64, nice=False))
    direction = charts.shades("direction", colors.CHANGE)
    bars = base.mark_bar().encode(x=x, x2=alt.X2("to_ns:Q"), color=direction)
    labels = base.mark_text(align="left", dx=4).encode(
        x=alt.X("right:Q"), text=alt.Text("change:N")
    )
    return charts.sized([bars, labels], 21 * (len(changed) + 1))


def _classes_chart(rows: pl.DataFrame) -> alt.TopLevelMixin:
    """The GPU time of each kernel class in a and b."""
    base = (
        alt.Chart(rows)
        .transform_fold(["a_ns", "b_ns"], as_=["side", "run_ns"])
        .transform_calculate(
            run="slice(datum.side, 0, 1)",
            kernels="datum.side == 'a_ns' ? datum.a_count : datum.b_count",
        )
    )
    tips = ("class:N", "run:N", "run_ns=time per step", "kernels:Q=kernels per step|,.4~g")
    x, color = charts.x("run_ns", "GPU time per step", 5), charts.shades("run", colors.RUN)
    y = alt.Y("class:N", title=None, sort=rows["class"].to_list())
    offset = alt.YOffset("run:N", scale=alt.Scale(paddingOuter=0.1))
    return charts.bars(base, x, y, color, 32 * len(rows), *tips, yOffset=offset)


class _Comparison(PageSubject):
    """Two runs, as the input of their page's figures."""

    def __init__(self, database: Session, comparison: Diff, a: int, b: int) -> None:
        super().__init__(database)
        self.comparison = comparison
        self.runs = {"a": a, "b": b}

    def rows(self, question: str, **parameters: Value) -> pl.DataFrame:
        """The rows of the comparison; only call paths need a separate query."""
        if question == "diff_flame":
            return self.database.query(question, **self.runs)
        return _frame(getattr(self.comparison, question.removeprefix("diff_")))

    def source(self, question: str, **parameters: Value) -> str:
        """The command that prints the rows. Traces outside a database are compared again; for call
        paths, which `tracekit diff` does not print, a database is created first."""
        if not self.database.is_stored:
            paths = " ".join(quoted(path) for path in (self.comparison.a, self.comparison.b))
            if question != "diff_flame":
                return f"tracekit diff {paths} --json --top {_TOP}"
            return f"tracekit load {paths} -o {TOGETHER} && tracekit query {TOGETHER} diff_flame"
        is_limited = any(
            parameter.name == "top" for parameter in catalog.query(question).parameters
        )
        return super().source(question, **self.runs, top=_TOP if is_limited else None)

    def doubts(self, question: str) -> list[str]:
        return [
            f"{side}: {row['message']}"
            for side, number in self.runs.items()
            for row in self.findings_against(question, number)
        ]


@figure("diff_waterfall", "From a's step to b's")
def waterfall(runs: _Comparison, rows: pl.DataFrame) -> Figure | None:
    """How the parts of the step changed."""
    parts = plain_waterfall(runs.comparison)
    if not _changed(parts):
        return None
    longer = sum(max(each["change_ns"], 0) for each in _changed(parts))
    shorter = sum(min(each["change_ns"], 0) for each in _changed(parts))
    return Figure(
        f"{parts[0]['window']}. Parts that got longer: {signed(longer)}; parts that got "
        f"shorter: {signed(shorter)}; in all: {signed(longer + shorter)}.",
        _frame(parts),
        waterfall_chart(parts),
    )


@figure("diff_classes", "GPU time by kernel class")
def classes(runs: _Comparison, rows: pl.DataFrame) -> Figure:
    """The classes of kernel."""
    first = rows.row(0, named=True)
    says = (
        f"Sums of durations per step: overlapping kernels count twice. {first['class']} "
        f"changed most: {signed(first['change_ns'])}."
        if first["change_ns"]
        else "No kernel class takes more or less GPU time."
    )
    return Figure(says, rows, _classes_chart(rows), shows=["class"])


_OF_ONE, _OF_BOTH = (
    pl.col("change").is_in(each) for each in (["added", "removed"], ["count", "time"])
)


@figure("diff_kernels", "Added and removed kernels", where=_OF_ONE)
def kernels(runs: _Comparison, rows: pl.DataFrame) -> Figure:
    """Kernels that only one run has."""
    added, removed = (rows.filter(change=change) for change in ("added", "removed"))
    came, went = duration(int(added["b_ns"].sum())), duration(int(removed["a_ns"].sum()))
    return Figure(
        f"Added: {len(added):,}, with {came} per step in b. Removed: {len(removed):,}, with {went} "
        "per step in a. # stands for any number.",
        _headed(rows, "kernel", "class"),
        control=_HIDDEN,
    )


def _changes(name: str, question: str, key: str, title: str, says: str) -> Maker:
    """A table of kernels, operators, modules or parts that cost more or less in b."""

    def draw(runs: _Comparison, rows: pl.DataFrame) -> Figure | None:
        if key == "part" and not runs.comparison.has_places:
            return None
        table, ends = _headed(rows, key, "class"), _most(rows, key)
        if key == "kernel":
            return Figure(f"{says}. {ends}", table, control=_HIDDEN)
        return Figure(f"{says}; the change is of both together. {ends}", table)

    draw.__name__ = name
    where = _OF_BOTH if key == "kernel" else pl.col("change_ns") != 0
    return figure(question, title, where=where)(draw)


changed = _changes(
    "changed", "diff_kernels", "kernel", "Kernels that changed",
    "Kernels in both runs with a different number of calls (count), or the same number and a "
    "different time (time); # stands for any number",
)  # fmt: skip
operators = _changes(
    "operators", "diff_operators", "operator", "Operators",
    "Host time in the operator itself, and GPU time that it launched, per step",
)  # fmt: skip
modules = _changes(
    "modules", "diff_modules", "module", "Modules",
    "Host time with inner modules, and GPU time launched inside, per step",
)  # fmt: skip
parts = _changes(
    "parts", "diff_parts", "part", "Parts of the program",
    "Modules matched only by class and position, and their operators, so that runs on different "
    "devices and versions can be compared. Host and GPU time, per step",
)  # fmt: skip


@figure("diff_flame", "Call paths of both runs")
def flame(runs: _Comparison, rows: pl.DataFrame) -> Figure | None:
    """The call paths of both runs."""
    if not rows["host_ns"].sum():
        return None
    frames = rows.select(_FRAME_COLUMNS).rename(_CHANGE)
    return Figure(_longest_path(rows), frames, _frames(frames), frames_control(rows), wide=True)


@figure("diff_memory", "Memory at the peak, by call site", where=pl.col("change_bytes") != 0)
def memory_changes(runs: _Comparison, rows: pl.DataFrame) -> Figure:
    """Call sites that hold more or less memory at the peak."""
    return Figure(f"{runs.comparison.memory_title}.", rows.drop("a_total_bytes", "b_total_bytes"))


_SECTIONS = (
    ("changes", "Parts of the difference", (waterfall, classes)),
    ("kernels", "Kernels", (kernels, changed)),
    ("operators", "Operators and modules", (operators, modules, parts)),
    ("memory", "Memory", (memory_changes,)),
    ("flame", "Flame graph of differences", (flame,)),
)


def _changed(rows: Rows) -> Rows:
    return [row for row in rows if row["change_ns"]]


def _frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _headed(rows: pl.DataFrame, *first: str) -> pl.DataFrame:
    """The rows with these columns first, and then the changes."""
    front = [name for name in (*first, "change", "change_ns") if name in rows.columns]
    return rows.select(*front, pl.exclude(front)).rename(_CHANGE, strict=False)


def _most(rows: pl.DataFrame, key: str) -> str:
    """A sentence on the row that grew most and the one that shrank most."""
    changes = rows["change_ns"]
    ends = (("Grew", changes.arg_max(), 1), ("Shrank", changes.arg_min(), -1))
    most = [(word, rows.row(int(at or 0), named=True), sign) for word, at, sign in ends]
    return " ".join(
        f"{word} most: {charts.shown_name(row[key])}, {signed(row['change_ns'])}."
        for word, row, sign in most
        if row["change_ns"] * sign > 0
    )


def _longest_path(rows: pl.DataFrame) -> str:
    """The longest path that only one run has, and how to read the chart."""
    says = (
        "A frame's width is its time per step in both runs together; its color shows in which "
        "run it takes longer. Click a frame to zoom in."
    )
    of_one = rows.filter(_OF_ONE)
    outer = of_one.join(of_one.select(parent="node"), on="parent", how="anti")
    if outer.is_empty():
        return says
    first = outer.sort("host_ns", descending=True).row(0, named=True)
    side = "b" if first["change"] == "added" else "a"
    name = charts.shown_name(first["name"])
    return (
        f"Of the paths that only one run has, {name} takes the longest: "
        f"{duration(first['host_ns'])} of the host per step in {side}. {says}"
    )


def _frames(rows: pl.DataFrame) -> alt.TopLevelMixin:
    """Frames by call path, colored by which of the two runs they cost more."""
    shades = [colors.CHANGE["shorter"], colors.UNCHANGED, colors.CHANGE["longer"]]
    scale = alt.Scale(domain=[-1, 0, 1], range=shades)
    says = "datum.value < 0 ? 'only in a' : datum.value > 0 ? 'only in b' : 'alike'"
    legend = alt.Legend(orient="top", values=[-1, 0, 1], gradientLength=260, labelExpr=says)
    color = alt.Color("more:Q", title=None, scale=scale, legend=legend)
    in_a, in_b = (
        f"(datum.of == 'gpu_ns' ? datum.{side}_gpu_ns : datum.{side}_host_ns)" for side in "ab"
    )
    more_tips = [
        "in_a:N=in a, per step", "in_b:N=in b, per step", "kind:N=kind", "a_count:Q=count in a",
        "b_count:Q=count in b",
    ]  # fmt: skip
    computed = {"in_a": charts.duration_of(in_a), "in_b": charts.duration_of(in_b)}
    computed["more"] = f"({in_b} - {in_a}) / ({in_a} + {in_b})"
    return frames_chart(rows, color, more_tips, **computed)
