"""The skill for agents ships, is installed where they look, and each of its commands runs."""

import re
import shlex
import shutil
from importlib.resources import files

import pytest

from tests.house.test_readme import ROOT

SKILL = files("tracekit.agents").joinpath("SKILL.md").read_text(encoding="utf-8")
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


def test_its_head_is_what_agents_read():
    yaml = pytest.importorskip("yaml")
    head = yaml.safe_load(SKILL.split("---")[1])
    assert head["name"] == "tracekit"
    assert len(head["description"]) <= 1024


@pytest.mark.slow
def test_each_command_of_the_loop_runs(run, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert len(LINES) > 8
    for line in LINES:
        program, *arguments = shlex.split(line)
        assert program == "tracekit"
        done = run(*arguments)
        assert done.returncode == 0, (line, done.stderr)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`(tracekit [^`]+)`", SKILL))))
def test_each_command_that_it_names_takes_these_options(command, run):
    _, name, *others = shlex.split(command)
    shown = (
        run(name, *others[:1], "--help") if name in ("baseline", "lake") else run(name, "--help")
    )
    assert shown.returncode == 0, command
    for option in (each for each in others if each.startswith("--")):
        assert option in shown.stdout, (command, option)


def test_what_it_tells_to_read_is_there(shared_verdict):
    found = shared_verdict("simulated-overhead-bound.json.gz").as_dict()
    for path in re.findall(r"`(verdict\.\w+)`", SKILL):
        assert path.split(".")[1] in found["verdict"], path
    assert {"advice", "one_offs"} <= set(found)
