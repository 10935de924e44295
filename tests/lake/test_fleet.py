"""What `tracekit fleet` says of the runs of a lake: planted changes, and a slow host."""

import json
from itertools import groupby

import pytest

from tests.kit import year
from tests.kit.lakes import add, write_rank
from tests.kit.traces import slice_event, write
from tracekit.lake.reading import open_lake

NIGHTS, RANKS, HOSTS, SLOW_HOST = 8, 2, 8, "node04"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A simulated week, in which a host is slow and three changes are planted."""
    folder = tmp_path_factory.mktemp("year")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(year, "BAD_HOST", SLOW_HOST)
        # With two ranks, a late rank would hide what the other does.
        patched.setattr(year, "PLANTED", year.PLANTED[1:])
        nights = groupby(range(NIGHTS), lambda night: year.job_of(night, NIGHTS, RANKS)[1])
        for labels, alike in nights:
            folders = [folder / f"night{night:03d}" for night in alike]
            for each in folders:
                year.write_night(each, int(each.name[-3:]), NIGHTS, RANKS, HOSTS)
            assert not add(folder / "lake", *folders, labels=labels).failed
    return folder / "lake"


def test_planted_changes_come_with_their_labels_and_causes(lake, run):
    told = json.loads(run("fleet", str(lake), "--json").stdout)
    assert (told["order"], len(told["runs"]), told["hosts"]) == ("time", NIGHTS, HOSTS)
    found = {
        each["run"]: (each["cause"], each["rank"], {k: v[1] for k, v in each["labels"].items()})
        for each in told["changes"]
    }
    assert found == {
        "night003": ("compute", None, {"driver": "560"}),
        "night005": ("communication", None, {"nccl": "2.31"}),
        "night007": ("python", None, {"dataset": "v2", "commit": "week01"}),
    }
    assert [each["lost_ns"] for each in told["changes"]] == sorted(
        (each["lost_ns"] for each in told["changes"]), reverse=True
    )
    (host,) = told["slow_hosts"]
    assert (host["host"], host["cause"]) == (SLOW_HOST, "compute")
    assert (host["late_runs"], host["runs"]) == (3, 3)
    assert told["slow_runs"] == []


def test_the_terminal_and_the_page_say_the_same(lake, run, tmp_path):
    told = " ".join(run("fleet", str(lake)).stdout.split())
    assert "With it came driver 550 -> 560." in told
    assert f"{SLOW_HOST}: the others wait for it in" in told
    assert f"tracekit analyze {lake}/run=night003" in told
    done = run("report", str(lake), "-o", "page.html")
    assert done.returncode == 0, done.stderr
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert "With it came driver 550 -&gt; 560." in page
    assert f"{lake}/run=night003" in page


def test_labels_and_hosts_of_traces_are_texts_or_nothing_and_may_be_given(tmp_path, run, refused):
    # Only the last labels have the form that tracekit records.
    recorded = [[1], "x", {"a": {"b": 1}, "c": "d"}, None, {"branch": "main", "commit": "1f3"}]
    for rank, labels in enumerate(recorded):
        path = write_rank(tmp_path / "in", rank)
        host = "node7" if rank == 4 else ["x"]
        trace = json.loads(path.read_text()) | {"tracekit": {"labels": labels, "host": host}}
        path.write_text(json.dumps(trace))
    given = ["lake", "add", "in", "--to", "lake", "--without-verdicts", "--label"]
    refused(*given, "branch")
    done = run(*given, "branch=a=b", "--label", "x=1")
    assert done.returncode == 0, done.stderr
    with open_lake(str(tmp_path / "lake")) as opened:
        rows = opened.fetch("SELECT labels, host FROM trace ORDER BY rank")[1]
    added = {"branch": "a=b", "x": "1"}
    assert rows == [
        (added, None), (added, None), (added | {"c": "d"}, None), (added, None),
        (added | {"commit": "1f3"}, "node7"),
    ]  # fmt: skip


def test_a_lake_without_gpu_ops_is_one_line(tmp_path, refused):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", [slice_event("cpu_op", "aten::mm", 1, 12)])
    add(tmp_path / "lake", tmp_path / "in")
    assert "none of its runs has GPU ops" in refused("fleet", "lake")
