"""Comparison of two runs."""

import html
import json
import re

import click
import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.processes import invoke
from tests.kit.traces import Together, gpu_op, launched, operator, step
from tracekit.commands import cli
from tracekit.compare.diff import fails
from tracekit.reporters import diff as reporter
from tracekit.reporters.html.diff import diff_view
from tracekit.reporters.terminal import fitted, fitted_among

RUNS = Together()


def steps(gemm_us, gap_us, kernel="ampere_sgemm_128x64_nn", count=2):
    """Steps of 100 us, each with a gap, a GEMM and a copy."""
    events = []
    for i in range(count):
        at = 1000 * i
        mm = operator("aten::mm", at + 1, 40, [[8, 16], [16, 4]], ["float", "float"])
        events += [
            step(i, at, 100),
            *launched([], at, at + 2, 8, 10 * i + 1, name="copy_kernel"),
            *launched([mm], at + 5 + gap_us, at + 10 + gap_us, gemm_us, 10 * i + 2, name=kernel),
        ]
    return events


def nested(inner, wrapper="", block="Block_7", first=3):
    """A block with two layers. `inner` says whether their operators are recorded as theirs, or as
    one operator of the block, as torch.compile does."""
    events = [traces.frame(f"nn.Module: {block}", 0, 100)]
    if wrapper:
        events.insert(0, traces.frame(f"nn.Module: {wrapper}_0", 0, 110))
    if inner:
        for number, at in ((first, 10), (4, 50)):
            events.append(traces.frame(f"nn.Module: Linear_{number}", at, 30))
            events += launched([operator("aten::linear", at + 1, 20)], at + 2, at + 200, 5, at)
    else:
        events += launched([operator("CompiledFunction", 11, 20)], 12, 210, 6, 10)
    return events + launched([operator("aten::sum", 120, 10)], 121, 300, 2, 120)


def mul(width):
    name = f"void at::native::vectorized_elementwise_kernel<{width}, Mul>(int, Mul)"
    return launched([operator("aten::mul", 0, 9)], 1, 20, 5, 1, name=name)


def module(dur_us):
    return [traces.frame("nn.Module: Linear_0", 0, dur_us), *launched([], 1, 60, 5, 1)]


