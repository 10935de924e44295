"""Steps and the window at other speeds; the timeline of one step with its critical path; and idle
gaps."""

from __future__ import annotations

import string

import altair as alt
import polars as pl
from msgspec import to_builtins

from tracekit.causes import cause_of
from tracekit.evidence.model import Period
from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure, figure, informative
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.parts import WITHOUT
from tracekit.text import duration, percent, share
from tracekit.verdict.once import named_window
from tracekit.verdict.parts import plain_part
from tracekit.verdict.regime import REGIMES, UNKNOWN, bound_by, slower_sides

# The maximum number of lanes; the least busy ones are left out.
_THREADS, _STREAMS, _GAPS = 6, 8, 5
_PATH = "critical path"
_LANE = 26
# Wider pieces (in pixels) show their name.
_NAMED = 36
_FOUND_GAPS, _LISTED_GAPS, _CULPRITS = 500, 200, 12
_NOTHING = "nothing recorded"
# The maximum number of steps that are drawn individually and can be chosen.
_MOST = 400
# The strip of more steps needs the full width of the page.
_WIDE = 16

_PARTS = {
    "compute": "compute_ns", "communication": "exposed_comm_ns", "memcpy": "exposed_memcpy_ns",
    "idle": "idle_ns",
}  # fmt: skip


def steps(subject: Subject) -> Figure | None:
    """A strip of all steps: their length by what the device did, and their regime."""
    drawn = drawn_steps(subject)
    if len(drawn) < 2:
        return None
    groups = sorted({each.group for each in drawn if each.group is not None})
    letters: dict[int | None, str] = {
        group: string.ascii_uppercase[at % 26] for at, group in enumerate(groups)
    }
    rows = pl.DataFrame(
        [
            {"step": period.window.name, "number": number, "part": part,
             "part_ns": getattr(period.gpu, column), "span_ns": period.window.span_ns,
             "regime": period.regime, "bottleneck": period.bottleneck,
             "group": letters.get(period.group, "") if len(groups) > 1 else "",
             "cold": "cold" if period.is_cold else ""}
            for number, period in enumerate(drawn)
            for part, column in _PARTS.items()
            if any(getattr(each.gpu, column) for each in drawn)
        ]
    )  # fmt: skip
    lengths = sorted(each.window.span_ns for each in drawn)
    bounds = {bound_by(each.regime, each.bottleneck) for each in drawn}
    regimes = {each.regime for each in drawn}
    same = f"All are {(bounds if len(bounds) == 1 else regimes).pop()}"
    if len(regimes) > 1:
        same = "Their regimes differ"
    return Figure(
        f"{len(drawn)} steps, from {duration(lengths[0])} to {duration(lengths[-1])}. "
        f"{same}. The line above each bar has the color of its regime"
        f"{', and steps with the same letter do the same work' if len(groups) > 1 else ''}. "
        "Click a step to see only it in what follows.",
        rows,
        _strip(rows),
        {"kind": "steps"},
        "Each step as the host ran it",
        subject.source("partition", kind="step"),
        subject.doubts("partition"),
        wide=len(drawn) > _WIDE,
    )


def drawn_steps(subject: Subject) -> list[Period]:
    """The steps that the strip shows."""
    return [step for step in subject.analysis.steps if step.gpu][:_MOST]


def _strip(rows: pl.DataFrame) -> alt.TopLevelMixin:
    regimes, parts = (rows[each].unique(maintain_order=True) for each in ("regime", "part"))
    order, short = (
        rows["step"].unique(maintain_order=True),
        "replace(datum.value, 'ProfilerStep#', '')",
    )
    axis = alt.Axis(labelExpr=short, labelOverlap=True, labelAngle=0, labelLimit=120)
    base = alt.Chart(rows).encode(
        x=alt.X("step:N", sort=charts.safe(order), title="step", axis=axis),
        color=charts.color([*parts, *regimes], "device time, regime"),
        opacity=charts.FAINT_UNLESS_CHOSEN,
    )
    tips = ("step:N", "span_ns=length", "regime:N", "bottleneck:N")
    bars = charts.with_tooltip(
        base.transform_calculate(color="datum.part"), *tips, "part:N", "part_ns=of it"
    )
    bars = bars.mark_bar().encode(y=charts.y("part_ns", "length of the step"))
    caps = base.transform_filter(f"datum.part == '{parts[0]}'")
    caps = charts.with_tooltip(caps.transform_calculate(color="datum.regime"), *tips)
    caps = caps.mark_tick(thickness=5, yOffset=-4).encode(y=alt.Y("span_ns:Q"))
    layers = [bars, caps]
    if set(rows["group"]) | set(rows["cold"]) != {""}:
        marked = base.transform_filter(f"datum.part == '{parts[0]}'").transform_calculate(
            mark="trim(datum.group + ' ' + datum.cold)"
        )
        layers.append(
            marked.mark_text(dy=-12, fontSize=10).encode(
                y=alt.Y("span_ns:Q"), text="mark:N", color=alt.value(charts.PLAIN)
            )
        )
    return charts.sized(layers, 180, charts.CHOSEN_STEP)


