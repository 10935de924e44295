"""What is found but not advised is told, with the reason; and so is what was not looked for."""

import pytest
from click.testing import CliRunner

import tracekit
from tests.controls.host import pinned
from tests.controls.planting import SYNC, products
from tests.kit.atoms import MS, US, Call, Launch, Op, Work, line, operator, step
from tests.kit.simulated import Programs
from tracekit.commands import cli

MADE = line(
    "train.py(9): noise",
    operator("aten::randn", 9 * MS),
    operator("aten::copy_", 3 * US, pinned(8_000_000, 320 * US)),
)
UNALIKE = [
    operator("aten::mm", 90 * US, Launch(4 * US, (Op("math", 20 * US, f"kernel_{n}"),)))
    for n in range(40)
]
LOADED = [Call("cuModuleLoadData", 300 * US, "runtime")] * 12
PROGRAMS = {
    "few ops": [step(0, MADE, *products(4, 20 * US), Work(10 * US))],
    "ops enough": [step(n, MADE, *products(4, 20 * US), Work(10 * US)) for n in range(4)],
    "few ops in balance": [step(0, *products(4, 200 * US))],
    "work that never repeats": UNALIKE,
    "work that repeats": products(40, 4 * US),
    "a cold start": [
        *LOADED,
        *[operator("aten::mm", 20 * US, Launch(1_500 * US, (("math", 40 * US),)))] * 40,
    ],
}  # fmt: skip
TRACES = Programs()
TRACE = {title: TRACES.program([*atoms, SYNC]) for title, atoms in PROGRAMS.items()}
FOUND = "create tensors on the device (create-on-device)"


@pytest.mark.parametrize(
    ("title", "is_advised", "is_unsure"),
    [("few ops", False, True), ("ops enough", True, False), ("few ops in balance", False, False)],
)
def test_a_change_found_in_few_ops_comes_with_that_doubt(title, is_advised, is_unsure, loaded):
    analysis, fixes = (ask(trace=TRACE[title]) for ask in (loaded.verdict, loaded.advise))
    listed, unsure = ([e.remedy for e in each] for each in (analysis.advice, analysis.unsure))
    assert ("create-on-device" in listed, "create-on-device" in unsure) == (is_advised, is_unsure)
    assert analysis.unsure == fixes.unsure
    told = " ".join(fixes.notes)
    assert (f"Found, but not sure, since so few ops were recorded: {FOUND}" in told) == is_unsure
    assert ("No remedy that was looked for" in told) == (not is_advised and not is_unsure)


def test_the_first_screen_and_all_others_tell_what_few_ops_show(loaded, tmp_path):
    loaded.export(tmp_path / "few.json", trace=TRACE["few ops"])
    tracekit.load(tmp_path / "few.json", tmp_path / "few.duckdb").close()
    for command in (["analyze"], ["analyze", "--full"], ["advise"]):
        result = CliRunner().invoke(cli, [*command, str(tmp_path / "few.duckdb")])
        assert FOUND in " ".join(result.output.split()), command
    loaded.report(trace=TRACE["few ops"]).save(tmp_path / "few.html")
    assert FOUND in (tmp_path / "few.html").read_text()


@pytest.mark.parametrize(
    ("title", "why"),
    [
        ("few ops", "these few ops do not show that"),
        ("work that never repeats", "most kernels here ran once or twice"),
        ("a cold start", "this recording is cold: record a warm run"),
        ("work that repeats", None),
    ],
)
def test_remedies_for_loops_are_not_looked_for_without_one(title, why, loaded):
    fixes = loaded.advise(trace=TRACE[title])
    listed = [each.remedy for each in fixes.advice]
    missing = [each.missing for each in fixes.unlooked if "cuda-graph" in each.remedies]
    assert ("cuda-graph" in listed) == (why is None)
    assert [each.endswith(why or "") for each in missing] == ([] if why is None else [True])
