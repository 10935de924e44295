"""The workbook that `tracekit export TRACE -o FILE.xlsx` writes, read again as what it is: XML."""

import re
import zipfile
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tests.kit import traces
from tracekit.commands import cli

pytest.importorskip("xlsxwriter")

HOSTILE = ("=1+1", "+1", "-1", "@SUM(A1)", "http://evil", "\x1b[2J")
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets_of(path):
    """The XML and the rows of each sheet, by its name."""
    with zipfile.ZipFile(path) as book:
        shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        texts = ["".join(each.itertext()) for each in shared]
        names = re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode())
        found = {}
        for number, name in enumerate(names, 1):
            xml = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
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


def export(*arguments):
    given = ["export", *map(str, arguments)]
    return CliRunner().invoke(cli, given, catch_exceptions=False)


@pytest.fixture(scope="module")
def hostile_book(tmp_path_factory):
    """The workbook of two ranks whose names look like formulas."""
    folder = tmp_path_factory.mktemp("book")
    events = [traces.step(0, 0, 1000)]
    for number, name in enumerate(HOSTILE, 1):
        at = 100 * (number - 1)
        call = traces.operator(name, at, 90)
        events += traces.launched([call], at + 1, at + 50, 30, number, name=name)
    for rank in range(2):
        job = {"rank": rank, "world_size": 2}
        traces.write(folder / f"rank{rank}.json", events, distributedInfo=job)
    done = export(folder, "-o", folder / "t.xlsx")
    assert "t.xlsx: Ranks, Verdict, Where the time went" in done.output
    return sheets_of(folder / "t.xlsx")


def test_text_of_a_trace_is_never_a_formula(hostile_book):
    for xml, _ in hostile_book.values():
        assert not list(xml.iter(f"{MAIN}f"))
        assert not list(xml.iter(f"{MAIN}hyperlink"))
    names = {row[1] for row in hostile_book["Top kernels"][1]}
    assert {"=1+1", "+1", "-1", "@SUM(A1)", "http://evil"} <= names
    assert not any("\x1b" in str(cell) for _, rows in hostile_book.values() for row in rows
                   for cell in row)  # fmt: skip


def test_each_sheet_has_headings_with_units_that_stay_in_view_and_numbers(hostile_book):
    assert {"Ranks", "Verdict", "Top kernels", "Operators", "Launches", "Gaps"} <= set(hostile_book)
    for xml, (heads, *rows) in hostile_book.values():
        pane = next(xml.iter(f"{MAIN}pane"))
        assert (pane.get("state"), pane.get("ySplit")) == ("frozen", "1")
        assert len(list(xml.iter(f"{MAIN}col"))) >= 1
        assert rows
        for at, head in enumerate(heads):
            if "(ms" in head or "(%)" in head:
                cells = [row[at] for row in rows if len(row) > at]
                assert all(isinstance(cell, float | None) for cell in cells), head
    heads, first, *_ = hostile_book["Top kernels"][1]
    assert first[heads.index("total (ms)")] == 0.03
    heads, *rows = hostile_book["Ranks"][1]
    assert [row[0] for row in rows[:2]] == [0, 1]


def test_a_real_traces_workbook_has_its_advice(tmp_path, shared_database):
    export(shared_database("h100-bert-small.json.gz").name, "-o", tmp_path / "book.xlsx")
    heads, first, *_ = sheets_of(tmp_path / "book.xlsx")["Advice"][1]
    assert first[1] == "Capture the step as a CUDA graph"
    assert 0.7 < first[heads.index("share of the window (%)")] < 1


def test_a_cut_traces_workbook_comes_with_a_warning(tmp_path):
    whole = traces.write(tmp_path / "t.json", [traces.operator("aten::mm", 0, 9)] * 9)
    whole.write_bytes(whole.read_bytes()[:-40])
    done = export(whole, "-o", tmp_path / "book.xlsx")
    assert done.exit_code == 0 and "the end is missing" in done.stderr
    (tmp_path / "book.xlsx").unlink()
    # And it is about whole traces.
    for more in (["--format", "collapsed"], ["--step", "0"], ["--weight", "gpu"]):
        assert export(whole, "-o", tmp_path / "book.xlsx", *more).exit_code == 2
        assert not (tmp_path / "book.xlsx").exists()
