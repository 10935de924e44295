"""The page of one trace: its figures hold what the run did, whatever its names are."""

import re

import polars as pl
import pytest

import tracekit
from tests.kit.atoms import US, Launch, Sync, line, operator, step
from tests.kit.sampling import sample
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tests.kit.traces import Together, device, frame, gpu_op, launch, launched, slice_event
from tests.kit.traces import operator as operator_event
from tests.kit.traces import step as marked
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure
from tracekit.reporters.html.page import page
from tracekit.reporters.html.reports import write_any
from tracekit.reporters.html.sections import work
from tracekit.reporters.html.sections.communication import bandwidth, collectives, communication
from tracekit.reporters.html.sections.flame import flame
from tracekit.reporters.html.sections.memory import copies, holders, memory
from tracekit.reporters.html.sections.timeline import faster, timeline
from tracekit.reporters.html.sections.work import counters, kernels, roofline
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.trace import health, missing, trace_view
from tracekit.verdict.regime import REGIMES


def program(number):
    """A step with operators, a wait in the middle, and one longer step among three."""
    product = operator("aten::mm", 15 * US, Launch(5 * US, (("math", 30 * US),)))
    wait = line("train.py(7): loss", Sync(3 * US))
    return step(number, *[product] * (8 if number != 2 else 16), wait, *[product] * 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = write(
        tmp_path_factory.mktemp("page") / "run.json", Simulation([program(n) for n in range(1, 4)])
    )
    with tracekit.load(path, verdicts=False) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def subject(run):
    return Subject(run, 1)


@pytest.mark.thorough
def test_each_point_of_the_map_is_what_a_replay_predicts(run, subject):
    rows = faster(subject).rows
    points = [(1, 1), (0.5, 4), (2, 1), (16, 16)]
    for host, gpu in sample("points of the map of other speeds", points, points[:2]):
        found = run.whatif("steady", f"host*{1 / host}", f"device*{1 / gpu}")
        [point] = rows.filter(host=host, device=gpu).to_dicts()
        assert point["window_ns"] == found.predicted_ns
    [now] = rows.filter(host=1, device=1).to_dicts()
    assert REGIMES[now["bound_by"]] == subject.analysis.verdict.regime
    gains = subject.analysis.causal.gains
    assert (now["host_gain"], now["device_gain"]) == pytest.approx((gains.host, gains.device))


def test_the_drawn_interval_is_the_step_of_the_verdict(subject):
    drawn, window = subject.interval, subject.window
    assert (drawn.name, drawn.start_ns, drawn.end_ns) == (
        window.name, window.start_ns, window.end_ns,
    )  # fmt: skip
    assert timeline(subject).says.startswith("Of 3 steps, the verdict is on this one.")


def test_the_critical_path_fills_the_drawn_interval(subject):
    rows = timeline(subject).rows.filter(lane="critical path")
    length = subject.interval.end_ns - subject.interval.start_ns
    assert (rows["end_ns"] - rows["start_ns"]).sum() == length
    ordered = rows.sort("start_ns")
    assert (ordered["start_ns"][1:] >= ordered["end_ns"][:-1]).all()


@pytest.mark.parametrize("bins", [3, 50, 5000])
def test_lanes_add_up_to_what_threads_and_streams_did(bins, run):
    rows = run.query("timeline_lanes", trace=1, bins=bins)
    drawn = rows.group_by("side", "activity").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    expected = run.sql(
        "SELECT 'host' AS side, activity, sum(end_ns - start_ns)::BIGINT AS ns FROM host_segment "
        "WHERE event_id IS NOT NULL GROUP BY activity UNION ALL "
        "SELECT 'device', activity::VARCHAR, sum(dur_ns)::BIGINT FROM gpu_ops GROUP BY activity"
    ).filter(pl.col("ns") > 0)
    assert sorted(drawn.rows()) == sorted(expected.rows())
    # The pieces of a thread overlap by at most one part.
    part = (rows["end_ns"].max() - rows["start_ns"].min()) / bins + 1
    for _, lane in rows.filter(side="host").group_by("lane"):
        ordered = lane.sort("start_ns")
        assert ((ordered["end_ns"][:-1] - ordered["start_ns"][1:]) <= part).all()


def require_nested(rows):
    """Each frame lies in the one around it, beside those before it."""
    ends = {}
    around = {row["node"]: row for row in rows.to_dicts()}
    for row in rows.filter(pl.col("depth") > 0).sort("host_from_ns").to_dicts():
        for side in ("host", "gpu"):
            outer, begin = around[row["parent"]], row[f"{side}_from_ns"]
            before = ends.get((side, row["parent"]), outer[f"{side}_from_ns"])
            assert before <= begin
            end = ends[side, row["parent"]] = begin + row[f"{side}_ns"]
            assert end <= outer[f"{side}_from_ns"] + outer[f"{side}_ns"]


def test_a_flame_graph_adds_up_from_the_leaves_to_the_threads(run, subject):
    rows = run.query("flame_graph", trace=1)
    require_nested(rows)
    ops, kernels = (
        run.sql("SELECT sum(dur_ns)::BIGINT FROM gpu_ops").item(),
        rows.filter(kind="gpu"),
    )
    assert rows.filter(depth=0)["gpu_ns"].sum() == kernels["gpu_ns"].sum() == ops
    counts = {row["name"]: row["count"] for row in rows.to_dicts()}
    assert (counts["aten::mm"], counts["ProfilerStep"]) == (44, 3)
    callers = rows.filter(pl.col("node").is_in(kernels["parent"].implode()))
    assert set(callers["kind"]) == {"runtime"}
    shown = flame(subject)
    window = subject.analysis.judged.window
    assert window.name in shown.title
    assert shown.source.endswith(f"from_ns={window.start_ns} --param to_ns={window.end_ns}")


def test_launches_over_time_count_each_launch_once(run):
    for bins in (1, 7, 400):
        rows = run.query("launches_over_time", trace=1, bins=bins)
        assert rows["launches"].sum() == 44
        assert len(rows) <= bins
    [whole], [stats] = run.ask("launches_over_time", bins=1), run.ask("launch_stats")
    for name in ("delay_p50_ns", "delay_p90_ns"):
        assert whole[name] == stats[name]


HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "quote\"'`${alert(1)}",
    "right\u202eto\u2066left",
    "Größe 内核 核心",
    "x" * 100_000,
)