def faster(subject: Subject) -> Figure | None:
    """A map of replays: the window's length and the regime, by speed of host and device."""
    speeds = subject.judgement.speeds
    if not speeds or subject.analysis.verdict.regime == UNKNOWN:
        return None
    rows = pl.DataFrame([to_builtins(speed) for speed in speeds])
    rows = rows.with_columns(bound_by=pl.Series(slower_sides(speeds, subject.analysis)))
    rows = rows.with_columns(
        color=pl.col("bound_by").replace({**REGIMES, "network": "communication"})
    )
    [here] = rows.filter(host=1, device=1, network=1).rows(named=True)
    side = here["bound_by"]
    at = {"host": 1, "device": 1, "network": 1} | {side: 2}
    [twice] = rows.filter(**at)["window_ns"]
    base = alt.Chart(rows).transform_filter("datum.network == network").encode(
        x=alt.X("host:O", title="host speed, times as recorded", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("device:O", title="device speed, times as recorded", sort="descending"),
    )  # fmt: skip
    by_side = charts.color(rows["color"].to_list(), "regime")
    tips = ("host:Q", "device:Q", "network:Q", "window_ns=window")
    drawn = charts.cells(base, by_side, tips, "window_ns_text:N", stroke="white")
    command = subject.command("whatif")
    now = duration(here["window_ns"])
    if now != duration(subject.window.span_ns):
        now += f" without {WITHOUT}"
    return Figure(
        f"Now {named_window(subject.window)} takes {now}, held up by the {side}. With a {side} "
        f"twice as fast it would take {duration(twice)}.",
        rows,
        charts.sized(drawn, 220, alt.param(name="network", value=1.0)),
        {"kind": "speeds", "command": command},
        "The window at other speeds",
        f"{command} steady",
        shows=["color"],
    )


@figure("timeline_lanes", given=lambda subject: subject.interval and subject.interval.bounds)
def timeline(subject: Subject, rows: pl.DataFrame) -> Figure:
    """Threads by cause, streams by activity, and the critical path, in the median step."""
    interval = subject.interval
    assert interval is not None
    rows = pl.concat([_busiest(rows, "host", _THREADS), _busiest(rows, "device", _STREAMS)])
    rows = rows.select("lane", "side", "start_ns", "end_ns", "activity", "pieces", "name")
    path = subject.judgement.path
    pieces = [(_PATH, p.side, p.start_ns, p.start_ns + p.dur_ns, p.cause, 1, None) for p in path]
    longest = [
        row
        for row in subject.rows("idle_gaps", top=_FOUND_GAPS).to_dicts()
        if interval.start_ns <= row["start_ns"] < interval.end_ns
        and row["device_id"] == subject.device_id
    ]
    # What the host did meanwhile.
    idle = [
        ("longest gaps", "device", row["start_ns"], row["start_ns"] + row["gap_ns"],
         row["main_cause"] or "idle", 1,
         row["culprit"] or plain_part(f"idle: {row['idle_class']}", of_host=False))
        for row in longest[:_GAPS]
    ]  # fmt: skip
    for more in (pieces, idle):
        lasting = [each for each in more if each[3] > each[2]]
        rows = pl.concat([rows, pl.DataFrame(lasting, schema=rows.schema, orient="row")])
    rows = rows.with_columns(
        pl.col("start_ns", "end_ns") - interval.start_ns,
        name=pl.col("name").fill_null(""),
        color=pl.col("activity").map_elements(colors.name_of, pl.String),
    ).sort("side", "lane", "start_ns", descending=[True, False, False])
    span = interval.end_ns - interval.start_ns
    ns = dict.fromkeys(("device", "host", "unknown"), 0)
    for piece in path:
        end = min(piece.start_ns + piece.dur_ns, interval.end_ns)
        side = "unknown" if piece.cause == "unknown" else piece.side
        ns[side] += max(0, end - max(piece.start_ns, interval.start_ns))
    says = interval.why
    if total := sum(ns.values()):
        part, other = share(ns["device"], total), share(ns["unknown"], total)
        says += f" {part} of the critical path is on the device"
        says += f", {other} is not explained" if ns["unknown"] else ""
        says += ", the rest on the host." if ns["host"] else "."
    if (rows["pieces"] > 1).any():
        says += f" Pieces shorter than {duration(span / 400)} are summed up."
    return Figure(
        f"{says} Click a piece to see all of it; drag to move; shift and the wheel, or the "
        "buttons, zoom.",
        rows,
        _lanes(rows, span),
        {
            "kind": "zoom",
            "span": span,
            "trace_start": interval.start_ns - subject.rows("overview")["start_ns"][0],
            "command": subject.command("open"),
        },
        f"{interval.name}: {duration(span)}",
        wide=True,
    )


def _busiest(rows: pl.DataFrame, side: str, most: int) -> pl.DataFrame:
    """A side's busiest lanes, without threads that only wait."""
    of_side = rows.filter(side=side)
    working = of_side.filter(pl.col("activity") != "waiting")
    busy = working.group_by("lane").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    return of_side.join(
        busy.sort("ns", "lane", descending=[True, False]).head(most), on="lane"
    ).drop("ns")


def _lanes(rows: pl.DataFrame, span: int) -> alt.TopLevelMixin:
    lanes = list(dict.fromkeys(rows["lane"]))
    order = [lane for lane in lanes if lane != _PATH] + [_PATH] * (_PATH in lanes)
    zoom = alt.selection_interval(
        name="zoom", bind="scales", encodings=["x"], zoom="wheel![event.shiftKey || event.ctrlKey]"
    )
    shown = f"(zoom_start_ns ? zoom_start_ns[1] - zoom_start_ns[0] : {span})"
    pixels = f"width * (datum.end_ns - datum.start_ns) / {shown}"
    laid = alt.Chart(rows).transform_calculate(
        dur_ns="datum.end_ns - datum.start_ns",
        label="isValid(datum.label) ? datum.label : datum.name",
    )
    tips = ("lane:N", "activity:N", "name:N", "start_ns=from", "dur_ns=for", "pieces:Q")
    base = charts.with_tooltip(laid, *tips).encode(
        x=charts.x(
            "start_ns", "since the interval's start", 8,
            scale=alt.Scale(domain=[0, span], nice=False),
        ),
        y=alt.Y("lane:N", sort=order, title=None, axis=alt.Axis(labelLimit=160)),
    )  # fmt: skip
    pieces = base.mark_rect(clip=True, cursor="pointer").encode(
        x2=alt.X2("end_ns:Q"),
        color=charts.color(
            rows["color"].to_list(), "busy with",
            values=charts.listed(rows, "color", pl.col("end_ns") - pl.col("start_ns")),
        ),
    )  # fmt: skip
    names = (
        base.transform_filter(f"datum.name && {pixels} > {_NAMED}")
        .mark_text(
            align="left", baseline="middle", clip=True, dx=4, fontSize=10,
            color=charts.on_color("color"), limit=alt.ExprRef(f"{pixels} - 6"),
        )
        .encode(text=alt.Text("label:N"))
    )  # fmt: skip
    return charts.sized([pieces, names], _LANE * len(lanes), zoom)


@figure("idle_culprits", "What the host did in idle time, over the whole trace", top=_CULPRITS)
def culprits(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The host slices for which the device waits, over all gaps."""
    rows = rows.with_columns(
        culprit=pl.col("culprit").fill_null(_NOTHING),
        color=pl.col("cause").map_elements(colors.name_of, pl.String),
    )
    # A culprit of several causes has a bar for each.
    is_one = pl.col("culprit").is_unique()
    cause = pl.col("cause").cast(pl.String).str.replace_all("_", " ")
    label = pl.when(is_one).then("culprit").otherwise(pl.format("{} ({})", "culprit", cause))
    rows = rows.with_columns(label=label)
    first = rows.row(0, named=True)
    chart = charts.bars(
        alt.Chart(rows),
        charts.x("idle_ns", "device idle time"),
        charts.names("label", rows["label"].to_list()),
        charts.color(
            rows["color"].to_list(), "cause",
            values=charts.listed(rows, "color", pl.col("idle_ns")),
        ),
        20 * len(rows),
        "culprit:N", "cause:N", "idle_ns=idle", "gaps:Q",
    )  # fmt: skip
    waits = f"{cause_of(first['cause'])} in {charts.shown_name(first['culprit'])}"
    if first["culprit"] == _NOTHING:
        waits = "unrecorded time"
    says = (
        f"Most of all it waits for {waits}: "
        f"{duration(first['idle_ns'])}, {percent(first['share_of_host_late'])} of the time in "
        "which it waits for the host."
    )
    return Figure(says, informative(rows), chart, shows=["culprit", "cause"])


@figure("idle_gaps", "The longest gaps", top=_FOUND_GAPS)
def gaps(subject: Subject, rows: pl.DataFrame) -> Figure:
    """The longest gaps, with what the host did and what ended them."""
    rows = informative(subject.since_start(rows.head(_LISTED_GAPS), "start_ns"))
    if "step" in rows.columns and rows["step"].n_unique() == 1:
        rows = rows.drop("step")
    if "step" in rows.columns:
        rows = rows.with_columns(step=pl.format("ProfilerStep#{}", "step"))
    first = rows.row(0, named=True)
    step = "of" if "step" in rows.columns else None
    return Figure(
        f"The longest lasts {duration(first['gap_ns'])}; start counts from the start of the trace.",
        rows.rename({"main_cause_ns": "of_that_cause_ns"}, strict=False),
        control={"step": step, "starts": "start_ns", "lasts": "gap_ns"},
        source=subject.source("idle_gaps", top=_LISTED_GAPS),
    )
