"""The screen that `analyze` prints: what misleads comes first, and nothing is cut off."""

import pytest

import tracekit
from tests.conftest import judged_together, trace_names
from tests.kit.atoms import MS, US, Launch, Sync, Work, operator
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
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
