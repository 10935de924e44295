"""The page of a comparison: two runs side by side, what changed, a flame graph of differences, and
each run's own page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from tracekit.compare.diff import Diff, Rows, diff
from tracekit.database.connection import is_database
from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.page import Part, View
from tracekit.reporters.html.sections.flame import frames_chart
from tracekit.text import duration, printable

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.verdict.model import Analysis

# The first screen shows these figures of a comparison.
_FIRST = {
    "span_ns": "length",
    "idle_ns": "idle in it",
    "launches": "launches",
    "kernels": "kernels",
    "copied_bytes": "copied",
}
# "change" is the heading of change_ns already.
_CHANGE = "what changed"
# How many kernels, operators and modules the tables hold, and how many parts sentences name.
_TOP = 200
_NAMED = 3
# "change" is the heading of change_ns in other tables.
_SHOWN = (
    "depth", "name", "kind", "change", "a_host_ns", "b_host_ns", "a_gpu_ns", "b_gpu_ns", "a_count",
    "b_count", "host_ns", "gpu_ns", "host_from_ns", "gpu_from_ns",
)  # fmt: skip

# Longer names are cut in the sentence.
_LONGEST_NAME = 60


def diff_view(
    database: Session, a: int, b: int, analyses: Sequence[Analysis] = ()
) -> tuple[Diff, View]:
    """What changed from run a to run b; `analyses` are the verdicts on them, a's first.

    Raises:
        TracekitError: when the database has no such trace.
    """
    found = diff(database, a, b, _TOP)
    page = _Comparison(database, found, a, b)
    parts = [
        Part("changes", "What the difference consists of", page.changes()),
        Part("kernels", "Kernels", page.kernels()),
        Part("operators", "Operators and modules", page.operators()),
        Part("flame", "Flame graph of differences", page.flame()),
    ]
    figures = {row["metric"]: row for row in found.summary}
    facts = {
        "found": found,
        "title": found.title,
        "first": [(name, figures[metric]) for metric, name in _FIRST.items() if metric in figures],
        "with_steps": "".join(side for side in "ab" if figures and figures["steps"][side]),
        "sentences": sentences(found),
        "analyses": list(zip("ab", analyses, strict=False)),
    }
    view = View("diff", "a and b", "diff.html", facts, [part for part in parts if part.figures])
    return found, view


def sentences(found: Diff) -> list[str]:
    """Which parts of the step account for the difference, and what appeared and went."""
    told = [
        f"{part['part']}: {_signed(part['change_ns'])}"
        f" ({duration(part['a_ns'])} in a, {duration(part['b_ns'])} in b)."
        for part in sorted(_changed(found.waterfall), key=lambda part: -abs(part["change_ns"]))
    ][:_NAMED]
    figures = {row["metric"]: row for row in found.summary}
    steps = figures.get("steps")
    if steps and steps["a"] and steps["b"] and steps["a"] != steps["b"]:
        launches, kernels = figures["launches"], figures["kernels"]
        told.append(
            f"a has {_steps(steps['a'])}, b {_steps(steps['b'])}. Per step: "
            f"{launches['a'] / steps['a']:,.0f} and {launches['b'] / steps['b']:,.0f} launches, "
            f"{kernels['a'] / steps['a']:,.0f} and {kernels['b'] / steps['b']:,.0f} kernels."
        )
    return told


def waterfall_chart(rows: Rows) -> alt.TopLevelMixin | None:
    """How the changes of a step's parts add up to the change of the step, as a waterfall; `rows`
    are those of the query diff_waterfall. None: nothing changed."""
    changed = [row["part"] for row in _changed(rows)]
    if not changed:
        return None
    start = rows[0]["until_ns"]
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
        .encode(
            y=alt.Y("part:N", title=None, sort=[*changed, "in all"]),
            tooltip=["part:N", "change:N"],
        )
    )
    x = alt.X(
        "from_ns:Q",
        title="change of the step",
        axis=charts.time_axis(tickCount=5),
        scale=alt.Scale(padding=64, nice=False),
    )
    drawn = base.mark_bar().encode(
        x=x,
        x2="to_ns:Q",
        color=alt.Color(
            "direction:N",
            title=None,
            scale=alt.Scale(domain=list(colours.CHANGE), range=list(colours.CHANGE.values())),
            legend=alt.Legend(orient="top"),
        ),
    )
    labels = base.mark_text(align="left", dx=4).encode(x="right:Q", text="change:N")
    return charts.sized(drawn + labels, 21 * (len(changed) + 1))


def classes_chart(rows: pl.DataFrame) -> alt.Chart:
    """The GPU time of each class of kernel in a and in b."""
    found: alt.Chart = (
        alt.Chart(rows)
        .transform_fold(["a_ns", "b_ns"], as_=["side", "time"])
        .transform_calculate(
            run="slice(datum.side, 0, 1)", shown=charts.duration_of("datum.time"),
            kernels="datum.side == 'a_ns' ? datum.a_count : datum.b_count",
        )
        .mark_bar()
        .encode(
            y=alt.Y("class:N", title=None, sort=rows["class"].to_list()),
            yOffset=alt.YOffset("run:N", scale=alt.Scale(paddingOuter=0.1)),
            x=alt.X("time:Q", title="GPU time per step", axis=charts.time_axis(tickCount=5)),
            color=alt.Color(
                "run:N",
                title=None,
                scale=alt.Scale(domain=list(colours.RUN), range=list(colours.RUN.values())),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=[
                "class:N",
                "run:N",
                alt.Tooltip("shown:N", title="time per step"),
                alt.Tooltip("kernels:Q", title="kernels per step", format=",.4~g"),
            ],
        )
    )  # fmt: skip
    return found


class _Comparison:
    def __init__(self, database: Session, found: Diff, a: int, b: int) -> None:
        self.found = found
        self.of_both = {"a": a, "b": b}
        self.database = database

    def changes(self) -> list[Figure]:
        """The waterfall of the step, and the classes of kernel."""
        return [*self._waterfall(), *self._classes()]

    def _waterfall(self) -> list[Figure]:
        rows = self.found.waterfall
        if not _changed(rows):
            return []
        frame = _frame(rows)
        longer = sum(max(each["change_ns"], 0) for each in _changed(rows))
        shorter = sum(min(each["change_ns"], 0) for each in _changed(rows))
        says = (
            f"{rows[0]['window']}. Parts that got longer: {_signed(longer)}; parts that got "
            f"shorter: {_signed(shorter)}; in all: {_signed(longer + shorter)}."
        )
        drawn = waterfall_chart(rows)
        return [self._figure("waterfall", "From a's step to b's", says, frame, drawn)]

    def _classes(self) -> list[Figure]:
        rows = self.found.classes
        if not rows:
            return []
        first = rows[0]
        says = (
            f"Sums of durations per step: overlapping kernels count twice. {first['class']} "
            f"changed most: {_signed(first['change_ns'])}."
            if first["change_ns"]
            else "No class of kernel takes more or less GPU time."
        )
        drawn = charts.sized(classes_chart(_frame(rows)), 32 * len(rows))
        return [self._figure("classes", "GPU time by class of kernel", says, _frame(rows), drawn)]

    def kernels(self) -> list[Figure]:
        """Kernels that only one run has, and kernels of which a run has more, or slower ones."""
        rows = self.found.kernels
        added = [row for row in rows if row["change"] == "added"]
        removed = [row for row in rows if row["change"] == "removed"]
        kept = [row for row in rows if row["change"] in ("count", "time")]
        figures = []
        if added or removed:
            came, went = (_total(added, "b_ns"), _total(removed, "a_ns"))
            says = (
                f"{len(added):,} appeared and take {came} per step in b; {len(removed):,} went, "
                f"which took {went} per step in a."
            )
            shown = [row for row in rows if row["change"] in ("added", "removed")]
            name = "Kernels that appeared and went"
            figures.append(self._figure("kernels", name, says, self._kernels(shown)))
        if kept:
            says = (
                "Kernels of both runs that run more or less often (count), or equally often and "
                f"take another time (time). {_most(kept, 'kernel')}"
            )
            figures.append(
                self._figure(
                    "changed", "Kernels that changed", says, self._kernels(kept), of="kernels"
                )
            )
        return figures

    @staticmethod
    def _kernels(rows: Rows) -> pl.DataFrame:
        return _headed(_frame(rows), "kernel", "class", "change", "change_ns")

    def operators(self) -> list[Figure]:
        """Operators and modules that cost more or less."""
        figures = []
        for name, key, says in (
            (
                "operators",
                "operator",
                "Host time in the operator itself, and GPU time that it launched",
            ),
            ("modules", "module", "Host time with inner modules, and GPU time launched inside"),
        ):
            rows = [row for row in getattr(self.found, name) if row["change_ns"]]
            if rows:
                told = f"{says}, per step. {_most(rows, key)}"
                frame = _headed(_frame(rows), key, "change", "change_ns")
                figures.append(self._figure(name, name.capitalize(), told, frame))
        return figures

    def flame(self) -> list[Figure]:
        """The call paths of both runs."""
        rows = self.database.query("diff_flame", **self.of_both)
        if not rows["host_ns"].sum():
            return []
        shown = shown_rows(rows)
        return [
            Figure(
                name="flame",
                title="Call paths of both runs",
                says=sentence(rows),
                rows=shown,
                source=self._flame_source(),
                chart=differences_chart(shown),
                doubts=self._doubts("diff_flame"),
                control={"kind": "flame", "measures": 2 if rows["gpu_ns"].sum() else 1},
            )
        ]

    def _figure(
        self,
        name: str,
        title: str,
        says: str,
        rows: pl.DataFrame,
        chart: alt.TopLevelMixin | None = None,
        of: str | None = None,
    ) -> Figure:
        source, doubts = self._source(f"diff_{of or name}"), self._doubts(f"diff_{of or name}")
        return Figure(name, title, says, rows, source, chart, doubts)

    def _source(self, question: str) -> str:
        """The command that prints the rows: traces that are in no database are compared anew."""
        name = self.database.name
        if not is_database(name):
            paths = (shlex.quote(printable(path)) for path in (self.found.a, self.found.b))
            return f"tracekit diff {' '.join(paths)} --json --top {_TOP}"
        chosen = "".join(f" --param {side}={number}" for side, number in self.of_both.items())
        if question in ("diff_kernels", "diff_operators", "diff_modules"):
            chosen += f" --param top={_TOP}"
        return f"tracekit query {question} {shlex.quote(printable(name))}{chosen}"

    def _flame_source(self) -> str:
        """As _source; but `tracekit diff` prints no call paths, so a database is made first."""
        if is_database(self.database.name):
            return self._source("diff_flame")
        paths = [shlex.quote(printable(path)) for path in (self.found.a, self.found.b)]
        both = "flame-a-b.duckdb"
        return f"tracekit load {' '.join(paths)} -o {both} && tracekit query diff_flame {both}"

    def _doubts(self, question: str) -> list[str]:
        return [
            f"{side}: {row['message']}"
            for side, number in self.of_both.items()
            for row in self.database.doubts(question, number)
            if row["severity"] not in ("info", "missing")
        ]


def _changed(rows: Rows) -> Rows:
    return [row for row in rows if row["change_ns"]]


def _frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _headed(rows: pl.DataFrame, *first: str) -> pl.DataFrame:
    """The rows with these columns first, of those that there are."""
    kept = [name for name in first if name in rows.columns]
    return rows.select(*kept, pl.exclude(kept)).rename({"change": _CHANGE}, strict=False)


def _most(rows: Rows, key: str) -> str:
    longer = max(rows, key=lambda row: row["change_ns"])
    shorter = min(rows, key=lambda row: row["change_ns"])
    told = [
        f"{word}: {row[key]}, {_signed(row['change_ns'])}"
        for word, row, holds in (
            ("Grew most", longer, longer["change_ns"] > 0),
            ("Shrank most", shorter, shorter["change_ns"] < 0),
        )
        if holds
    ]
    return ". ".join(told) + "." if told else ""


def _total(rows: Rows, column: str) -> str:
    return duration(sum(row[column] for row in rows))


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + duration(ns)


def _steps(count: Any) -> str:
    return f"{count:,} step" if count == 1 else f"{count:,} steps"


def shown_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the rows of the query diff_flame, what the chart and its table show."""
    return rows.select(_SHOWN).rename({"change": "what changed"})


