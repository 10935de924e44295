"""Every door gives the same regime, margin, prices of changes and one-offs of a trace: those of
`tracekit analyze --json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import trace_file, trace_names
from tests.kit.lakes import add
from tests.kit.processes import invoke
from tests.kit.sampling import sample
from tracekit.agents.tools import Tools
from tracekit.agents.traces import Folders, Opened
from tracekit.ingest.resources import Resources
from tracekit.reporters.parts import is_of_recording
from tracekit.run import open_lake
from tracekit.text import duration, percent
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis
from tracekit.verdict.regime import split_bound

pytest.importorskip("altair", reason="a page needs the extra report")
# It has steps, one-offs, and priced changes.
WITH_ALL = "simulated-program-23.json.gz"
ONE_OFF = ("kind", "side", "start_ns", "dur_ns", "usual_ns", "excess_ns", "cause", "name", "place",
           "event_id", "pid", "tid")  # fmt: skip


def said(found: dict[str, Any]) -> dict[str, Any]:
    """What the JSON of an analysis says."""
    return {
        "regime": found["verdict"]["regime"],
        "margin": found["verdict"]["margin"],
        "prices": [(each["remedy"], each["change"], each["saves_ns"]) for each in found["advice"]],
        "saved": [(each["remedy"], each["saves_ns"]) for each in found["advice"]],
        "one_offs": listed(found["one_offs"]),
    }


def listed(one_offs: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps([each[key] for key in ONE_OFF]) for each in one_offs)


def doors(path: Path, database: tracekit.Database, folder: Path) -> Iterator[tuple[str, Any]]:
    """The interfaces that answer with data, each with the part of its answer to compare."""
    yield "a verdict judged again", said(database.verdict(window=None, thresholds=ANEW).as_dict())
    fixes = database.advise()
    yield "advise", {"saved": [(each.remedy, each.saves_ns) for each in fixes.advice]}
    yield "the question one_offs", {"one_offs": listed(database.ask("one_offs"))}
    add(folder / "lake", path, judges=True)
    with open_lake(str(folder / "lake")) as lake:
        (stored,) = lake.verdicts()
        yield "a lake", said(stored.as_dict())
        yield "a lake's question", {"one_offs": listed(lake.ask("one_offs"))}
    with tracekit.load(path) as memory:
        yield "the trace in memory", {"one_offs": listed(memory.ask("one_offs"))}
    file = Path(database.name)
    served = Folders([file.parent])
    tools = Tools(served, Opened(1, Resources(), served), characters=10**7, timeout_s=600)
    answer = tools.analyze(file.name, rows=10**6)["answer"]
    yield (
        "an agent",
        {
            "regime": answer["verdict"]["regime"],
            "margin": answer["verdict"]["margin"],
            "saved": [(each["remedy"], each["saves_ns"]) for each in answer["advice"]],
        },
    )
    tools.close()


# These thresholds differ from the defaults, so the trace is judged again, but with the same result:
# the one that differs does not affect verdicts.
ANEW = replace(Thresholds(), shown_gain=0.0006)


def require_texts(database: tracekit.Database, analysis: Analysis, folder: Path) -> None:
    """Checks the doors that answer with text: console, --explain, page and notebook."""
    verdict = analysis.verdict
    priced = [e for e in analysis.advice if not e.once and not is_of_recording(e)]
    margin = "" if verdict.margin is None else percent(abs(verdict.margin))
    full = invoke("analyze", database.name, "--full", "--explain")
    assert full.exit_code == 0, full.stderr
    bound = split_bound(verdict.regime, verdict.bottleneck)
    assert "".join(bound) in full.stdout
    exact = re.search(r"([+-]\d\.\d{3}) of the window: (\S+)", full.stdout)
    if exact and verdict.margin is not None:
        assert exact.groups() == (f"{verdict.margin:+.3f}", verdict.regime)
    screen = invoke("analyze", database.name).stdout
    for text in (full.stdout, screen):
        assert not priced or duration(priced[0].saves_ns) in text
    notebook = analysis._repr_html_()
    assert "".join(bound) in notebook and margin in notebook
    page = folder / "page.html"
    assert invoke("report", database.name, "-o", page).exit_code == 0
    written = page.read_text(encoding="utf-8")
    assert re.search(r'<span class="regime"[^>]*>([a-z-]+)</span>', written)[1] == bound[0]
    numbers = re.findall(r'<data value="([^"]*)" data-key="([^"]+)">', written)
    for value, key in numbers:
        assert float(value) == reduce(getitem, key.split("."), analysis.as_dict()), key
    assert ("verdict.margin" in dict(map(reversed, numbers))) == (verdict.margin is not None)
    parts = [int(each) for each in re.findall(r'<data value="(\d+)" data-part=', written)]
    assert sum(parts) in (0, analysis.judged.window.span_ns)
    prices = re.findall(r'<data value="(\d+)" data-advice="([^"]+)">', written)
    known = {(str(each.saves_ns), each.remedy) for each in analysis.advice}
    assert set(prices) <= known and len(prices) == min(len(prices), len(analysis.advice))
    assert prices or not priced


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", sorted(trace_names(), key=lambda name: name != WITH_ALL))
def test_all_doors_give_one_answer(name, tmp_path):
    path = trace_file(name)
    with tracekit.load(path, tmp_path / "t.duckdb") as database:
        analysis = database.verdict()
        expected = said(analysis.as_dict())
        for door, found in doors(path, database, tmp_path):
            assert {key: expected[key] for key in found} == found, door
        window = None if analysis.judged.window.kind != "trace" else "trace"
        gains = analysis.judged.gains
        priced = [each for each in analysis.advice if each.change is not None]
        for each in sample(f"changes of {name} that are priced again", priced, priced[:2]):
            predicted = database.whatif(each.change, window=window)
            assert predicted.saves_ns == each.saves_ns, each.change
        if gains is not None:
            # The length in which changes are priced is without the recorder's cost.
            recorded_ns = gains.window_ns + (gains.recorder_ns or 0)
            steady = database.whatif("steady", window=window)
            if steady.predicted_ns == steady.window_ns:
                # What only judging sets apart: a start that is held up, or the longest wait of a
                # run that does not repeat.
                recorded_ns += gains.one_offs_ns
            assert steady.predicted_ns == recorded_ns
        require_texts(database, analysis, tmp_path)
