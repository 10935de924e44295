"""The page that compares two runs: its numbers are those of `diff --json`."""

import json
import re
import shlex
import sys
from html import escape

import pytest
from msgspec.structs import replace

import tracekit
from tests.kit import traces
from tests.kit.traces import launched, operator, step
from tests.reporters.test_report_trace import require_nested
from tracekit.commands import cli
from tracekit.compare.diff import Diff
from tracekit.database.connection import is_database
from tracekit.errors import TracekitError
from tracekit.reporters import notebook
from tracekit.reporters.diff import headline, plain_waterfall
from tracekit.reporters.html.diff import _Comparison, diff_view, sentences, waterfall_chart
from tracekit.reporters.html.subject import Subject
from tracekit.verdict.model import Analysis

HOSTILE = "mul</script><b>&"
FIGURES = ("waterfall", "classes", "kernels", "changed", "operators", "flame")


def write(folder, name, gemm_us, gap_us, extra, steps=2):
    """Steps of a gap, a GEMM and a kernel called `extra`."""
    events = []
    for i in range(steps):
        at = 1000 * i
        mm = operator("aten::mm", at + 1, 40, [[8, 16], [16, 4]], ["float", "float"])
        last = at + 20 + gap_us + gemm_us
        events += [
            step(i, at, last - at + 20),
            *launched([mm], at + gap_us, at + 10 + gap_us, gemm_us, 10 * i + 1, name="sgemm"),
            *launched([operator(extra, at + 50, 9)], at + 51, last, 15, 10 * i + 2, name=extra),
        ]
    return traces.write(folder / name, events)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a diff")
    return [
        write(folder, "a.json", 200, 5, "add_kernel"),
        write(folder, "b.json", 100, 35, HOSTILE, steps=3),
    ]


@pytest.fixture(scope="module")
def two(paths):
    with tracekit.load(paths, verdicts=False) as database:
        yield database


@pytest.fixture(scope="module")
def found(two):
    return two.diff(1, 2)


@pytest.fixture(scope="module")
def figures(two):
    return diff_view(two, 1, 2)[1].figures


@pytest.fixture(scope="module")
def kept(paths, tmp_path_factory):
    database = tmp_path_factory.mktemp("kept") / "two.duckdb"
    tracekit.load(paths, database, verdicts=False).close()
    return database


@pytest.fixture(scope="module")
def text(kept):
    """The page that the command writes."""
    page = kept.with_name("diff.html")
    given = [str(kept), "--trace-ids", "1", "2", "-o", str(page)]
    cli.main(["report", *given], standalone_mode=False)
    return page.read_text()


def test_each_figure_holds_the_rows_of_diff(figures, found):
    assert tuple(figures) == FIGURES
    assert figures["waterfall"].rows.rows(named=True) == plain_waterfall(found)
    assert figures["classes"].rows.rows(named=True) == found.classes
    appeared = {
        row["kernel"]: (row["what changed"], row["change_ns"])
        for name in ("kernels", "changed")
        for row in figures[name].rows.rows(named=True)
    }
    assert appeared == {row["kernel"]: (row["change"], row["change_ns"]) for row in found.kernels}
    operators = figures["operators"].rows.rows(named=True)
    assert [row["operator"] for row in operators] == [row["operator"] for row in found.operators]


def test_sentences_tell_what_appeared_and_what_changed_most(figures, found):
    assert figures["kernels"].says == (
        "Added: 1, with 15 us per step in b. Removed: 1, with 15 us per step in a. "
        "# stands for any number."
    )
    assert "-100 us" in figures["changed"].says
    biggest = max(found.waterfall[1:-1], key=lambda row: abs(row["change_ns"]))
    assert sentences(found)[0].startswith(f"{biggest['part']}: -100 us (200 us in a, 100 us in b)")
    assert sentences(found)[-1] == (
        "a has 2 steps, b 3 steps. Per step: 2 and 2 launches, 2 and 2 kernels."
    )


def test_the_waterfall_has_the_parts_that_changed(found):
    chart = waterfall_chart(found.waterfall).to_dict()
    changed = [row["part"] for row in found.waterfall if row["change_ns"]]
    assert chart["layer"][0]["encoding"]["y"]["sort"] == [*changed, "in all"]
    same = [{**row, "change_ns": row["change_ns"] and 0} for row in found.waterfall]
    assert waterfall_chart(same) is None
    # The title compares the windows of the waterfall.
    odd = replace(found, summary=[{"metric": "span_ns", "a": 1, "b": 2}])
    assert odd.title == found.title


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (200, 100, "b is 2 times as fast as a: 200 ns in a, 100 ns in b"),
        (100, 130, "b takes 1.3 times as long as a: 100 ns in a, 130 ns in b"),
        (100_000, 100_001, "b takes as long as a: 100 us in a, 100 us in b"),
        (0, 5, "Two runs"),
    ],
)
def test_the_title_says_how_long_b_takes(a, b, told):
    span = {"metric": "span_ns", "a": a, "b": b}
    assert (
        Diff(
            a="a",
            b="b",
            summary=[span],
            waterfall=[],
            classes=[],
            kernels=[],
            operators=[],
            modules=[],
            memory=[],
            doubts=[],
        ).title
        == told
    )