def sentence(rows: pl.DataFrame) -> str:
    """How to read the chart, and the longest path that only one run has."""
    told = (
        "A frame is as wide as its time per step in both runs together; its colour tells in which "
        "of them it takes longer. Click on a frame to look into it."
    )
    outer = rows.join(
        rows.filter(pl.col("change").is_in(["added", "removed"])).select(parent="node"),
        on="parent",
        how="anti",
    ).filter(pl.col("change").is_in(["added", "removed"]))
    if not len(outer):
        return told
    first = outer.sort("host_ns", descending=True).row(0, named=True)
    side = "b" if first["change"] == "added" else "a"
    name = first["name"]
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
    return (
        f"Of the paths that only one run has, {name} takes the longest: "
        f"{duration(first['host_ns'])} of the host per step in {side}. {told}"
    )


def differences_chart(rows: pl.DataFrame) -> alt.TopLevelMixin:
    """Frames by call path, coloured by which of the two runs they cost more."""
    colour = alt.Color(
        "more:Q",
        title=None,
        scale=alt.Scale(
            domain=[-1, 0, 1],
            range=[colours.CHANGE["shorter"], colours.UNCHANGED, colours.CHANGE["longer"]],
        ),
        legend=alt.Legend(
            orient="top",
            values=[-1, 0, 1],
            gradientLength=260,
            labelExpr="datum.value < 0 ? 'only in a' : datum.value > 0 ? 'only in b' : 'alike'",
        ),
    )
    told = {"in_a:N": "in a, per step", "in_b:N": "in b, per step", "kind:N": "kind"}
    told |= {"a_count:Q": "count in a", "b_count:Q": "count in b"}
    in_a, in_b = (
        f"(measure == 'gpu' ? datum.{side}_gpu_ns : datum.{side}_host_ns)" for side in "ab"
    )
    return frames_chart(
        rows,
        colour,
        told,
        in_a=charts.duration_of(in_a),
        in_b=charts.duration_of(in_b),
        more=f"({in_b} - {in_a}) / ({in_a} + {in_b})",
    )
