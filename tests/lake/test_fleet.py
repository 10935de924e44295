"""What `tracekit fleet` says of the runs of a lake: planted changes, and a slow host."""

import json
from itertools import groupby

import pytest

from tests.bench import year
from tests.kit.lakes import add, write_rank
from tests.kit.traces import slice_event, write
from tracekit.lake.reading import open_lake

NIGHTS, RANKS = 24, 2


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A simulated month, in which a host is slow and three changes are planted."""
    folder = tmp_path_factory.mktemp("year")
    with pytest.MonkeyPatch.context() as patched:
        # Of two ranks, one that is late hides what the other does.
        patched.setattr(year, "PLANTED", year.PLANTED[1:])
        nights = groupby(range(NIGHTS), lambda night: year.job_of(night, NIGHTS, RANKS)[1])
        for labels, alike in nights:
            folders = [folder / f"night{night:03d}" for night in alike]
            for each in folders:
                year.write_night(each, int(each.name[-3:]), NIGHTS, RANKS, 5 * RANKS)
            assert not add(folder / "lake", *folders, labels=labels).failed
    return folder / "lake"


def test_planted_changes_come_with_their_labels_and_causes(lake, run):
    told = json.loads(run("fleet", str(lake), "--json").stdout)
    assert (told["order"], len(told["runs"]), told["hosts"]) == ("time", NIGHTS, 10)
    found = {
        each["run"]: (each["cause"], each["rank"], {k: v[1] for k, v in each["labels"].items()})
        for each in told["changes"]
    }
    weekly = {"commit": "week02"}
    assert found == {
        "night009": ("compute", None, {"driver": "560"}),
        "night014": ("communication", None, {"nccl": "2.31"} | weekly),
        "night020": ("python", None, {"dataset": "v2"}),
    }
    assert [each["lost_ns"] for each in told["changes"]] == sorted(
        (each["lost_ns"] for each in told["changes"]), reverse=True
    )
    (host,) = told["slow_hosts"]
    assert (host["host"], host["cause"]) == (year.BAD_HOST, "compute")
    assert 3 <= host["late_runs"] <= host["runs"] < NIGHTS
    assert sum(each["share"] for each in told["slow_runs"]) < 0.02


def test_the_terminal_and_the_page_say_the_same(lake, run, tmp_path):
    told = " ".join(run("fleet", str(lake)).stdout.split())
    assert "With it came driver 550 -> 560." in told
    assert f"{year.BAD_HOST}: the others wait for it in" in told
    assert f"tracekit analyze {lake}/run=night009" in told
    done = run("report", str(lake), "-o", "page.html")
    assert done.returncode == 0, done.stderr
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert "With it came driver 550 -&gt; 560." in page
    assert f"{lake}/run=night009" in page


def test_labels_are_a_column_of_traces(lake, run):
    rows = "SELECT labels['driver'] AS driver, count(*) AS n FROM trace GROUP BY 1 ORDER BY 1"
    done = run("sql", str(lake), rows, "--json")
    assert json.loads(done.stdout) == [{"driver": "550", "n": 18}, {"driver": "560", "n": 30}]


def test_labels_are_given_on_the_command_line(tmp_path, run):
    write_rank(tmp_path / "in", 0)
    given = ["--to", "lake", "--without-verdicts"]
    assert run("lake", "add", "in", *given, "--label", "commit").returncode == 2
    done = run("lake", "add", "in", *given, "--label", "commit=a=b", "--label", "x=1")
    assert done.returncode == 0, done.stderr
    rows = run("sql", "lake", "SELECT labels['commit'] AS c FROM trace", "--json")
    assert json.loads(rows.stdout) == [{"c": "a=b"}]


def test_labels_and_host_of_a_recording_need_not_be_told_again(tmp_path, run):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    size = ("--device", "cpu", "--active", "1", "--warmup", "0", "--batch", "1", "--seq", "4")
    labels = ("--label", "commit=1f3", "--label", "branch=main")
    (tmp_path / "in").mkdir()
    done = run("capture", "mlp-eager", *size, *labels, "-o", "in/t.json", "--json")
    assert json.loads(done.stdout)["outputs"][0]["path"] == "in/t.json", done.stderr
    told = json.loads((tmp_path / "in" / "t.json").read_text())
    assert told.pop("host_name") == told["tracekit"]["host"]
    (tmp_path / "in" / "t.json").write_text(json.dumps(told))
    given = ("--to", "lake", "--without-verdicts", "--label", "branch=fix")
    assert run("lake", "add", "in", *given).returncode == 0
    rows = "SELECT labels['commit'] AS c, labels['branch'] AS b, host FROM trace"
    expected = {"c": "1f3", "b": "fix", "host": told["tracekit"]["host"]}
    assert json.loads(run("sql", "lake", rows, "--json").stdout) == [expected]
    refused = run("capture", "--server", "http://127.0.0.1:9", "--label", "a=b")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("labels", [[1], "x", {"a": {"b": 1}, "c": "d"}, None])
def test_labels_in_a_trace_are_texts_or_nothing(labels, tmp_path):
    path = write_rank(tmp_path / "in", 0)
    told = json.loads(path.read_text()) | {"tracekit": {"labels": labels, "host": ["x"]}}
    path.write_text(json.dumps(told))
    assert not add(tmp_path / "lake", path).failed
    with open_lake(str(tmp_path / "lake")) as lake:
        (rank,) = lake.ranks
        assert rank.labels == ({"c": "d"} if isinstance(labels, dict) else {})
        assert lake.fetch("SELECT host FROM trace")[1] == [(None,)]


def test_a_lake_without_gpu_ops_is_one_line(tmp_path, run):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", [slice_event("cpu_op", "aten::mm", 1, 12)])
    add(tmp_path / "lake", tmp_path / "in")
    done = run("fleet", "lake")
    assert (done.returncode, done.stdout) == (2, "")
    assert "none of its runs has GPU ops" in done.stderr
