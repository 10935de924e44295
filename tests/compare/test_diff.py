"""Comparison of two runs."""

import html
import json

import pytest
from click.testing import CliRunner

import tracekit
from tests.conftest import SHARED_TRACES, trace_file
from tests.kit import traces
from tests.kit.traces import gpu_op, launched, operator, step
from tracekit.commands import cli
from tracekit.compare.diff import fails
from tracekit.reporters.html.diff import diff_view


def run_trace(folder, name, gemm_us, gap_us, kernel="ampere_sgemm_128x64_nn", steps=2):
    """Writes steps of 100 us, each with a gap, a GEMM and a copy."""
    events = []
    for i in range(steps):
        at = 1000 * i
        mm = operator("aten::mm", at + 1, 40, [[8, 16], [16, 4]], ["float", "float"])
        events += [
            step(i, at, 100),
            *launched([], at, at + 2, 8, 10 * i + 1, name="copy_kernel"),
            *launched([mm], at + 5 + gap_us, at + 10 + gap_us, gemm_us, 10 * i + 2, name=kernel),
        ]
    return traces.write(folder / name, events)


@pytest.fixture
def two(tmp_path):
    a = run_trace(tmp_path, "a.json", 20, 5)
    b = run_trace(tmp_path, "b.json", 30, 15, kernel="volta_sgemm_32x32_tn")
    with tracekit.load([a, b]) as database:
        yield database


def test_the_waterfall_leads_from_one_step_time_to_the_other(two):
    rows = two.ask("diff_waterfall")
    parts = {row["part"]: row for row in rows}
    assert (rows[0]["part"], rows[0]["until_ns"]) == ("a", 100_000)
    assert (rows[-1]["part"], rows[-1]["until_ns"]) == ("b", 100_000)
    assert parts["compute: gemm"]["change_ns"] == 10_000
    assert sum(row["change_ns"] or 0 for row in rows) == 0
    assert rows[-2]["until_ns"] == rows[-1]["b_ns"]


def test_tuned_variants_of_a_gemm_count_as_one_kernel(two):
    rows = {row["kernel"]: row for row in two.ask("diff_kernels")}
    product = rows["aten::mm [[8,16],[16,4]]"]
    assert (product["change"], product["a_count"], product["b_count"]) == ("time", 1, 1)
    assert (product["a_ns"], product["b_ns"], product["change_ns"]) == (20_000, 30_000, 10_000)
    assert product["a_name"] != product["b_name"]
    assert rows["copy_kernel"]["change"] == "same"


def test_added_and_removed_kernels_are_listed(tmp_path):
    def mul(width):
        name = f"void at::native::vectorized_elementwise_kernel<{width}, Mul>(int, Mul)"
        return launched([operator("aten::mul", 0, 9)], 1, 20, 5, 1, name=name)

    add = launched([operator("aten::add", 50, 9)], 51, 70, 5, 2, name="void add_kernel(int)")
    a = traces.write(tmp_path / "a.json", mul(4))
    b = traces.write(tmp_path / "b.json", [*mul(8), *add])
    with tracekit.load([a, b]) as database:
        kernels = {row["kernel"]: row["change"] for row in database.ask("diff_kernels")}
        back = {row["kernel"]: row["change"] for row in database.ask("diff_kernels", a=2, b=1)}
        operators = {row["operator"]: row["change"] for row in database.ask("diff_operators")}
    # Another vector width is still the same kernel.
    assert kernels == {
        "add_kernel": "added", "at::native::vectorized_elementwise_kernel<#, Mul>": "same",
    }  # fmt: skip
    assert back["add_kernel"] == "removed"
    assert operators == {"aten::add": "added", "aten::mul": "same"}


def test_counts_and_times_are_per_step(tmp_path):
    a = run_trace(tmp_path, "a.json", 20, 5, steps=2)
    b = run_trace(tmp_path, "b.json", 20, 5, steps=4)
    with tracekit.load([a, b]) as database:
        assert {row["change"] for row in database.ask("diff_kernels")} == {"same"}
        assert {row["change_ns"] for row in database.ask("diff_classes")} == {0}
        metrics = {row["metric"]: row for row in database.ask("diff_summary")}
    assert (metrics["span_ns"]["change"], metrics["span_ns"]["ratio"]) == (0, 1)
    assert (metrics["kernels"]["a"], metrics["kernels"]["b"]) == (4, 8)


def test_modules_are_compared_by_name(tmp_path):
    def module(name, dur_us):
        events = [traces.frame("nn.Module: Linear_0", 0, dur_us), *launched([], 1, 60, 5, 1)]
        return traces.write(tmp_path / name, events)

    with tracekit.load([module("a.json", 20), module("b.json", 50)]) as database:
        (row,) = database.ask("diff_modules")
    assert (row["module"], row["a_host_ns"], row["b_host_ns"]) == ("Linear_0", 20_000, 50_000)
    assert (row["a_gpu_ns"], row["change_ns"]) == (5_000, 30_000)


