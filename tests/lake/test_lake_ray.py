"""Adding to a lake on a Ray cluster: what dies meanwhile is done again, and done once."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.lakes import ranks, write_rank
from tests.kit.processes import children_of
from tracekit.lake.storage import WORK_PREFIX
from tracekit.run import open_lake

# Before Ray is imported: nothing is sent anywhere, and nodes listen on the loopback interface, as
# they do on systems where this is the default.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

ray = pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")

# A cluster takes 20 s to start, and what it shares with other workers is tested with those.
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.thorough]

RANKS = 12
LIMIT_S = 900
ROOT = Path(__file__).parents[2]
# One core, and memory for two tasks.
NODE = {
    "num_cpus": 1,
    "memory": 1_300 << 20,
    "object_store_memory": 80 << 20,
    "node_ip_address": "127.0.0.1",
}


@pytest.fixture(scope="module")
def run_of_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks") / "night"
    for rank in range(RANKS):
        write_rank(folder, rank, RANKS)
    return folder


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one node, on the loopback interface."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(ROOT))
        started = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        started.wait_for_nodes()
        yield started
        started.shutdown()


def descendants(process):
    for child in children_of(process):
        yield child
        with suppress(OSError):
            yield from descendants(child)


def is_working(process):
    """Whether a process has the files of a task open."""
    with suppress(OSError):
        files = [str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()]
        return any(WORK_PREFIX in each for each in files)
    return False


def stop_worker(node, driver):
    """Stops a process of a node while it works on a task, and returns its id."""
    (raylet,) = node.all_processes["raylet"]
    while True:
        assert driver.poll() is None, driver.communicate()
        for process in filter(is_working, descendants(raylet.process.pid)):
            os.kill(process, signal.SIGSTOP)
            # It may have ended its task before it was stopped.
            if is_working(process):
                return process
            os.kill(process, signal.SIGCONT)
        time.sleep(0.02)


def begin(folder, lake, address, memory_mb=600):
    """Starts `tracekit lake add` on a cluster."""
    command = [sys.executable, "-m", "tracekit", "lake", "add", str(folder), "--to", str(lake),
               "--ray", address, "--memory-mb", str(memory_mb), "--without-verdicts"]  # fmt: skip
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def wait_for(lake, count, driver):
    deadline = time.monotonic() + LIMIT_S
    while len(list(lake.rglob("manifests/**/*.json"))) < count:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)


def assert_whole(lake):
    assert [each.rank for each in ranks(lake)] == list(range(RANKS))
    with open_lake(str(lake)) as opened:
        told = opened.fetch(
            "SELECT rank, count(*) FROM event JOIN trace USING (trace_id) GROUP BY 1"
        )
        assert sorted(told[1]) == [(rank, 18) for rank in range(RANKS)]
        late = [row for row in opened.ask("stragglers", top=10**6) if row["held_up_ns"]]
        assert {row["rank"] for row in late} == {1}


@pytest.mark.parametrize("dies", ["worker", "node"])
def test_a_worker_or_a_node_that_dies_costs_only_time(run_of_ranks, cluster, tmp_path, dies):
    node = cluster.head_node if dies == "worker" else cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    driver = begin(run_of_ranks, tmp_path / "lake", cluster.address)
    stopped = stop_worker(node, driver)
    if dies == "node":
        cluster.remove_node(node, allow_graceful=False)
    with suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGKILL)
    out, err = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 0, err
    assert f"{RANKS} traces read, 0 files unchanged, 0 failed" in out
    assert "was started 2 times" in err
    assert_whole(tmp_path / "lake")


def test_a_driver_that_dies_is_started_again_and_reads_the_rest(run_of_ranks, cluster, tmp_path):
    lake = tmp_path / "lake"
    driver = begin(run_of_ranks, lake, cluster.address)
    # A group of ranks, and the version of the run that has it.
    wait_for(lake, 2, driver)
    driver.kill()
    driver.communicate()
    again = begin(run_of_ranks, lake, cluster.address)
    out, err = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, err
    unread = int(out.splitlines()[-1].split(" files unchanged")[0].rpartition(" ")[2])
    assert 4 <= unread < RANKS
    assert_whole(lake)


def test_a_task_that_no_node_can_hold_is_refused_at_once(run_of_ranks, cluster, tmp_path):
    driver = begin(run_of_ranks, tmp_path / "lake", cluster.address, memory_mb=4000)
    _, err = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 2
    assert "a task needs 4,000 MB, and no machine in the cluster has more than 1,300" in err