A, B = RUNS.events(steps(20, 5)), RUNS.events(steps(30, 15, kernel="volta_sgemm_32x32_tn"))
FOUR = RUNS.events(steps(20, 5, count=4))
MUL, ADD = RUNS.events(mul(4)), RUNS.events(
    mul(8) + launched([operator("aten::add", 50, 9)], 51, 70, 5, 2, name="void add_kernel(int)")
)  # fmt: skip
MODULE, LONGER = RUNS.events(module(20)), RUNS.events(module(50))
EAGER = RUNS.events(nested(True))
WRAPPED = RUNS.events(nested(True, "DistributedDataParallel", "Block_0", first=8))
COMPILED = RUNS.events(nested(False, "OptimizedModule"))
RENAMED = RUNS.events(nested(True, block="Other_7"))
CPU, GPU = RUNS.events([operator("aten::mm", 0, 9)]), RUNS.events([gpu_op(0, 5)])
LIVE = "@admin `rm` |a|b| <img src=x> [a](https://evil.example) #1 **b** $x$ " + "y" * 500
SGEMM, HOSTILE = (
    RUNS.events([traces.launch(0, 1, 1), gpu_op(5, dur_us, 1, name=name)])
    for dur_us, name in ((50, "sgemm"), (100, LIVE))
)
# Each kernel has a name of its own.
MANY = [
    RUNS.events(
        [
            event
            for n in range(1, 1500)
            for event in launched([], 10 * n, 10 * n + 2, 5, n, name=(
                side + "".join(chr(97 + int(digit)) for digit in str(n)) + "|&" * 60))
        ]
    )
    for side in "ab"
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with RUNS.load(tmp_path_factory.mktemp("runs")) as database:
        yield database


def rows(runs, name, key, a, b):
    return {row[key]: row for row in runs.ask(f"diff_{name}", a=a, b=b)}


def changes(runs, name, key, a, b):
    return {part: row["change"] for part, row in rows(runs, name, key, a, b).items()}


def test_the_waterfall_leads_from_one_step_time_to_the_other(runs):
    first, *parts, last = runs.ask("diff_waterfall", a=A, b=B)
    assert (first["part"], first["until_ns"]) == ("a", 100_000)
    assert (last["part"], last["until_ns"]) == ("b", 100_000)
    assert {row["part"]: row["change_ns"] for row in parts}["compute: gemm"] == 10_000
    assert sum(row["change_ns"] for row in parts) == 0
    assert parts[-1]["until_ns"] == last["b_ns"]


def test_tuned_variants_of_a_gemm_count_as_one_kernel(runs):
    found = rows(runs, "kernels", "kernel", A, B)
    product = found["aten::mm [[8,16],[16,4]]"]
    assert (product["change"], product["a_count"], product["b_count"]) == ("time", 1, 1)
    assert (product["a_ns"], product["b_ns"], product["change_ns"]) == (20_000, 30_000, 10_000)
    assert product["a_name"] != product["b_name"]
    assert found["copy_kernel"]["change"] == "same"


def test_added_and_removed_kernels_are_listed(runs):
    # Another vector width is still the same kernel.
    assert changes(runs, "kernels", "kernel", MUL, ADD) == {
        "add_kernel": "added", "at::native::vectorized_elementwise_kernel<#, Mul>": "same",
    }  # fmt: skip
    assert changes(runs, "kernels", "kernel", ADD, MUL)["add_kernel"] == "removed"
    found = changes(runs, "operators", "operator", MUL, ADD)
    assert found == {"aten::add": "added", "aten::mul": "same"}


def test_counts_and_times_are_per_step(runs):
    assert set(changes(runs, "kernels", "kernel", A, FOUR).values()) == {"same"}
    assert {row["change_ns"] for row in runs.ask("diff_classes", a=A, b=FOUR)} == {0}
    metrics = rows(runs, "summary", "metric", A, FOUR)
    assert (metrics["span_ns"]["change"], metrics["span_ns"]["ratio"]) == (0, 1)
    assert (metrics["kernels"]["a"], metrics["kernels"]["b"]) == (4, 8)


def test_modules_are_compared_by_name(runs):
    (row,) = runs.ask("diff_modules", a=MODULE, b=LONGER)
    assert (row["module"], row["a_host_ns"], row["b_host_ns"]) == ("Linear_0", 20_000, 50_000)
    assert (row["a_gpu_ns"], row["change_ns"]) == (5_000, 30_000)


def test_parts_are_matched_by_their_place_in_the_program(runs):
    linear = "Block[0]/Linear[%s]/aten::linear"
    assert changes(runs, "parts", "part", EAGER, WRAPPED) == dict.fromkeys(
        (linear % 0, linear % 1, "aten::sum"), "same"
    )
    fused = rows(runs, "parts", "part", EAGER, COMPILED)
    assert set(fused) == {"Block[0]", "aten::sum"}
    block = fused["Block[0]"]
    assert (block["a_count"], block["b_count"]) == (2, 1)
    assert (block["a_gpu_ns"], block["b_gpu_ns"]) == (10_000, 6_000)


def test_a_part_without_a_partner_is_reported_once(runs, capsys):
    expected = {"Block[0]": "removed", "Other[0]": "added", "aten::sum": "same"}
    found, view = diff_view(runs, EAGER, RENAMED)
    assert {row["part"]: row["change"] for row in found.parts} == expected
    (figure,) = (each for part in view.parts for each in part.figures if each.name == "parts")
    changed = figure.rows.select("part", "what changed").rows()
    assert sorted(changed) == [("Block[0]", "removed"), ("Other[0]", "added")]
    reporter.render(found)
    for text in (capsys.readouterr().out, reporter.markdown(found, 20)):
        assert "Parts of the program, per step" in text


def test_a_condition_is_evaluated_on_the_numbers_of_both_runs(runs):
    assert fails(runs, "b.kernel_ns > 1.1 * a.kernel_ns", A, B)
    assert not fails(runs, "b.kernels > a.kernels", A, B)
    for wrong in ("b.nothing > 1", "1); DROP TABLE event; --", "", "NULL", "a.span_ns = '", "a"):
        with pytest.raises(tracekit.TracekitError, match="cannot evaluate the condition") as error:
            fails(runs, wrong, A, B)
        assert "\n" not in str(error.value)


def test_a_condition_on_a_run_without_gpu_ops_cannot_be_evaluated(runs):
    found = runs.diff(CPU, GPU)
    assert found.waterfall == []
    assert any(row["code"] == "no_gpu_ops" for row in found.doubts)
    with pytest.raises(tracekit.TracekitError, match="no GPU ops"):
        fails(runs, "b.span_ns > a.span_ns", CPU, GPU)


def test_markdown_has_the_numbers_of_the_comparison_and_nothing_live(runs):
    found = runs.diff(SGEMM, HOSTILE)
    text = reporter.markdown(found, 20)
    assert text.startswith(
        "### b takes 2 times as long as a: 50 us in a, 100 us in b; most of all "
    )
    # What is between backticks is not live, and cannot end them.
    outside = re.sub(r"`[^`|\\\n]+`", "", text).replace("&#", "")
    for live in ("@admin", "`", "<img", "](", "**b**", "https://", "#1", "$"):
        assert live not in outside
    assert "`sgemm`" in text
    assert "@admin `rm` |a|b| <img src=x>" in html.unescape(text)
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (4, 6, 7)
    assert {100_000, -50_000} <= {row["change_ns"] for row in found.kernels}
    assert "+100 us" in text
    assert "-50 us" in text


def test_markdown_fits_a_comment(runs):
    assert 10_000 < len(reporter.markdown(runs.diff(*MANY, top=1000), 1000)) <= 65_536


# -- real traces -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    names = ("a100-diff-control.json.gz", "v100-diff-test.json.gz")
    with tracekit.load([trace_file(name) for name in names], verdicts=False) as database:
        yield database


@pytest.mark.thorough
def test_the_shared_runs_of_two_makers_are_compared_part_by_part(pair):
    found = pair.ask("diff_parts", top=1000)
    for trace, side in enumerate("ab", 1):
        ((whole,),) = pair.fetch(
            f"SELECT sum(g.dur_ns) / any_value(steps) FROM gpu_ops AS g "
            f"JOIN run_steps USING (trace_id) "
            f"JOIN host_site AS h ON g.trace_id = h.trace_id AND g.launch_id = h.event_id "
            f"WHERE trace_id = {trace} AND outer_op_id IS NOT NULL"
        )[1]
        assert sum(row[f"{side}_gpu_ns"] for row in found) == pytest.approx(whole, rel=1e-4)
    matched = sum(row["a_gpu_ns"] for row in found if row["change"] not in ("added", "removed"))
    assert matched > 0.5 * sum(row["a_gpu_ns"] for row in found)


def test_the_shared_pair_adds_up_on_two_machines(pair):
    found, windows = pair.ask("diff_waterfall"), pair.ask("run_metrics")
    assert found[0]["until_ns"] == windows[0]["span_ns"] == 76_727_000
    assert found[-2]["until_ns"] == found[-1]["b_ns"] == windows[1]["span_ns"] == 116_692_000
    assert sum(row["change_ns"] or 0 for row in found) == 116_692_000 - 76_727_000
    assert not any(row["change_ns"] for row in pair.ask("diff_waterfall", a=1, b=1))


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two traces, and databases of both and of one."""
    made = tmp_path_factory.mktemp("files")
    for name, events in (("a", steps(20, 5)), ("b", steps(30, 15))):
        traces.write(made / f"{name}.json", events)
    for name in ("ab", "b"):
        paths = [made / f"{each}.json" for each in name]
        tracekit.load(paths, made / f"{name}.duckdb", verdicts=False).close()
    return made


def diff(*arguments):
    return cli.main(["diff", *arguments], standalone_mode=False)


def test_the_command_compares_traces_and_databases(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert not diff("a.json", "b.duckdb", "--json")
    printed = capsys.readouterr()
    of_two = json.loads(printed.out)
    assert of_two["schema"] == "tracekit/diff/1"
    assert printed.err == ""
    condition = "b.kernel_ns > 1.1 * a.kernel_ns"
    assert diff("ab.duckdb", "--json", "--fail-if", condition, "--fail-if", "false") == 1
    printed = capsys.readouterr()
    assert of_two | {"a": 0, "b": 0} == json.loads(printed.out) | {"a": 0, "b": 0}
    assert printed.err == f"tracekit: failed: {condition}\n"
    assert not diff("ab.duckdb", "--trace-ids", "2", "1", "--fail-if", condition)
    printed = capsys.readouterr()
    assert "From a to b" in printed.out
    assert printed.err == ""


def test_wrong_use_is_refused_in_one_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for arguments in (
        ["a.json"], ["a.json", "missing.json"], ["a.json", "a.json", "a.json"],
        ["ab.duckdb", "--fail-if", "x"], ["ab.duckdb", "--trace-ids", "1", "7"],
        ["a.json", "b.json", "--json", "--markdown"],
    ):  # fmt: skip
        with pytest.raises((tracekit.TracekitError, click.ClickException)) as refused:
            diff(*arguments)
        assert "\n" not in str(refused.value), arguments


def test_names_are_cut_where_they_are_alike():
    names = [
        "void at::native::foreach_kernel<A" + "a" * 60 + f"<{each}>" for each in ("Add", "Mul")
    ]
    fit = fitted_among([*names, "short"])
    cut = [fit(each, 24) for each in names]
    assert len({*cut}) == 2 and all(len(each) <= 24 for each in cut)
    assert "Add" in cut[0] and fit("short", 24) == "short"
    # Equal names stay equal.
    assert fitted_among([names[0]] * 2)(names[0], 24) == fitted(names[0], 24)


def test_units_of_two_kinds_are_not_compared_silently(runs, monkeypatch, capsys):
    found = runs.diff(SGEMM, HOSTILE)
    row = {"level": 1, "a_median_ns": None, "b_median_ns": None, "ratio": None}
    found = replace(found, units=[
        row | {"kind": "step", "a_count": 3, "b_count": 0},
        row | {"kind": "pass", "a_count": 0, "b_count": 5},
    ])  # fmt: skip
    says = "a is in steps, b in passes: one of a may be more work than one of b."
    reporter.render(found)
    assert says in " ".join(capsys.readouterr().out.split())
    assert says in reporter.markdown(found, 20)


def test_a_number_sign_in_names_is_explained_where_it_stands():
    changed = {"kernel": "sgemm_#x#", "a_name": "sgemm_128x64", "b_name": None}
    own = {"kernel": "layer#", "a_name": "layer#", "b_name": None}
    assert reporter.has_folded([own, changed]) and not reporter.has_folded([own])


def test_captures_are_called_by_their_files(tmp_path):
    captured = {"before.json": "script", "after.json": "train:step"}
    for name, workload in captured.items():
        traces.write(tmp_path / name, steps(9, 30), tracekit={"workload": workload})
    paths = [str(tmp_path / name) for name in captured]
    told = invoke("diff", *paths).stdout
    assert f"\na: {paths[0]}\nb: {paths[1]}\n" in told
    told += "".join(invoke("analyze", path).stdout for path in paths)
    assert "script" not in told and "train:step" not in told
    assert "\nbefore.json: " in told and "\nafter.json: " in told


def test_a_narrow_terminal_shows_whole_numbers_and_legible_names(tmp_path, monkeypatch):
    paths = [traces.write(tmp_path / f"{gemm}.json", steps(gemm, 30)) for gemm in (9, 40)]
    monkeypatch.setenv("COLUMNS", "40")
    told = invoke("diff", *paths).stdout
    assert re.search(r"^\+31 us +9 us +40 us +\w{4}", told, flags=re.MULTILINE), told
    assert "waits" in told and "█" not in told
    assert max(map(len, told.splitlines())) <= 40
