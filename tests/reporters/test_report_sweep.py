"""The page of a sweep: its maps, lines and table hold the sweep's own numbers."""

from itertools import product

import pytest

from tracekit.experiments.points import Point, Sweep, compare
from tracekit.reporters.html.page import page
from tracekit.reporters.html.sweep import sweep_view

BASE, OTHER = "mlp-eager", "mlp-<b>fused</b>"


def point(workload, batch, dim, step_ns, speedup, regime="compute-bound", reason=None):
    low, high = (None, None) if speedup is None else (speedup * 0.98, speedup * 1.02)
    if speedup == 1:
        low = high = 1.0
    absent = dict.fromkeys(
        [
            "host_ns", "profiled_step_ns", "dilation", "operators", "launches", "kernels",
            "kernel_ns", "traffic_bytes", "traffic_bytes_per_s", "hidden", "activation",
        ]
    )  # fmt: skip
    return Point(
        trace_id=1, workload=workload, variant="eager", device="CPU", batch=batch, seq=8, dim=dim,
        dtype="fp32", reason=reason, is_wrong=False, step_ns=step_ns, spread=0.1, rows_per_s=None,
        speedup=speedup, speedup_low=low, speedup_high=high, regime=regime, bottleneck="math",
        **absent,
    )  # fmt: skip


def found_sweep():
    """A sweep of two variants at six sizes, one of which could not run."""
    points = []
    for batch, dim in product((1, 8), (64, 128, 256)):
        points.append(point(BASE, batch, dim, 1000 * dim, 1.0))
        if (batch, dim) == (8, 256):
            points.append(point(OTHER, batch, dim, None, None, None, "out of memory"))
        else:
            points.append(point(OTHER, batch, dim, 500 * dim, 2.0, "overhead-bound"))
    return Sweep(
        database="a sweep.duckdb",
        device="CPU",
        baseline=BASE,
        variants=[BASE, OTHER],
        captured=0,
        points=points,
        shapes=compare(points, BASE),
    )


@pytest.fixture(scope="module")
def found():
    return found_sweep()


@pytest.fixture(scope="module")
def figures(found):
    return sweep_view(found).figures


def test_each_size_has_a_cell_with_its_regime_and_its_fastest_variant(found, figures):
    assert figures["regimes"].rows["color"].to_list() == ["compute-bound"] * 6
    fastest = dict(zip(*figures["fastest"].rows.select("size", "fastest"), strict=True))
    expected = dict.fromkeys((f"batch {b}, dim {d}" for b in (1, 8) for d in (64, 128, 256)), OTHER)
    assert fastest == expected | {"batch 8, dim 256": BASE}
    assert set(figures["speedups"].rows["speedup"]) == {2.0}


def test_lines_and_table_hold_the_measured_times(found, figures):
    lines = figures["times"].rows
    assert sorted(lines.filter(down="batch 1", workload=BASE)["step_ns"]) == [
        64_000, 128_000, 256_000,
    ]  # fmt: skip
    table = figures["points"].rows
    assert len(table) == 12
    assert table.filter(reason="out of memory")["workload"].to_list() == [OTHER]


def test_the_page_tells_what_is_fastest_where_and_escapes_names(found):
    text = page("sweep", [sweep_view(found)])
    assert "mlp-eager is compute-bound at 6 of 6 sizes." in text
    assert "mlp-&lt;b&gt;fused&lt;/b&gt; is fastest at 5 of 6 sizes." in text
    assert "<b>fused" not in text
    assert "did not run: out of memory" in text


def test_every_figure_names_the_query_that_gives_its_rows(figures):
    for figure in figures.values():
        assert figure.source == (
            "tracekit query 'a sweep.duckdb' sweep_points --param baseline=mlp-eager"
        )


def test_a_shell_runs_no_name_that_a_database_gives():
    points = [point("$(true)", batch, 64, 1000, 1.0) for batch in (1, 8)]
    found = Sweep(
        database="s.duckdb",
        device="CPU",
        baseline="$(true)",
        variants=["$(true)"],
        captured=0,
        points=points,
        shapes=compare(points, "$(true)"),
    )
    for figure in sweep_view(found).figures.values():
        assert figure.source.endswith("--param 'baseline=$(true)'")
