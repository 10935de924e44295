"""What a terminal shows while work takes long, and that it is gone before results are printed."""

import os
import re
import subprocess
import sys

import pytest

from tests.kit import traces
from tracekit import stages

EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1), traces.gpu_op(20, 5, name="second")]
# Long enough for a line to be shown, whatever the machine.
_PROGRAM = """
import sys, time
from tracekit.reporters import progress
from tracekit.stages import heard_by, stage
progress._PATIENCE_S = {patience}
with heard_by(progress.StageLine().hear):
    with stage("replaying \\x1b[31m"):
        time.sleep(0.5)
    print("printed")
"""


def on_terminal(*command: str) -> tuple[str, str]:
    """Standard output, and what a terminal on standard error receives, without its codes."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    reading, writing = pty.openpty()
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    received = b""
    try:
        while part := os.read(reading, 65_536):
            received += part
    except OSError:
        # Linux ends a terminal that nobody writes to with an error.
        pass
    os.close(reading)
    printed = done.communicate()[0].decode()
    assert done.returncode == 0
    return printed, received.decode()


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_the_stage_is_shown_after_a_while_and_is_gone_before_results(patience, is_shown):
    printed, shown = on_terminal(sys.executable, "-c", _PROGRAM.format(patience=patience))
    assert printed == "printed\n"
    assert ("replaying \N{REPLACEMENT CHARACTER}[31m" in shown) == is_shown
    # The last thing that the terminal receives erases the line.
    assert not is_shown or shown.endswith("\x1b[1A\x1b[2K")


def test_a_load_names_its_stage_after_all_files_are_read(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    command = (sys.executable, "-m", "tracekit", "load", str(path), "-o", str(tmp_path / "t.db"))
    _, shown = on_terminal(*command)
    assert "loading" in shown
    # How long the rest takes is not known, and nothing claims it.
    assert not re.search(r"\d MB|\d:\d\d", shown[shown.index("building tables") :])


def test_only_the_last_listener_hears_the_innermost_stage():
    outer, inner = [], []
    with (
        stages.heard_by(outer.append),
        stages.stage("reading"),
        stages.heard_by(inner.append),
        stages.stage("judging"),
        stages.stage("replaying"),
    ):
        pass
    assert outer == ["reading", None, None]
    assert inner == ["judging", "replaying", "judging", "reading", None]