def test_the_largest_change_between_equally_long_runs_is_named_but_not_in_the_title(found):
    row = {"a_ns": 100_000, "b_ns": 100_000}
    parts = [("a", 0), ("compute", 10), ("idle: python", -30), ("copy", 20), ("b", 0)]
    even = [row | {"part": part, "change_ns": ns} for part, ns in parts]
    assert headline(replace(found, waterfall=even)) == (
        "b takes as long as a: 100 us in a, 100 us in b; "
        "the largest change is in waits for Python: -30 ns"
    )


@pytest.mark.thorough
def test_the_page_has_a_view_of_each_run(text, paths):
    assert re.findall(r'data-view="(\w+)"', text) == ["diff", "trace1", "trace2"]
    for side, path in zip("ab", paths, strict=True):
        assert f">{side}: {path.name}</button>" in text


def test_names_from_traces_are_escaped(text):
    assert "<b>&" not in text
    assert HOSTILE.split("<b>")[0] not in text
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data = json.loads(held[1])
    kernels = data["figures"]["diff-kernels"]["columns"]["kernel"]["at"]
    assert HOSTILE in [data["texts"][each] for each in kernels]


def test_sources_are_commands_that_run(figures, two, found, kept, paths):
    assert not is_database(two.name)
    a, b = (shlex.quote(str(path)) for path in paths)
    sources = {name: each.source for name, each in figures.items()}
    assert sources.pop("flame") == (
        f"tracekit load {a} {b} -o traces.duckdb && tracekit query traces.duckdb diff_flame"
    )
    assert set(sources.values()) == {f"tracekit diff {a} {b} --json --top 200"}
    assert Subject(two, 2).source("partition") == f"tracekit query {b} partition"
    name = shlex.quote(str(kept))
    with tracekit.open_database(kept) as stored:
        assert _Comparison(stored.session, found, 2, 1).source("diff_kernels") == (
            f"tracekit query {name} diff_kernels --param a=2 --param b=1 --param top=200"
        )
        own = Subject(stored, 2).source("partition")
    assert own == f"tracekit query {name} partition --param trace=2"


def test_call_paths_of_both_runs_are_matched_by_their_names(two, figures):
    rows = two.query("diff_flame")
    paths = {row["name"]: row for row in rows.to_dicts()}
    product, whole = paths["aten::mm"], paths["all threads"]
    assert (product["change"], product["a_count"], product["b_count"]) == ("same", 1, 1)
    assert (product["a_gpu_ns"], product["b_gpu_ns"]) == (200_000, 100_000)
    assert (paths["add_kernel"]["change"], paths[HOSTILE]["change"]) == ("removed", "added")
    assert (paths["add_kernel"]["b_host_ns"], paths[HOSTILE]["a_host_ns"]) == (0, 0)
    for side, trace, steps in (("a", 1, 2), ("b", 2, 3)):
        threads = two.query("flame_graph", trace=trace).filter(depth=0)
        for measure in ("host_ns", "gpu_ns"):
            assert whole[f"{side}_{measure}"] == threads[measure].sum() // steps
    require_nested(rows)
    assert "add_kernel takes the longest: 9 us of the host per step in a." in figures["flame"].says
    measures = [name for name, _ in figures["flame"].control["measures"]]
    assert measures == ["host time", "GPU time launched"]
    same = two.query("diff_flame", a=1, b=1)
    assert set(same["change"]) == {"same"}
    assert same["a_host_ns"].to_list() == same["b_host_ns"].to_list()


def test_a_window_is_of_one_trace(paths, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["report", *map(str, paths), "-o", str(page), "--window", "step 1"]
    with pytest.raises(TracekitError, match="are for the page of one trace"):
        cli.main(arguments, standalone_mode=False)
    assert not page.exists()


@pytest.mark.thorough
def test_notebooks_show_what_commands_print_with_a_chart(two, found):
    for result in (found, two.verdict(2), two.advise(trace=2), two.whatif("host*0.5", trace=2)):
        shown, first = result._repr_html_(), escape(repr(result).split("\n")[0])
        assert first[:60] in shown
        assert shown.count("<svg") == isinstance(result, Analysis | Diff)


def test_notebooks_show_the_same_without_the_charts(two, found, monkeypatch):
    for name in ("altair", "vl_convert", "tracekit.reporters.html.charts"):
        monkeypatch.setitem(sys.modules, name, None)
    shown = notebook.html(replace(found, a=HOSTILE))
    assert "<svg" not in shown
    assert "mul&lt;/script&gt;" in shown
    for name in ("length", "busy", "kernels", "launches"):
        assert f"\n{name} " in shown
    assert "<svg" not in two.verdict(1)._repr_html_()
