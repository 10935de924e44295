"""The screen that `analyze` prints: what misleads comes first, and nothing is cut off."""

import pytest

import tracekit
from tests.conftest import shared_trace_names
from tests.kit import traces
from tests.kit.atoms import MS, US, Call, Launch, Sync, Work, operator
from tests.kit.simulator import Machine
from tests.verdict.test_recorder import (
    EAGER,
    analyzed,
    calls,
    captured,
    decoding,
    nested,
    overflow,
    reducing,
    stacked,
    unended,
    waiting_at_first,
    without_ops_of,
)
from tracekit.reporters.first_screen import render

EVEN = Launch(20 * US, (("memory-bandwidth", 14 * US),) * 200, name="cudaGraphLaunch")
BENT = [
    ("99 of 100 graph replays have no kernels", decoding(), {"lose": overflow}),
    (
        "The first 60 of 200 launches have no kernels",
        [*EAGER * 200, Sync(2 * US)],
        {"lose": lambda events: without_ops_of(events, calls(events)[:60])},
    ),
    ("160 Python calls have no end in this trace", stacked(), {"lose": unended}),
    ("The first collective takes 17.5 s, the other 63", reducing(17_456 * MS), {}),
    (
        "Equal gaps between the kernels of graph replays",
        decoding(20, EVEN),
        {"machine": Machine(gap_ns=(4_900, 5_200))},
    ),
    ("Recording took about 91.7 % of the host's main thread", nested(1_000), {}),
    (
        "No work of a model was recorded: 5 calls of 15 ms",
        [Call("cudaFree", 3 * MS, "allocation")] * 5,
        {},
    ),
    ("400 of 403 launches were captured", [*EAGER * 3, *captured(400), Sync(2 * US)], {}),
]


def screen(analysis, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    render(analysis)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("sentence", "atoms", "how"), BENT, ids=[each[0] for each in BENT])
def test_what_the_recorder_bends_is_the_first_line(
    sentence, atoms, how, tmp_path, capsys, monkeypatch
):
    lines = screen(analyzed(tmp_path, atoms, **how), capsys, monkeypatch)
    assert lines[0].startswith(sentence)


def test_work_launched_before_the_recording_is_no_idle_time(tmp_path, capsys, monkeypatch):
    with traces.load(tmp_path, waiting_at_first(20_000)) as database:
        lines = screen(database.verdict(), capsys, monkeypatch)
    assert lines[0].startswith("For the first 20 ms the device worked on what was launched before")
    (part,) = [each for each in lines if each.startswith("launched before the recording")]
    assert "20 ms  50.0 %" in part


def test_shares_name_what_is_left_without_one_offs(tmp_path, capsys, monkeypatch):
    small = operator("aten::add", 20 * US, Launch(4 * US, (("memory-bandwidth", 3 * US),)))
    atoms = [*[small] * 60, operator("aten::mm", 10 * US, Work(90 * MS)), *[small] * 300]
    analysis = analyzed(tmp_path, [*atoms, Sync(2 * US)])
    lines = screen(analysis, capsys, monkeypatch)
    left = tracekit.text.duration(analysis.judged.gains.window_ns)
    assert analysis.judged.gains.one_offs_ns > 80 * MS
    assert any(each.endswith(f"of the other {left}") for each in lines)
    once = next(at for at, each in enumerate(lines) if each.startswith("What happened once"))
    assert once < next(at for at, each in enumerate(lines) if each.startswith("What to change"))


@pytest.mark.sampled(4, of=51)
@pytest.mark.parametrize("name", shared_trace_names())
def test_a_real_traces_screen_is_whole(name, shared_database, capsys, monkeypatch):
    analysis = shared_database(name).verdict()
    lines = screen(analysis, capsys, monkeypatch)
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    # Only the places of changes may be shortened; `advise` has them whole.
    whole = [each for each in lines if not each.startswith("    ")]
    assert not any("..." in each or "…" in each for each in whole)
    told = " ".join(lines)
    assert tracekit.text.duration(analysis.judged.window.span_ns) in told
    assert " ".join(analysis.verdict.headline.split()) in " ".join(told.split())
