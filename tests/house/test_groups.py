"""Tests of one group share a resource for a single process: one worker runs them all."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

GROUPED = """
import os
import time
import pytest

@pytest.mark.parametrize("case", [
    pytest.param(case, marks=pytest.mark.xdist_group("ab"[case % 2])) for case in range(12)
])
def test_case(case):
    time.sleep(0.02)
    print("group", "ab"[case % 2], "on", os.environ["PYTEST_XDIST_WORKER"])
"""


def test_one_worker_runs_all_tests_of_a_group(tmp_path):
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    options = re.search(r"-m pytest ([^;]*)", makefile)[1].split()
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", *options, "-rP", "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    workers = defaultdict(set)
    for group, worker in re.findall(r"group (\w) on (\w+)", done.stdout):
        workers[group].add(worker)
    assert sorted(map(len, workers.values())) == [1, 1], done.stdout
