"""`run.plot`: the charts of a trace's page, to restyle and to show elsewhere."""

import polars as pl
import pytest

import tracekit
from tests.kit.atoms import US, Launch, operator, step
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.errors import TracekitError
from tracekit.reporters.html import charts
from tracekit.reporters.html.figure import Figure


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    products = [operator("aten::mm", 20 * US, Launch(5 * US, (("math", 9 * US),)))] * 12
    program = Simulation([step(number, *products) for number in range(3)])
    path = write(tmp_path_factory.mktemp("plots") / "run.json", program)
    with tracekit.load(path, verdicts=False) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def steps(run):
    return run.plot.steps()


def test_each_figure_is_a_method_that_returns_a_chart_with_its_rows(run, steps):
    assert {"timeline", "steps", "faster", "flame", "queue"} <= set(dir(run.plot))
    drawn = steps.properties(height=77).to_dict()
    assert drawn["height"] == 77
    [values] = drawn["datasets"].values()
    assert len(values) == 12
    spans = {row["step"]: row["span_ns"] for row in values}
    assert spans == {
        each.window.name: each.window.span_ns for each in run.verdict().steps if each.gpu
    }


def test_a_chart_becomes_a_picture_without_a_browser(run):
    import vl_convert

    picture = vl_convert.vegalite_to_svg(run.plot.timeline().properties(width=600).to_dict())
    assert picture.startswith("<svg")
    assert "critical path" in picture


@pytest.mark.parametrize(
    ("name", "said"),
    [("gaps", "gaps is a table"), ("memory", "nothing to show as memory")],
)
def test_unknown_charts_are_an_error_of_one_sentence(name, said, run):
    with pytest.raises(TracekitError, match=said):
        getattr(run.plot, name)()


def test_an_unknown_figure_is_refused_with_those_that_there_are(run):
    with pytest.raises(AttributeError, match="timeline"):
        run.plot.timelime  # noqa: B018


def test_a_chart_is_drawn_only_where_its_values_differ(steps):
    for values, is_drawn in (
        ([0, 0, 0], False), ([0, 0, 1], True), ([7], False), ([None, None], False),
    ):  # fmt: skip
        rows = pl.DataFrame({"at": range(len(values)), "value": values})
        assert Figure("", rows, steps, shows=["value"]).is_drawn is is_drawn
        assert not Figure("", rows).is_drawn


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