def unlinked(linked):
    """That many linked GPU ops, and one that has no launch."""
    events = [operator_event("aten::mm", 0, 100 * linked)]
    for at in range(linked):
        events += [launch(100 * at + 10, 5, at + 1), gpu_op(100 * at + 20, 30, at + 1)]
    return [*events, gpu_op(100 * linked, 30, linked + 7)]


TRACES = Together()
NAMED = TRACES.events(
    [
        event
        for at, name in enumerate(HOSTILE)
        for event in launched([operator_event(name, 100 * at, 50)], 100 * at + 10, 100 * at + 20,
                              30, at + 1, name=f"kernel {name}")
    ]
)  # fmt: skip
CPU = TRACES.events([operator_event("aten::mm", 0, 50)])
EMPTY = TRACES.events([slice_event("overhead", "nothing", 0, 0)])
DOUBTFUL, HARDLY_DOUBTFUL = TRACES.events(unlinked(20)), TRACES.events(unlinked(300))


def test_hostile_names_do_no_harm_and_others_are_shown(loaded):
    text = page("title </title><script>", [trace_view(Subject(loaded, NAMED))])
    assert len(text) < 2_000_000
    assert "<img src=x" not in text
    # The libraries' own text has some, too.
    assert text.count("<script") == page("title", []).count("<script")
    assert "\u202e" not in text
    assert "\u2066" not in text
    assert "Größe 内核 核心" in text


