"""What `tracekit export` writes for other tools: flame graphs as speedscope's file and as folded
stacks, and a workbook, which is read again as what it is: XML."""

import json
import re
import zipfile
from xml.etree import ElementTree

import pytest

import tracekit
from tests.kit import traces
from tests.kit.processes import invoke
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.reporters.stacks import stacks

HOSTILE = "a;b\nc\x1b[31m 7"
EVENTS = [
    traces.slice_event("user_annotation", "ProfilerStep#3", 0, 100),
    traces.slice_event("cpu_op", HOSTILE, 5, 20),
    traces.launch(10, 5, 1),
    traces.gpu_op(20, 40, 1, name="sgemm"),
    traces.slice_event("cpu_op", "aten::mm", 50, 20),
]


WAITING = traces.slice_event("cpu_op", "poll", 0, 500, tid=1)


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    made = {"traced": [WAITING, *EVENTS], "on the host": EVENTS[:2]}
    folder = tmp_path_factory.mktemp("stacks")
    for name, events in made.items():
        path = traces.write(folder / f"{name}.json", events)
        tracekit.load(path, folder / f"{name}.duckdb", verdicts=False).close()
    return folder


@pytest.fixture
def export(databases, tmp_path):
    """Exports a trace; returns what is written."""

    def write(name, *arguments):
        path = tmp_path / "out"
        given = [str(databases / f"{name}.duckdb"), *arguments, "-o", str(path)]
        cli.main(["export", *given], standalone_mode=False)
        return path.read_text()

    return write


def check_speedscope(file):
    """The rules of https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts."""
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(file) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = file["shared"]["frames"]
    assert all(isinstance(each["name"], str) for each in frames)
    assert 0 <= file["activeProfileIndex"] < len(file["profiles"])
    for profile in file["profiles"]:
        assert set(profile) == {
            "type", "name", "unit", "startValue", "endValue", "samples", "weights",
        }  # fmt: skip
        assert (profile["type"], profile["unit"]) == ("sampled", "nanoseconds")
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(type(weight) is int and weight > 0 for weight in profile["weights"])
        assert all(0 <= each < len(frames) for sample in profile["samples"] for each in sample)
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])


def folded(text):
    lines = [re.fullmatch(r"(.*) (\d+)", line) for line in text.splitlines()]
    return {tuple(line[1].split(";")): int(line[2]) for line in lines}


@pytest.mark.thorough
@pytest.mark.parametrize(("weight", "whole"), [("host", 100_000), ("gpu", 40_000)])
def test_speedscope_gets_a_profile_for_each_thread(export, weight, whole):
    """The thread that launches comes up first."""
    file = json.loads(export("traced", "--format", "speedscope", "--weight", weight))
    check_speedscope(file)
    ends = [profile["endValue"] for profile in file["profiles"]]
    assert sorted(ends) == ([whole] if weight == "gpu" else [whole, 500_000])
    assert ends[file["activeProfileIndex"]] == whole
    names = "".join(frame["name"] for frame in file["shared"]["frames"])
    assert not set("\x1b\n") & set(names)


def test_folded_stacks_survive_hostile_names(export):
    found = folded(export("traced", "--format", "collapsed"))
    assert sum(found.values()) == 100_000 + 500_000
    assert {len(path) for path in found} == {2, 3, 4}
    # A number behind a last space would be a second count to flamegraph.pl.
    assert not any(re.search(r"\s[\d.]+$", frame) for path in found for frame in path)
    assert found[next(path for path in found if path[-1] == "aten::mm")] == 20_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["h100-bert-small.json.gz", "v100-compiled-ddp.json.gz"])
@pytest.mark.parametrize("weight", ["host", "gpu"])
def test_the_stacks_add_up_to_the_time_that_the_report_shows(name, weight, shared_ask):
    rows = shared_ask(name, "flame_graph")
    shown = sum(row[f"{weight}_ns"] for row in rows if row["depth"] == 0)
    found = stacks(rows, weight)
    assert sum(time for thread in found.values() for _, time in thread) == shown > 0
    assert all(time > 0 for thread in found.values() for _, time in thread)


def test_options_of_flame_graphs_are_refused_without_one(export):
    with pytest.raises(TracekitError, match="a flame graph needs GPU ops"):
        export("on the host", "--format", "speedscope", "--weight", "gpu")
    with pytest.raises(TracekitError, match="--weight is for a flame graph"):
        export("traced", "--weight", "gpu")