def nested_trace(folder, name, inner, wrapper=""):
    """A block with two layers. `inner` says whether their operators are recorded as theirs, or as
    one operator of the block, as torch.compile does."""
    events = [traces.frame("nn.Module: Block_7", 0, 100)]
    if wrapper:
        events.insert(0, traces.frame(f"nn.Module: {wrapper}_0", 0, 110))
    if inner:
        for number, at in ((3, 10), (4, 50)):
            events.append(traces.frame(f"nn.Module: Linear_{number}", at, 30))
            events += launched([operator("aten::linear", at + 1, 20)], at + 2, at + 200, 5, at)
    else:
        events += launched([operator("CompiledFunction", 11, 20)], 12, 210, 6, 10)
    events += launched([operator("aten::sum", 120, 10)], 121, 300, 2, 120)
    return traces.write(folder / name, events)


def test_parts_are_matched_by_their_place_in_the_program(tmp_path):
    eager = nested_trace(tmp_path, "eager.json", inner=True)
    other = nested_trace(tmp_path, "other.json", inner=True, wrapper="DistributedDataParallel")
    other.write_text(
        other.read_text().replace("Linear_3", "Linear_8").replace("Block_7", "Block_0")
    )
    compiled = nested_trace(tmp_path, "c.json", inner=False, wrapper="OptimizedModule")
    with tracekit.load([eager, other, compiled]) as database:
        same = {row["part"]: row["change"] for row in database.ask("diff_parts", a=1, b=2)}
        fused = {row["part"]: row for row in database.ask("diff_parts", a=1, b=3)}
    linear = "Block[0]/Linear[%s]/aten::linear"
    assert same == {linear % 0: "same", linear % 1: "same", "aten::sum": "same"}
    assert set(fused) == {"Block[0]", "aten::sum"}
    block = fused["Block[0]"]
    assert (block["a_count"], block["b_count"]) == (2, 1)
    assert (block["a_gpu_ns"], block["b_gpu_ns"]) == (10_000, 6_000)


def test_a_part_without_a_partner_is_said_once(tmp_path, run):
    a = nested_trace(tmp_path, "a.json", inner=True)
    b = nested_trace(tmp_path, "b.json", inner=True)
    b.write_text(b.read_text().replace("Block_7", "Other_7"))
    with tracekit.load([a, b]) as database:
        rows = {row["part"]: row["change"] for row in database.ask("diff_parts")}
        (figure,) = (
            figure for part in diff_view(database, 1, 2)[1].parts for figure in part.figures
            if figure.name == "parts"
        )  # fmt: skip
    assert rows == {"Block[0]": "removed", "Other[0]": "added", "aten::sum": "same"}
    for form in ((), ("--markdown",)):
        assert "Parts of the program, per step" in run("diff", str(a), str(b), *form).stdout
    parts = json.loads(run("diff", str(a), str(b), "--json").stdout)["parts"]
    assert {row["part"]: row["change"] for row in parts} == rows
    changed = figure.rows.select("part", "what changed").rows()
    assert sorted(changed) == [("Block[0]", "removed"), ("Other[0]", "added")]


def test_the_shared_runs_of_two_makers_are_compared_part_by_part():
    names = ("a100-diff-control.json.gz", "v100-diff-test.json.gz")
    with tracekit.load([trace_file(name) for name in names]) as database:
        rows = database.ask("diff_parts", top=1000)
        for side in "ab":
            (whole,) = database.fetch(
                f"SELECT sum(g.dur_ns) / any_value(steps) FROM gpu_ops AS g "
                f"JOIN gpu_op_launch AS l USING (trace_id, event_id) "
                f"JOIN run_steps USING (trace_id) "
                f"JOIN host_site AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id "
                f"WHERE trace_id = {1 + 'ab'.index(side)} AND outer_op_id IS NOT NULL"
            )[1][0]
            assert sum(row[f"{side}_gpu_ns"] for row in rows) == pytest.approx(whole, rel=1e-4)
    matched = sum(row["a_gpu_ns"] for row in rows if row["change"] not in ("added", "removed"))
    assert matched > 0.5 * sum(row["a_gpu_ns"] for row in rows)


def test_a_condition_is_evaluated_on_the_numbers_of_both_runs(two):
    assert fails(two, "b.kernel_ns > 1.1 * a.kernel_ns")
    assert not fails(two, "b.kernels > a.kernels")


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize(
    "expression", ["b.nothing > 1", "1); DROP TABLE event; --", "", "NULL", "a.span_ns = '", "a"]
)
def test_an_invalid_condition_is_refused_in_one_line(expression, two):
    with pytest.raises(tracekit.TracekitError, match="cannot evaluate the condition") as error:
        fails(two, expression)
    assert "\n" not in str(error.value)


def test_a_condition_on_a_run_without_gpu_ops_cannot_be_evaluated(tmp_path):
    cpu = traces.write(tmp_path / "cpu.json", [operator("aten::mm", 0, 9)])
    gpu = traces.write(tmp_path / "gpu.json", [gpu_op(0, 5)])
    with tracekit.load([cpu, gpu]) as database:
        assert database.diff().waterfall == []
        assert any(row["code"] == "no_gpu_ops" for row in database.diff().doubts)
        with pytest.raises(tracekit.TracekitError, match="no GPU ops"):
            fails(database, "b.span_ns > a.span_ns")


