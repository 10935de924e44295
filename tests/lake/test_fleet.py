"""What `tracekit fleet` says of the runs of a lake: planted changes, and a slow host."""

import json
import random
from dataclasses import replace

import pytest

from tests.kit import ranks_simulated
from tests.kit.atoms import US
from tests.kit.lakes import add, write_rank
from tests.kit.processes import invoke
from tests.kit.ranks_simulated import Job
from tests.kit.traces import slice_event, write
from tracekit.lake.reading import open_lake

NIGHTS, HOSTS, SLOW_HOST = 8, 8, 4
BEGAN_NS, NIGHT_NS = 1_760_000_000 * 10**9, 86_400 * 10**9
# By the night from which on it is planted, a change and its label.
PLANTED = {
    3: ({"driver": "560"}, {"kernel_ns": 640 * US}),
    5: ({"nccl": "2.31"}, {"message_ns": 500 * US}),
    7: ({"dataset": "v2", "commit": "week01"}, {"python_ns": 500 * US}),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Simulated nights on two of some hosts, of which one is slow; three changes are planted."""
    folder = tmp_path_factory.mktemp("nights")
    job = Job(data=2, steps=2)
    labels = {"commit": "week00", "driver": "550", "nccl": "2.30", "dataset": "v1"}
    for night in range(NIGHTS):
        label, change = PLANTED.get(night, ({}, {}))
        job, labels = replace(job, **change), labels | label
        hosts = random.Random(-night).sample(range(HOSTS), 2)
        # Nights differ by about half a percent.
        ran = replace(
            job,
            seed=1000 * night,
            kernel_ns=round(job.kernel_ns * random.Random(night).gauss(1, 0.005)),
            slow_kernels={hosts.index(SLOW_HOST): 1.4} if SLOW_HOST in hosts else {},
        )
        (folder / f"night{night}").mkdir()
        names = [f"node{each:02d}" for each in hosts]
        began = {"baseTimeNanoseconds": BEGAN_NS + night * NIGHT_NS}
        ranks_simulated.write(folder / f"night{night}", ran, names, **began)
        assert not add(folder / "lake", folder / f"night{night}", labels=labels).failed
    return folder / "lake"


@pytest.mark.thorough
def test_planted_changes_come_with_their_labels_and_causes(lake):
    told = json.loads(invoke("fleet", lake, "--json").stdout)
    assert (told["order"], len(told["runs"]), told["hosts"]) == ("time", NIGHTS, HOSTS)
    found = {
        each["run"]: (each["cause"], each["rank"], {k: v[1] for k, v in each["labels"].items()})
        for each in told["changes"]
    }
    assert found == {
        "night3": ("compute", None, {"driver": "560"}),
        "night5": ("communication", None, {"nccl": "2.31"}),
        "night7": ("python", None, {"dataset": "v2", "commit": "week01"}),
    }
    assert [each["lost_ns"] for each in told["changes"]] == sorted(
        (each["lost_ns"] for each in told["changes"]), reverse=True
    )
    (host,) = told["slow_hosts"]
    assert (host["host"], host["cause"]) == (f"node{SLOW_HOST:02d}", "compute")
    assert (host["late_runs"], host["runs"]) == (3, 3)
    assert told["slow_runs"] == []


@pytest.mark.thorough
def test_the_terminal_and_the_page_say_the_same(lake, tmp_path):
    told = " ".join(invoke("fleet", lake).stdout.split())
    assert "With it came driver 550 -> 560." in told
    assert f"node{SLOW_HOST:02d}: the others wait for it in" in told
    assert f"tracekit analyze {lake}/run=night3" in told
    assert invoke("report", lake, "-o", tmp_path / "page.html").exit_code == 0
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert "With it came driver 550 -&gt; 560." in page
    assert f"{lake}/run=night3" in page


@pytest.mark.thorough
def test_labels_and_hosts_of_another_form_are_left_out_and_labels_can_be_given(
    tmp_path, run, refused
):
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