# -- the workbook

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "http://evil", "\x1b[2J")
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets_of(path):
    """The XML and the rows of each sheet, by its name."""
    with zipfile.ZipFile(path) as file:
        shared = ElementTree.fromstring(file.read("xl/sharedStrings.xml"))
        texts = ["".join(each.itertext()) for each in shared]
        names = re.findall(r'<sheet name="([^"]+)"', file.read("xl/workbook.xml").decode())
        found = {}
        for number, name in enumerate(names, 1):
            xml = ElementTree.fromstring(file.read(f"xl/worksheets/sheet{number}.xml"))
            rows = []
            for row in xml.iter(f"{MAIN}row"):
                cells = {}
                for cell in row:
                    (letter,) = re.findall("^[A-Z]", cell.get("r"))
                    value = cell.findtext(f"{MAIN}v")
                    is_text = cell.get("t") == "s"
                    cells[ord(letter) - ord("A")] = texts[int(value)] if is_text else float(value)
                rows.append([cells.get(at) for at in range(max(cells) + 1)])
            found[name] = (xml, rows)
    return found


def exported(*arguments):
    pytest.importorskip("xlsxwriter")
    return invoke("export", *arguments)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The workbook of two ranks whose names look like formulas."""
    folder = tmp_path_factory.mktemp("book")
    events = [traces.step(0, 0, 1000)]
    for number, name in enumerate(FORMULAS, 1):
        at = 100 * (number - 1)
        call = traces.operator(name, at, 90)
        events += traces.launched([call], at + 1, at + 50, 30, number, name=name)
    for rank in range(2):
        job = {"rank": rank, "world_size": 2}
        traces.write(folder / f"rank{rank}.json", events, distributedInfo=job)
    done = exported(folder, "-o", folder / "t.xlsx")
    assert "t.xlsx: Ranks, Verdict, Where the time went" in done.output
    return sheets_of(folder / "t.xlsx")


def test_text_of_a_trace_is_never_a_formula(book):
    for xml, _ in book.values():
        assert not list(xml.iter(f"{MAIN}f"))
        assert not list(xml.iter(f"{MAIN}hyperlink"))
    names = {row[1] for row in book["Top kernels"][1]}
    assert {"=1+1", "+1", "-1", "@SUM(A1)", "http://evil"} <= names
    assert not any("\x1b" in str(cell) for _, rows in book.values() for row in rows
                   for cell in row)  # fmt: skip


def test_each_sheet_has_headings_with_units_that_stay_in_view_and_numbers(book):
    assert {"Ranks", "Verdict", "Top kernels", "Operators", "Launches", "Gaps"} <= set(book)
    for xml, (heads, *rows) in book.values():
        pane = next(xml.iter(f"{MAIN}pane"))
        assert (pane.get("state"), pane.get("ySplit")) == ("frozen", "1")
        assert len(list(xml.iter(f"{MAIN}col"))) >= 1
        assert rows
        for at, head in enumerate(heads):
            if "(ms" in head or "(%)" in head:
                cells = [row[at] for row in rows if len(row) > at]
                assert all(isinstance(cell, float | None) for cell in cells), head
    heads, first, *_ = book["Top kernels"][1]
    assert first[heads.index("total (ms)")] == 0.03
    heads, *rows = book["Ranks"][1]
    assert [row[0] for row in rows[:2]] == [0, 1]


def test_a_real_traces_workbook_has_its_advice(tmp_path, shared_database):
    exported(shared_database("h100-bert-small.json.gz").name, "-o", tmp_path / "book.xlsx")
    heads, first, *_ = sheets_of(tmp_path / "book.xlsx")["Advice"][1]
    assert first[1] == "Capture the step as a CUDA graph"
    assert 0.7 < first[heads.index("share of the window (%)")] < 1


def test_a_cut_traces_workbook_comes_with_a_warning(tmp_path):
    whole = traces.write(tmp_path / "t.json", [traces.operator("aten::mm", 0, 9)] * 9)
    whole.write_bytes(whole.read_bytes()[:-40])
    done = exported(whole, "-o", tmp_path / "book.xlsx")
    assert done.exit_code == 0 and "the end is missing" in done.stderr
    (tmp_path / "book.xlsx").unlink()
    # And it is about whole traces.
    for more in (["--format", "collapsed"], ["--step", "0"], ["--weight", "gpu"]):
        with pytest.raises(TracekitError):
            exported(whole, "-o", tmp_path / "book.xlsx", *more)
        assert not (tmp_path / "book.xlsx").exists()
