"""The screen that `analyze` prints: what misleads comes first, and nothing is cut off."""

import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import judged_together, trace_names
from tests.kit.atoms import MS, US, BlockingCopy, Call, Launch, Sync, Work, operator, step
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.advice.catalogue import catalogue
from tracekit.reporters.first_screen import render


def screen(analysis, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    render(analysis)
    return capsys.readouterr().out.splitlines()


def test_shares_name_what_is_left_without_one_offs(tmp_path, capsys, monkeypatch):
    small = operator("aten::add", 20 * US, Launch(4 * US, (("memory-bandwidth", 3 * US),)))
    atoms = [*[small] * 60, operator("aten::mm", 10 * US, Work(90 * MS)), *[small] * 300]
    with tracekit.load(write(tmp_path / "t.json", Simulation([*atoms, Sync(2 * US)]))) as run:
        analysis = run.verdict()
    lines = screen(analysis, capsys, monkeypatch)
    left = tracekit.text.duration(analysis.judged.gains.window_ns)
    assert analysis.judged.gains.one_offs_ns > 80 * MS
    assert any(each.endswith(f"of the other {left}") for each in lines)
    once = next(at for at, each in enumerate(lines) if each.startswith("What happened once"))
    assert once < next(at for at, each in enumerate(lines) if each.startswith("What to change"))


SAVED = BlockingCopy(2 * US, 5 * MS, name="Memcpy DtoH (Device -> Pageable)")
MALLOC = operator("aten::empty", 3 * US, Call("cudaMalloc", 30 * MS, "allocation"))


@pytest.mark.parametrize(
    ("once", "row"),
    [
        ([MALLOC], "cudaMalloc in aten::empty"),
        ([operator("aten::copy_", 3 * US, SAVED)] * 12, f"ProfilerStep#4: {SAVED.name}"),
        ([Work(40 * MS)], "ProfilerStep#4: nothing recorded"),
        ([Work(MS)], None),
    ],
)
def test_one_offs_are_listed_if_they_are_much_of_the_trace(
    once, row, tmp_path, capsys, monkeypatch
):
    work = [operator("aten::mm", 20 * US, Launch(6 * US, (("math", 400 * US),)))] * 10
    atoms = [step(n, *work, *(once if n == 4 else ())) for n in range(9)]
    with tracekit.load(write(tmp_path / "t.json", Simulation([*atoms, Sync(2 * US)]))) as run:
        lines = screen(run.verdict(), capsys, monkeypatch)
    at = [number for number, each in enumerate(lines) if each.startswith("What happened once")]
    assert [lines[number + 1].partition("  ")[0] for number in at] == [row] * (row is not None)


@pytest.fixture
def advised(shared_verdict):
    """A verdict with these remedies as its advice, each with a place of one line."""
    analysis = shared_verdict("simulated-overhead-bound.json.gz")
    (first, *_) = (each for each in analysis.advice if not each.once)

    def made(*names):
        known = catalogue()
        advice = [
            replace(first, remedy=name, title=known[name].title, where=f"at_{at}", detail=None)
            for at, name in enumerate(names)
        ]
        return replace(analysis, advice=advice)

    return made


def test_throughput_has_a_list_of_its_own(advised, capsys, monkeypatch):
    lines = screen(advised("cuda-graph", "larger-batch"), capsys, monkeypatch)
    (change, throughput) = (
        next(at for at, line in enumerate(lines) if line.startswith(heading))
        for heading in ("What to change", "For throughput")
    )
    titles = [catalogue()[name].title for name in ("cuda-graph", "larger-batch")]
    assert [lines[change + 1][2:48].strip(), lines[throughput + 1][2:48].strip()] == titles
    assert throughput > change + 1


def test_a_change_is_shown_if_its_place_does_not_fit(advised, capsys, monkeypatch):
    names = ["cuda-graph", "torch-compile", "fused-optimizer", "in-place", "allocator"]
    lines = screen(advised(*names), capsys, monkeypatch)
    shown = [name for name in names if any(catalogue()[name].title in line for line in lines)]
    places = [line for line in lines if line.startswith("    at_")]
    assert len(lines) <= 24 and 0 < len(places) < len(shown)


@pytest.mark.parametrize(
    ("spans", "said"),
    [((3, 1, 2), "a usual one"), ((1, 3, 0), "the median"), ((1, 0), "the longer")],
)
def test_the_median_step_is_only_called_so_if_it_is(spans, said, advised, capsys, monkeypatch):
    analysis = advised("cuda-graph")
    window = replace(analysis.judged.window, kind="step", span_ns=1_000_000)
    steps = [
        replace(analysis.judged, window=replace(window, span_ns=span * 1_000_000)) for span in spans
    ]
    judged = replace(analysis.judged, window=window)
    shown = replace(analysis, judged=judged, steps=steps)
    assert f"{len(spans)} steps, {said} 1 ms" in " ".join(screen(shown, capsys, monkeypatch))


# Small traces are judged together, large ones take seconds.
@pytest.mark.parametrize(
    "name",
    [name if name in judged_together() else pytest.param(name, marks=pytest.mark.thorough)
     for name in trace_names()],
)  # fmt: skip
def test_a_real_traces_screen_is_whole(name, shared_verdict, capsys, monkeypatch):
    analysis = shared_verdict(name)
    lines = screen(analysis, capsys, monkeypatch)
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    # Only the places of changes may be shortened; `advise` has them whole.
    whole = [each for each in lines if not each.startswith("    ")]
    assert not any("..." in each or "…" in each for each in whole)
    told = " ".join(lines)
    assert tracekit.text.duration(analysis.judged.window.span_ns) in told
    # Lines may also break behind a hyphen.
    headline, shown = (
        " ".join(t.split()).replace("- ", "-") for t in (analysis.verdict.headline, told)
    )
    assert headline in shown
