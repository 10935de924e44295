"""What a user types to find a question, a table or a threshold, and to ask it."""

import json
import re
from pathlib import Path

import pytest

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit.processes import invoke
from tests.kit.sampling import sample
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.thresholds import TABLE

DEMO = str(Path(tracekit.__file__).with_name("demo.json.gz"))
TRACE = str(OWN_TRACES / "simulated-overhead-bound.json.gz")


def asked(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def refused(*arguments):
    with pytest.raises(TracekitError) as caught:
        invoke(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("words", [("memory", "peak"), ("memory peak",), ("PEAK", "memory")])
def test_a_question_is_found_by_its_words_in_any_order(words):
    assert "  memory_peak " in asked("query", "--list", *words)


def test_a_thresholds_name_is_whole_at_any_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = invoke("thresholds", "late").stdout.splitlines()
    assert "own_excess_share  0.25 share" in lines and max(map(len, lines)) <= 40


def test_thresholds_are_listed_with_default_unit_and_meaning():
    (line,) = (each for each in asked("thresholds").splitlines() if each.startswith("small_gain "))
    assert line.split()[1] == "0.05" and "if halving neither side gains" in line
    assert len(json.loads(asked("thresholds", "--json"))) == len(TABLE)
    assert "launch_floor_ns" in (found := asked("thresholds", "launch", "idle"))
    assert "small_gain" not in found
    units = {each.name: each.unit for each in TABLE.values()}
    assert (units["wait_ns"], units["cached_bytes"], units["few_ops"]) == ("ns", "bytes", "")


def test_an_unknown_threshold_suggests_and_says_what_lists_them():
    assert "did you mean 'small_gain'" in refused(TRACE, "--threshold", "small_gian=1")
    assert "`tracekit thresholds` lists them" in refused(TRACE, "--threshold", "zzzz=1")
    assert "no threshold contains 'zzzz'" in refused("thresholds", "zzzz")


def test_explain_is_about_the_first_screen_unless_all_is_asked_for():
    brief, full = asked(TRACE, "--explain"), asked(TRACE, "--explain", "--full")
    assert brief.count("\n") < 600 < full.count("\n")
    assert "-- tracekit query partition" in brief and "-- tracekit query host_work" not in brief
    assert "-- tracekit query host_work" in full and "Thresholds (" in full


def test_the_schema_is_one_line_for_a_table_and_one_for_a_column_with_unit_and_meaning():
    tables = asked("sql", TRACE, ".schema").splitlines()
    assert any(line.startswith("launches ") and "a call that enqueued" in line for line in tables)
    for statement in (".schema kernels", "DESCRIBE kernels;", "show kernels"):
        title, *columns = asked("sql", TRACE, statement).splitlines()
        assert title.startswith("kernels: ")
        (duration,) = (each.split() for each in columns if each.startswith("  dur_ns "))
        assert duration[1:] == ["BIGINT", "ns", "duration,", "waits", "included"]
    assert "  shared_memory_bytes " in asked("sql", TRACE, ".schema", "shared_memory")
    assert "no table or column contains 'zzzz'" in refused("sql", TRACE, ".schema zzzz")
    assert "column_name" in asked("sql", TRACE, "DESCRIBE SELECT 1 AS column_name")


def test_a_question_is_a_table_function_in_sql():
    counted = "SELECT count(*) AS n, min(gap_ns) AS least FROM idle_gaps()"
    (all_rows,) = json.loads(asked("sql", TRACE, counted, "--json"))
    (three,) = json.loads(asked("sql", TRACE, counted, "--json", "--param", "top=3"))
    assert (three["n"], all_rows["n"]) == (3, 20) and three["least"] >= all_rows["least"] > 0
    both = "SELECT * FROM idle_causes() JOIN launch_stats() USING (trace_id)"
    assert json.loads(asked("sql", TRACE, both, "--json"))
    assert "idle_gaps is a question: FROM idle_gaps()" in refused("sql", TRACE, "FROM idle_gaps")
    assert "no parameter 'bogus'" in refused("sql", TRACE, counted, "--param", "bogus=3")


_NAMES = sorted(catalog.queries())
TRIED = sample("questions as table functions", _NAMES, _NAMES[1::5])


def test_each_question_is_a_table_function_with_its_own_rows():
    with tracekit.load(TRACE) as run:
        for name in TRIED:
            question = catalog.query(name)
            rows = run.sql(f"FROM {name}()")
            assert rows.columns == [column.name for column in question.columns], name
            assert rows.height == run.query(name).height, name


def test_times_of_sql_read_well_in_a_table_and_are_exact_in_files():
    statement = "SELECT sum(dur_ns), avg(dur_ns), min(start_ns), 5.0621234567e9 AS x FROM kernels"
    heads, figures = asked("sql", TRACE, statement).splitlines()
    assert "sum(dur) (us)" in heads and "avg(dur) (us)" in heads and "min(start_ns)" in heads
    assert "e+" not in figures and "5,062,123,457" in figures
    assert (
        asked("sql", TRACE, statement, "--format", "csv").splitlines()[1].startswith("270000,9000")
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_first_screen_keeps_shares_and_units_at_every_width(width, run):
    done = run(DEMO, COLUMNS=str(width))
    lines = done.stdout.splitlines()
    assert all(len(line) <= width for line in lines)
    parts = [
        line
        for line in lines
        if line.startswith(("waits for", "waits, nothing", "after the last", "compute "))
    ]
    assert len(parts) == 5 and all(re.search(r"\d [mu]s +\d+\.\d %", line) for line in parts)
    assert not [line for line in lines if re.match(r" *(ms|us|%)( |$)", line)]


def test_bars_are_ascii_where_the_encoding_has_no_others(run):
    screen = run(DEMO, PYTHONIOENCODING="ascii").stdout
    assert re.search(r"^waits for dispatch .* %  #+$", screen, re.MULTILINE) and "?" not in screen


@pytest.mark.parametrize("width", [80, 100])
def test_headings_take_two_lines_at_most_and_the_example_of_sql_is_a_table(width, run):
    statement = "SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC LIMIT 5"
    assert len(run("sql", DEMO, statement, COLUMNS=str(width)).stdout.splitlines()) == 6
    for question in ("top_kernels", "idle_gaps", "top_cpu_ops"):
        shown = run("query", DEMO, question, "--param", "top=5", COLUMNS=str(width)).stdout
        rows = shown.partition("In all rows")[0].splitlines()
        assert 6 <= len(rows) <= 7, shown


def test_whatif_and_analyze_give_one_change_one_price():
    (found,) = re.findall(r"CUDA graph +(\d+ us) +(\d+\.\d %)", asked(DEMO))
    headline, _, recorded = asked("whatif", DEMO, "cuda-graph").splitlines()[:3]
    assert headline.startswith(f"{found[1]} shorter") and "1.08 ms -> " in headline
    assert recorded.startswith("As recorded, with the profiler and one-offs: 1.55 ms -> ")
    assert found[0] == "931 us"
