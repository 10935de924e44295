"""The skill for agents ships, is installed where they look, and each of its commands runs."""

import re
import shlex
import shutil
from contextlib import suppress
from importlib.resources import files

import click
import pytest

from tests.doors.test_commands import parsed
from tests.house.test_readme import ROOT

SKILL = files("tracekit.skills").joinpath("tracekit/SKILL.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"^```sh\n(.*?)^```", SKILL, re.DOTALL | re.MULTILINE)
         for line in block.splitlines()]  # fmt: skip


def test_it_is_installed_where_agents_look(run, tmp_path):
    for given, folder in [([], ".claude/skills"), (["mine"], "mine")]:
        done = run("skill", "install", *given)
        assert done.returncode == 0, done.stderr
        path = tmp_path / folder / "tracekit/SKILL.md"
        assert done.stdout.strip() == str(path.relative_to(tmp_path))
        assert path.read_text(encoding="utf-8") == SKILL
    (tmp_path / "file").touch()
    done = run("skill", "install", "file")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_its_head_has_the_fields_that_agents_read():
    yaml = pytest.importorskip("yaml")
    head = yaml.safe_load(SKILL.split("---")[1])
    assert head["name"] == "tracekit"
    assert len(head["description"]) <= 1024


def test_each_command_is_a_valid_call():
    """Those that it names without arguments may lack them."""
    shown = set(re.findall(r"`(tracekit [^`]+)`", SKILL))
    assert len(LINES) > 8 and len(shown) > 8
    for line in LINES:
        parsed(shlex.split(line))
    for line in shown:
        with suppress(click.MissingParameter, click.exceptions.Exit):
            parsed(shlex.split(line.replace(" N ", " 3 ")))


@pytest.mark.thorough
def test_each_command_of_the_loop_runs(run, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for line in LINES:
        done = run(*shlex.split(line)[1:])
        assert done.returncode == 0, (line, done.stderr)


def test_the_files_that_it_names_exist(shared_verdict):
    found = shared_verdict("simulated-overhead-bound.json.gz").as_dict()
    for path in re.findall(r"`(verdict\.\w+)`", SKILL):
        assert path.split(".")[1] in found["verdict"], path
    assert {"advice", "one_offs"} <= set(found)