@pytest.mark.parametrize("trace", [CPU, EMPTY])
def test_a_trace_without_gpu_ops_or_without_anything_has_a_page(trace, loaded, tmp_path):
    write_any(loaded, tmp_path / "page.html", trace)
    assert re.search(r"<h1>.*</h1>", (tmp_path / "page.html").read_text(), re.DOTALL)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("database", "trace"), [("run", 1), ("loaded", NAMED), ("loaded", CPU), ("loaded", EMPTY)]
)
def test_a_stored_verdict_has_the_page_of_a_new_one(database, trace, request, monkeypatch):
    session = request.getfixturevalue(database).session
    new = Subject(session, trace).judgement
    monkeypatch.setattr("tracekit.verdicts.stored_verdicts", lambda *_: {trace: new.analysis})
    monkeypatch.setattr("tracekit.examine.examine", None)
    assert Subject(session, trace).judgement == new


@pytest.mark.parametrize(("trace", "is_told"), [(DOUBTFUL, True), (HARDLY_DOUBTFUL, False)])
def test_a_doubt_is_shown_once_and_only_where_it_could_change_a_figure(trace, is_told, loaded):
    view = trace_view(Subject(loaded, trace))
    doubtful = [figure for figure in view.figures.values() if figure.doubts]
    assert bool(doubtful) is is_told
    text = page("doubts", [view])
    assert text.count("GPU ops have no launch in the trace (") == 1 + is_told
    assert text.count("Doubtful for the same reason as") == max(0, len(doubtful) - 1)


# -- kernels, memory, communication, counters and health

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MESSAGE = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000,
    "Group size": 4,
}  # fmt: skip


def allocation(ts, change, allocated, reserved=0, address=1):
    args = {
        "Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": change,
        "Total Allocated": allocated, "Total Reserved": reserved,
    }  # fmt: skip
    return slice_event("cpu_instant_event", "[memory]", ts, 0) | {"ph": "i", "s": "t", "args": args}


def product(start, correlation, op_us, dur_us, name="gemm_a"):
    call = operator_event("aten::mm", start, 20, [[512, 512], [512, 512]], ["c10::BFloat16"] * 2)
    return launched([call], start + 5, op_us, dur_us, correlation, name=name)


def overlapped():
    """A collective of 40 us, of which a product covers 10."""
    comm = launched([], 2, 20, 40, 1, name=ALLREDUCE, stream=9)
    comm[-1]["args"] |= MESSAGE
    return [*comm, *product(10, 2, 50, 30)]


