"""Annotated traces in Perfetto itself: it reads them whole, and its tables have what was drawn."""

import json
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from tests.compare.test_part import STEPS
from tests.conftest import trace_file, trace_names
from tests.kit.browser import perfetto, require_port
from tests.reporters.test_perfetto import SMALL, added
from tracekit.perfetto.annotate import annotate
from tracekit.perfetto.tracks import as_read

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

SIMULATED = "simulated-overhead-bound.json.gz"
PROBLEMS = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0 ORDER BY 1"
SLICE_COUNT = "SELECT count(*) FROM slice"
ARROW_COUNT = "SELECT count(*) FROM flow"
SLICES = """
    SELECT thread.name, slice.name, ts, dur
    FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
    WHERE category = 'tracekit'
"""
COUNTERS = """
    SELECT track.name, ts
    FROM counter JOIN process_counter_track AS track ON counter.track_id = track.id
"""
ARROWS = """
    SELECT a.ts, a.ts + a.dur, b.ts, b.ts + b.dur FROM flow
    JOIN slice AS a ON flow.slice_out = a.id JOIN slice AS b ON flow.slice_in = b.id
"""


@pytest.fixture(scope="module")
def page():
    with perfetto() as found:
        yield found


@pytest.fixture(autouse=True)
def _port(page):
    require_port()


@pytest.mark.thorough
@pytest.mark.parametrize("name", [SIMULATED, *(n for n in trace_names() if n != SIMULATED)])
def test_perfetto_reads_all_that_was_drawn_and_all_that_was_there(page, tmp_path, name):
    page.opens(trace_file(name))
    problems = Counter(dict(page.query(PROBLEMS)))
    ((own_slices,),), own_counters = page.query(SLICE_COUNT), page.query(COUNTERS)
    ((own_arrows,),) = page.query(ARROW_COUNT)
    output = tmp_path / "out.json.gz"
    annotate(trace_file(name), output)
    drawn = added(output)
    page.opens(output)
    # An arrow may lead to a slice that the page drops, since another one overlaps it.
    more = Counter(dict(page.query(PROBLEMS))) - problems
    assert more.keys() <= {"flow_no_enclosing_slice"}
    assert more.total() <= problems["slice_drop_overlapping_complete_event"]
    arrows = sum(each["ph"] == "s" for each in drawn)
    ((found_arrows,),) = page.query(ARROW_COUNT)
    assert arrows - more.total() <= found_arrows - own_arrows <= arrows
    tracks = {each["tid"]: each["args"]["name"] for each in drawn if each["name"] == "thread_name"}
    slices = Counter(
        (tracks[each["tid"]], each["name"], as_read(int(each["ts"] * 1000)),
         int(each["dur"] * 1000))
        for each in drawn if each["ph"] == "X"
    )  # fmt: skip
    assert Counter(page.query(SLICES)) == slices
    assert page.query(SLICE_COUNT) == [(own_slices + slices.total(),)]
    counters = [
        (f"{each['name']} {unit}", as_read(int(each["ts"] * 1000)))
        for each in drawn if each["ph"] == "C" for unit in each["args"]
    ]  # fmt: skip
    assert sorted(page.query(COUNTERS)) == sorted(counters + own_counters)


@pytest.mark.thorough
def test_perfetto_draws_the_arrows_of_the_critical_path(page, tmp_path):
    path, output = tmp_path / "t.json", tmp_path / "out.json"
    path.write_text(json.dumps(SMALL))
    annotate(path, output)
    ends = defaultdict(dict)
    for each in added(output):
        if each["ph"] in "sf":
            ends[each["id"]][each["ph"]] = each
    page.opens(output)
    found = page.query(ARROWS)
    assert ends
    assert len(found) == len(ends)
    for (out_ns, out_end_ns, in_ns, in_end_ns), arrow in zip(
        sorted(found), sorted(ends.values(), key=lambda each: each["s"]["ts"]), strict=True
    ):
        assert out_ns <= arrow["s"]["ts"] * 1000 <= out_end_ns
        assert in_ns <= arrow["f"]["ts"] * 1000 <= in_end_ns


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "step"), {SIMULATED: 1, **STEPS}.items())
def test_the_command_shows_a_part_of_a_trace(name, step, page):
    command = [sys.executable, "-m", "tracekit", "open", "--print-url", "--step", str(step)]
    with subprocess.Popen(
        [*command, trace_file(name)], stdout=subprocess.PIPE, text=True
    ) as opening:
        assert opening.stdout
        page.reads(opening.stdout.readline().strip())
        said, _ = opening.communicate(timeout=60)
    assert said.endswith("Perfetto has read the trace.\n")
    found = page.query(PROBLEMS)
    marks = page.query("SELECT DISTINCT name FROM slice WHERE name GLOB 'ProfilerStep#*'")
    assert marks == [(f"ProfilerStep#{step}",)]
    assert page.query("SELECT name FROM process WHERE pid = 2000000000") == [("tracekit",)]
    if found:
        page.opens(trace_file(name))
        assert {each for each, _ in found} <= {each for each, _ in page.query(PROBLEMS)}
