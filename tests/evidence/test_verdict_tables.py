"""The verdict as tables: they agree with `tracekit analyze --json`."""

import json
import shutil
from functools import reduce

import duckdb
import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import trace_file, trace_names
from tests.kit import traces
from tracekit.database.catalog import VERDICTS
from tracekit.examine import examine_all
from tracekit.thresholds import Thresholds
from tracekit.verdict.rows import read, rows_of, rules

OVERHEAD = "simulated-overhead-bound.json.gz"
# One launch.
ONE = traces.launched([], 0, 10, 20, 1)
# It has steps, one-offs, and advice: `make test` tries it first.
WITH_ALL = "simulated-program-23.json.gz"


def rows(database, table):
    columns, found = database.fetch(f"SELECT * FROM {table} ORDER BY ALL")
    return [dict(zip(columns, row, strict=True)) for row in found]


def listed(found, without=("trace_id",)):
    """Rows as texts, sorted."""
    kept = ({key: value for key, value in row.items() if key not in without} for row in found)
    return sorted(json.dumps(row, sort_keys=True) for row in kept)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", sorted(trace_names(), key=lambda name: name != WITH_ALL))
def test_the_tables_say_what_the_json_says(name, tmp_path):
    path = trace_file(name)
    with tracekit.load(path, tmp_path / "t.duckdb") as database:
        told = json.loads(json.dumps(examine_all(database)[0].as_dict(), default=str))
        found = {table: rows(database, table) for table in VERDICTS}
        again = database.verdict().as_dict()
    verdict, window = told["verdict"], told["verdict"]["window"]
    (main,) = [each for each in found["verdict"] if each["is_main"]]
    assert {key: main[key] for key in ("kind", "name", "start_ns", "end_ns")} == {
        key: value for key, value in window.items() if key != "span_ns"
    }
    for key in ("regime", "bottleneck", "margin", "confidence"):
        assert main[key] == verdict[key]
    assert main["sentence"] == verdict["headline"]
    assert main["saves_ns"] == next(
        (each["saves_ns"] for each in told["advice"] if each["share"] is not None), None
    )
    assert json.loads(main["analysis"]) == told
    assert json.loads(json.dumps(again, default=str)) == told
    others = {
        (each["window"]["kind"], each["window"]["name"], each["regime"], each["bottleneck"])
        for each in told["windows"] + told["steps"]
        if each["window"] != window
    }
    keys = ("kind", "name", "regime", "bottleneck")
    assert {
        tuple(each[key] for key in keys) for each in found["verdict"] if not each["is_main"]
    } == others
    for each in found["evidence"]:
        assert (each["denominator"] is not None) == (each["unit"] == "fraction")
        if (each["kind"], each["window_name"]) == (window["kind"], window["name"]):
            part = each["name"].partition(".")[0]
            inside = {"launch": "", "shares": "verdict."}.get(part, "judged.")
            place = f"{inside}{each['name']}"
            assert each["value"] == reduce(lambda of, key: of[key], place.split("."), told)
    assert listed(found["one_off"]) == listed(told["one_offs"])
    assert listed(found["advice"]) == listed(
        (
            each | {"number": number, "place": each["where"]}
            for number, each in enumerate(told["advice"], 1)
        ),
        # The title names the plugin, too.
        without=("where", "needs", "doubts", "places", "plugin"),
    )


def test_a_database_in_memory_is_judged_once_sql_asks(tmp_path):
    with tracekit.load(traces.write(tmp_path / "a.json", ONE)) as database:
        assert database.fetch("SELECT count(*) FROM verdict")[1] == [(0,)]
        found = database.sql("SELECT regime FROM verdict WHERE is_main")
        assert found["regime"].to_list() == [database.verdict().verdict.regime]
        assert len(database.sql("FROM evidence")) > 10


def test_a_share_names_what_it_is_a_share_of(shared_verdict):
    analysis = shared_verdict(OVERHEAD)
    compiled = replace(analysis, launch=replace(analysis.launch, compiled_share=0.5))
    found = {each["name"]: each["denominator"] for each in rows_of(compiled)["evidence"]}
    assert found["launch.compiled_share"] == "kernels that can be fused"
    assert found["launch.graph_share"] == "GPU ops"
    assert found["launch.count"] is None


@pytest.mark.thorough
def test_an_added_trace_is_judged_with_the_others_unless_a_load_leaves_verdicts_out(tmp_path, run):
    traces.write(tmp_path / "a.json", ONE)
    two = traces.write(tmp_path / "b.json", traces.launched([], 0, 10, 900, 1))
    assert run("load", "a.json", "-o", "t.duckdb", "--no-verdict").returncode == 0
    with tracekit.open_database(tmp_path / "t.duckdb") as database:
        assert not any(rows(database, table) for table in VERDICTS)
    with tracekit.load(two, tmp_path / "t.duckdb", append=True) as database:
        found = database.fetch("SELECT trace_id FROM verdict WHERE is_main ORDER BY ALL")[1]
        assert found == [(1,), (2,)]


def test_other_thresholds_and_windows_are_judged_anew(judged):
    with tracekit.open_database(judged) as database:
        assert database.verdict().verdict.confidence == "high"
        assert database.verdict(window="trace").window.kind == "trace"
        asked = replace(Thresholds(), close_margin=1.0)
        assert database.verdict(thresholds=asked).verdict.confidence == "medium"


def test_a_verdict_by_other_rules_is_judged_anew(judged, tmp_path):
    copy = shutil.copy(judged, tmp_path)
    right = "overhead-bound"
    for judged_by in (rules(), "other rules"):
        with duckdb.connect(copy) as connection:
            connection.execute(
                "UPDATE verdict SET judged_by = $by, analysis = replace(analysis, $right, 'no')",
                {"right": right, "by": judged_by},
            )
        with tracekit.open_database(copy) as database:
            expected = "no" if judged_by == rules() else right
            assert database.verdict().verdict.regime == expected


def test_a_verdict_that_was_stored_without_its_parts_gets_them_when_it_is_read(shared_verdict):
    analysis = shared_verdict(WITH_ALL)
    stored = analysis.as_dict()
    assert stored["parts"] and stored["thresholds"] == {}
    for name in ("parts", "happened", "thresholds"):
        del stored[name]
    found = read(json.dumps(stored))
    assert (found.parts, found.happened) == (analysis.parts, analysis.happened)
    assert found.thresholds == Thresholds()