PRODUCTS = [
    marked(1, 0, 100), *product(0, 1, 30, 40),
    marked(2, 100, 100), *product(100, 2, 130, 10), *product(140, 3, 170, 20, name="gemm_b"),
]  # fmt: skip
STEPS = TRACES.events(PRODUCTS)
ONE = TRACES.events(product(0, 1, 30, 10), **device("NVIDIA A100-SXM4-80GB"))
WITHOUT_SHAPES = TRACES.events(launched([operator_event("aten::mm", 0, 20)], 5, 30, 10, 1))
BARE = TRACES.events(launched([], 5, 30, 10, 1))
OVERLAPPED = TRACES.events(overlapped())
WAITING = TRACES.events(
    [
        operator_event("aten::mm", 0, 900), operator_event("aten::view", 900, 10),
        frame("threading.py(327): wait", 1, 990) | {"tid": 99},
    ]
)  # fmt: skip
MEMORY = TRACES.events(
    [
        *product(0, 1, 30, 40),
        allocation(2, 100, 100, 1000, address=1), allocation(3, 900, 1000, 2000, address=2),
        allocation(4, -900, 100, 2000, address=2), allocation(90, 50, 150, 2000, address=3),
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def of(loaded):
    """What the figures of a small trace's page ask."""
    return lambda trace: Subject(loaded, trace)


def test_kernels_are_listed_for_the_trace_and_for_each_step(of):
    found = kernels(of(STEPS))
    rows = [(r["step"], r["name"], r["count"], r["total_ns"]) for r in found.rows.to_dicts()]
    assert rows == [
        (None, "gemm_a", 2, 50_000), (None, "gemm_b", 1, 20_000),
        ("ProfilerStep#1", "gemm_a", 1, 40_000),
        ("ProfilerStep#2", "gemm_b", 1, 20_000), ("ProfilerStep#2", "gemm_a", 1, 10_000),
    ]  # fmt: skip
    assert found.says.startswith("Of all kernel time, 71.4 % is in gemm_a, which ran 2 times")
    assert found.control == {"step": "own"}


def test_the_table_of_kernels_has_the_rows_of_top_kernels(shared_ask):
    same = ("name", "class", "count", "total_ns", "mean_ns", "max_ns", "share_of_kernel_time")
    for name in ("a100-nccl.json.gz", "v100-dlrm-rank0.json.gz"):
        found = [row for row in shared_ask(name, "step_kernels") if row["step"] is None]
        expected = shared_ask(name, "top_kernels")
        assert [[row[c] for c in same] for row in found] == [
            [row[c] for c in same] for row in expected
        ]


def test_a_time_line_has_what_a_cpu_computes_and_no_thread_that_only_waits(of):
    rows = timeline(of(WAITING)).rows
    assert sorted(rows["activity"]) == ["compute", "view"]
    asked = of(WAITING).rows("timeline_lanes")
    assert "waiting" in asked["activity"].to_list()


def test_a_roofline_has_a_dot_for_each_operator_and_the_devices_roofs(of):
    found = roofline(of(ONE))
    [row] = found.rows.to_dicts()
    assert (row["operator"], row["kernel"], row["calls"]) == ("aten::mm", "gemm_a", 1)
    assert (row["peak_tflop_per_s"], row["memory_gb_per_s"]) == (312, 2039)
    assert row["tflop_per_s"] == pytest.approx(2 * 512**3 / 10_000 / 1e3)
    assert found.says.startswith("aten::mm takes most: 10 us, at ")
    assert found.chart is not None


def test_a_roofline_without_shapes_or_peaks_says_what_is_missing(of):
    found = roofline(of(WITHOUT_SHAPES))
    assert found.chart is None
    assert "no input shapes were recorded (record_shapes=True)" in found.says
    assert "peaks of its device are not known" in found.says


def test_collectives_over_time_add_up_to_the_partition(of):
    given = of(OVERLAPPED)
    found = communication(given)
    assert found.rows["communication_ns"].sum() == 40_000
    assert found.rows["overlapped_ns"].sum() == 10_000
    [part] = given.database.ask("partition", kind="gpu_active", trace=OVERLAPPED)
    assert found.rows["exposed_ns"].sum() == part["exposed_comm_ns"] == 30_000
    assert found.says == (
        "Collectives ran for 40 us of the GPU-active span. No compute covers 30 us of it (75.0 %)."
    )


def test_bins_of_memory_keep_the_peak(of):
    given = of(MEMORY)
    found = memory(given)
    assert found.rows["max_allocated_bytes"].max() == 1000
    assert found.says.startswith("At most 1 kB were allocated, of 2 kB reserved then")
    two = given.rows("memory_bins", bins=2).to_dicts()
    bounds = [(r["min_allocated_bytes"], r["max_allocated_bytes"]) for r in two]
    assert bounds == [(100, 1000), (100, 150)]
    holder = holders(given).rows.row(0, named=True)
    assert (holder["operator"], holder["live_bytes"]) == ("aten::mm", 1000)
    assert found.chart is not None


def test_missing_data_has_no_figure_and_health_says_how_to_record_it(of):
    given = of(BARE)
    absent = (communication, collectives, bandwidth, memory, holders, copies, counters)
    assert [make(given) for make in absent] == [None] * len(absent)
    assert [text.split(":")[0] for text in health(given).rows["found"]] == [
        "no Python stacks were recorded",
        "no profiler steps are marked",
    ]
    assert "profile_memory=True" in " ".join(missing(given).rows["not_in_the_trace"])


def test_a_finding_names_the_figures_that_it_touches(of):
    given = of(DOUBTFUL)
    parts = {part.name: part.figures for part in trace_view(given).parts}
    [concerned] = [
        row["figures_that_it_concerns"]
        for row in parts["health"][0].rows.to_dicts()
        if "no launch in the trace" in row["found"]
    ]
    assert "Kernels by GPU time" in concerned
    for figure in given.figures:
        if "no launch in the trace" in " ".join(figure.doubts):
            assert figure.title in concerned
    assert "One finding makes numbers doubtful." in parts["health"][0].says


# -- `run.plot`: the charts one by one


@pytest.fixture(scope="module")
def steps(run):
    return run.plot.steps()


@pytest.mark.thorough
def test_each_figure_is_a_method_that_returns_a_chart_with_its_rows(run, steps):
    assert {"timeline", "steps", "faster", "flame", "queue"} <= set(dir(run.plot))
    assert ".timeline(), " in repr(run.plot)
    drawn = steps.properties(height=77).to_dict()
    [values] = drawn["datasets"].values()
    assert (drawn["height"], len(values)) == (77, 6)
    spans = {each.window.name: each.window.span_ns for each in run.verdict().steps if each.gpu}
    assert {row["step"]: row["span_ns"] for row in values} == spans
    assert "critical path" in charts.svg(run.plot.timeline())
    for name, error, said in (
        ("gaps", tracekit.TracekitError, "gaps is a table"),
        ("memory", tracekit.TracekitError, "the trace has no data for memory"),
        ("timelime", AttributeError, "timeline"),
    ):
        with pytest.raises(error, match=said):
            getattr(run.plot, name)()


def test_a_chart_is_drawn_only_where_its_values_differ(steps):
    for values, is_drawn in (
        ([0, 0, 0], False), ([0, 0, 1], True), ([7], False), ([None, None], False),
    ):  # fmt: skip
        rows = pl.DataFrame({"at": range(len(values)), "value": values})
        assert Figure(says="", rows=rows, chart=steps, shows=["value"]).is_drawn is is_drawn
        assert not Figure(says="", rows=rows).is_drawn


@pytest.mark.parametrize(
    ("values", "weights", "lowest"),
    [
        ([1e-5, 10, 20], [1, 50, 50], 1e-2),
        ([1e-5, 10, 20], [50, 50, 50], 1e-5),
        ([0.1, 10, 20], [1, 50, 50], 0.1),
    ],
)
def test_a_few_values_far_below_all_others_do_not_flatten_a_chart(values, weights, lowest):
    found = charts.lowest_drawn(pl.Series(values), pl.Series(weights))
    assert found == pytest.approx(lowest, rel=0.99) and (found <= min(v for v in values if v > 1))


@pytest.mark.parametrize(
    ("amounts", "few"),
    [
        ({"a": 980, "b": 9, "c": 5}, {"b", "c"}),
        ({"a": 990, "b": 5}, set()),
        ({"a": 500, "b": 500}, set()),
        ({}, set()),
    ],
)
def test_a_legend_lists_no_names_of_hardly_anything(amounts, few):
    assert charts.few(amounts) == few
    rows = pl.DataFrame({"name": list(amounts), "ns": list(amounts.values())})
    assert charts.listed(rows, "name", pl.col("ns")) == [
        name for name in amounts if name not in few
    ]


def test_no_instant_on_a_page_is_before_its_origin(of):
    """The window of the device begins after the first launches."""
    late = of(OVERLAPPED)
    assert late.rows("launches_over_time")["start_ns"].min() < late.window.start_ns
    drawn = work.delays(late)
    assert drawn is not None and 0 <= drawn.rows["start_ns"].min() < 10_000
