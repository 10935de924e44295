"""What a terminal shows while work takes long, and that it is gone before results are printed."""

import re
import sys

import pytest

from tests.kit import traces
from tests.kit.processes import on_terminal
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


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_the_stage_is_shown_after_a_while_and_is_gone_before_results(patience, is_shown):
    program = _PROGRAM.format(patience=patience)
    shown, status, printed = on_terminal(sys.executable, "-c", program, piped=True)
    assert (status, printed) == (0, "printed\n")
    assert ("replaying \N{REPLACEMENT CHARACTER}[31m" in shown) == is_shown
    # The last thing that the terminal receives erases the line.
    assert not is_shown or shown.endswith("\x1b[1A\x1b[2K")


def test_a_load_names_its_stage_after_all_files_are_read(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    command = (sys.executable, "-m", "tracekit", "load", path, "-o", tmp_path / "t.db")
    shown, status, _ = on_terminal(*command, piped=True)
    assert status == 0 and "loading" in shown
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
