"""`tracekit capture --with`: another profiler's stand-in, which writes a real file of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import tracekit
from tests.conftest import TRACEKIT
from tests.kit import nsys_simulated as nsys

# A stand-in writes its arguments to a file, and runs the program that follows its own switches.
NSYS = """#!/bin/sh
echo "$@" >> {folder}/asked
if [ "$2" = --help ]; then echo {pytorch}; exit; fi
if [ "$1" = export ]; then exec /bin/cp "$6" "$5"; fi
for each; do
    case "$each" in --output=*) report=${{each#--output=}};; esac
done
while [ "$1" = profile ] || [ "${{1#--}}" != "$1" ]; do shift; done
trap ended=1 INT
"$@"
status=$?
/bin/cp {folder}/recorded "$report.nsys-rep"
exit $status
"""
ROCPROFV3 = """#!/bin/sh
echo "$@" >> {folder}/asked
while [ "$1" != -- ]; do
    if [ "$1" = --output-directory ]; then into=$2; fi
    shift
done
shift
"$@" || exit 3
/bin/mkdir "$into/host" && /bin/cp {folder}/recorded.json "$into/host/50_results.json"
"""


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Both profilers on the path; returns what they were called with."""
    folder = tmp_path / "bin"
    folder.mkdir()
    strings = nsys.Strings()
    nsys.write(folder / "recorded", nsys.plain(strings), strings)
    kernel = {"start_timestamp": 5, "end_timestamp": 9, "thread_id": 1, "kind": "KERNEL_DISPATCH",
              "operation": "dispatch", "dispatch_info": {"agent_id": {"handle": 9}}}  # fmt: skip
    tool = {"metadata": {"pid": 50}, "buffer_records": {"kernel_dispatch": [kernel]}}
    (folder / "recorded.json").write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))
    for name, text in (("nsys", NSYS), ("rocprofv3", ROCPROFV3)):
        (folder / name).write_text(text.format(folder=folder, pytorch="--pytorch="))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "train.py").write_text("import sys\nprint('trained', sys.argv[1:])\n")
    return folder / "asked"


@pytest.mark.parametrize(
    ("profiler", "switches", "kernels", "output"),
    [
        ("nsys", "profile --trace=cuda,nvtx,osrt --pytorch=autograd-shapes-nvtx", 2, "run.duckdb"),
        ("rocprofv3", "--kernel-trace --memory-copy-trace --hip-trace --marker-trace", 1,
         "run.json.gz"),
    ],
)  # fmt: skip
def test_a_program_is_recorded_exported_and_loaded(
    profiler, switches, kernels, output, run, stand_ins, tmp_path
):
    path = {"PATH": os.environ["PATH"]}
    done = run("capture", "--with", profiler, "train.py", "-o", output, "--", "--lr", "1", **path)
    assert done.returncode == 0, done.stderr
    assert "trained ['--lr', '1']" in done.stdout
    assert f"{output}: recorded by {profiler} to its end" in done.stdout
    asked = stand_ins.read_text()
    assert switches in asked
    assert f"{sys.executable} train.py --lr 1" in asked
    path = tmp_path / output
    opened = tracekit.open_database(path) if output.endswith("duckdb") else tracekit.load(path)
    with opened as traces:
        found = traces.fetch("SELECT profiler, count(*) FROM trace JOIN kernels USING (trace_id)"
                             " GROUP BY 1")[1]  # fmt: skip
        assert found == [(profiler, kernels)]


@pytest.mark.parametrize(
    ("program", "is_there", "said"),
    [
        (["train.py"], False, "nsys is not on the path"),
        (["no-such-program"], True, "no-such-program: is neither a program on the path"),
        (["sh", "--", "-c", "exit 7"], True, "nsys sh: ended with status 7: nothing was saved"),
    ],
)
def test_a_program_that_cannot_be_recorded_is_an_error_of_one_line(
    program, is_there, said, refused, stand_ins, tmp_path
):
    path = os.environ["PATH"] if is_there else "/usr/bin:/bin"
    assert said in refused("capture", "--with", "nsys", "-o", "run.duckdb", *program, PATH=path)
    assert not (tmp_path / "run.duckdb").exists()


@pytest.mark.thorough
def test_events_recorded_before_an_interrupt_are_written(stand_ins, tmp_path):
    # An older nsys, which is not asked for operators.
    (stand_ins.parent / "nsys").write_text(NSYS.format(folder=stand_ins.parent, pytorch=""))
    command = ["capture", "--with", "nsys", "-o", "run.duckdb", "sh", "--", "-c",
               "touch begun; exec sleep 30"]  # fmt: skip
    started = subprocess.Popen(
        [TRACEKIT, *command], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=60)
    assert started.returncode == 0
    assert "until interrupted" in said
    assert "--pytorch" not in stand_ins.read_text()
    with tracekit.open_database(tmp_path / "run.duckdb") as traces:
        assert traces.fetch("SELECT count(*) FROM kernels")[1] == [(2,)]