def test_the_command_compares_traces_and_databases(tmp_path, run):
    run_trace(tmp_path, "a.json", 20, 5)
    run_trace(tmp_path, "b.json", 30, 15)
    tracekit.load(tmp_path / "b.json", tmp_path / "b.duckdb").close()
    tracekit.load([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "ab.duckdb").close()
    plain = run("diff", "a.json", "b.duckdb", "--json")
    assert (plain.returncode, plain.stderr) == (0, "")
    found = json.loads(plain.stdout)
    assert found["schema"] == "tracekit/diff/1"
    one = json.loads(run("diff", "ab.duckdb", "--json").stdout)
    assert {**one, "a": 0, "b": 0} == {**found, "a": 0, "b": 0}
    text = run("diff", "a.json", "b.json")
    assert text.returncode == 0
    assert "From a to b" in text.stdout


def test_a_condition_that_holds_exits_with_1_and_is_named(tmp_path, run):
    run_trace(tmp_path, "a.json", 20, 5)
    run_trace(tmp_path, "b.json", 30, 15)
    condition = "b.kernel_ns > 1.1 * a.kernel_ns"
    failed = run("diff", "a.json", "b.json", "--fail-if", condition, "--fail-if", "false")
    assert failed.returncode == 1
    assert failed.stderr == f"tracekit: failed: {condition}\n"
    passed = run("diff", "b.json", "a.json", "--fail-if", condition)
    assert (passed.returncode, passed.stderr) == (0, "")


@pytest.mark.sampled(3, of=6)
@pytest.mark.parametrize(
    "arguments",
    [
        ["a.json"], ["a.json", "missing.json"], ["a.json", "a.json", "a.json"],
        ["a.json", "a.json", "--fail-if", "x"], ["a.json", "a.json", "--trace-ids", "1", "7"],
        ["ab.duckdb", "a.json"],
    ],
)  # fmt: skip
def test_wrong_use_exits_with_2_and_one_line(arguments, tmp_path, run):
    path = run_trace(tmp_path, "a.json", 20, 5)
    tracekit.load([path, path], tmp_path / "ab.duckdb").close()
    done = run("diff", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_shared_pair_adds_up_on_two_machines():
    names = ("a100-diff-control.json.gz", "v100-diff-test.json.gz")
    paths = [SHARED_TRACES / name for name in names]
    if not paths[0].exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(paths) as database:
        rows = database.ask("diff_waterfall")
        windows = database.ask("run_metrics")
        same = database.ask("diff_waterfall", a=1, b=1)
    assert rows[0]["until_ns"] == windows[0]["span_ns"] == 76_727_000
    assert rows[-2]["until_ns"] == rows[-1]["b_ns"] == windows[1]["span_ns"] == 116_692_000
    assert sum(row["change_ns"] or 0 for row in rows) == 116_692_000 - 76_727_000
    assert not any(row["change_ns"] for row in same)


def test_markdown_has_the_numbers_of_the_comparison_and_nothing_live(tmp_path):
    hostile = "@admin `rm` |a|b| <img src=x> [a](https://evil.example) #1 **b** $x$ " + "y" * 500
    runs = []
    for number, name in enumerate(("sgemm", hostile)):
        events = [traces.launch(0, 1, 1), traces.gpu_op(5, 50 * (number + 1), 1, name=name)]
        runs.append(traces.write(tmp_path / f"{number}.json", events))
    done = CliRunner().invoke(cli, ["diff", *map(str, runs), "--markdown"])
    assert done.exit_code == 0, done.output
    text = done.output
    assert text.startswith(
        "### b takes 2 times as long as a: 50 us in a, 100 us in b; most of all "
    )
    for live in ("@admin", "`", "<img", "](", "**b**", "https://", "#1", "$"):
        assert live not in text.replace("&#", "")
    shown = html.unescape(text)
    assert "@admin `rm` |a|b| <img src=x>" in shown
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (4, 6, 7)
    with tracekit.load(runs) as database:
        found = database.diff(1, 2)
    kernels = {row["change_ns"] for row in found.kernels}
    assert {100_000, -50_000} <= kernels
    assert "+100 us" in text
    assert "-50 us" in text


def test_markdown_fits_a_comment(tmp_path):
    runs = []
    for side in "ab":
        events = [
            each
            for number in range(1, 1500)
            for each in (
                traces.launch(number * 10, 1, number),
                traces.gpu_op(
                    number * 10 + 2,
                    5,
                    number,
                    name=side + "".join(chr(97 + int(n)) for n in str(number)) + "|&" * 60,
                ),
            )
        ]
        runs.append(traces.write(tmp_path / f"{side}.json", events))
    done = CliRunner().invoke(cli, ["diff", *map(str, runs), "--markdown", "--top", "1000"])
    assert done.exit_code == 0
    assert 10_000 < len(done.output) <= 65_536


def test_markdown_and_json_are_not_both_printed(tmp_path):
    done = CliRunner().invoke(cli, ["diff", "a", "b", "--json", "--markdown"])
    assert "choose one" in str(done.exception)
