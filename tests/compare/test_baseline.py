"""A baseline is a trace with a name; the GitHub Action saves it and compares with it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OWN_TRACES
from tests.kit.processes import invoke
from tests.kit.sampling import sample

yaml = pytest.importorskip("yaml")
ACTION = Path(__file__).parents[2] / "action.yml"
FAST = OWN_TRACES / "simulated-compute-bound.json.gz"
SLOW = OWN_TRACES / "simulated-overhead-bound.json.gz"


def test_a_trace_is_compared_with_a_baseline(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke("baseline", "save", "main", FAST).exit_code == 0
    diff = invoke("diff", ".tracekit/baselines/main.json.gz", SLOW, "--json")
    found = run("baseline", "compare", "main", str(SLOW), "--json", "--fail-if", "b.span_ns > 0")
    assert found.returncode == 1
    assert json.loads(found.stdout) == json.loads(diff.stdout)


GH = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  "run list"*) [ -d {kept} ] && echo 77 || true ;;
  "run download"*) mkdir -p "$7" && cp {kept}/* "$7" ;;
  *--jq*) cat {log}.id ;;
  *body=@*) for last; do :; done; cat "${{last#body=@}}" > {log}.comment; echo 9 > {log}.id ;;
esac
"""


class Runner:
    """Runs the steps of the action that are shell, with a stand-in for GitHub's client."""

    def __init__(self, folder):
        self.folder, self.kept, self.log = folder, folder / "kept", folder / "gh.log"
        self.work, self.summary = folder / "work", folder / "summary.md"
        (folder / "bin").mkdir()
        Path(f"{self.log}.id").write_text("")
        gh = folder / "bin/gh"
        gh.write_text(GH.format(log=self.log, kept=self.kept))
        gh.chmod(0o755)

    def run(self, event, **inputs):
        """The status of the first step that fails, or 0."""
        action = yaml.safe_load(ACTION.read_text())
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        values = {f"inputs.{name}": each["default"] for name, each in action["inputs"].items()}
        values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        number = "5" if event == "pull_request" else ""
        values |= {"github.event.pull_request.number": number, "github.token": "t"}
        values["github.repository"] = "me/it"
        for step in action["runs"]["steps"]:
            if "uses" in step:
                self._keep(values, event)
                continue
            if step["name"] == "install":
                continue
            given = {name: _filled(text, values) for name, text in step["env"].items()}
            path = (self.folder / "bin", Path(sys.executable).parent, os.environ["PATH"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=self.work, capture_output=True, text=True, check=False,
                env=os.environ | given | {
                    "PATH": os.pathsep.join(map(str, path)),
                    "GITHUB_STEP_SUMMARY": str(self.summary), "RUNNER_TEMP": str(self.folder),
                    "GITHUB_REPOSITORY": "me/it",
                    "GITHUB_WORKFLOW_REF": "me/it/.github/workflows/perf.yml@refs/pull/5/merge",
                    "GITHUB_REF_NAME": "main" if event == "push" else "5/merge",
                },
            )  # fmt: skip
            if done.returncode:
                return done.returncode
        return 0

    def _keep(self, values, event):
        made = self.work / ".tracekit/baselines" / f"{values['inputs.baseline']}.json.gz"
        if event == "push":
            self.kept.mkdir(exist_ok=True)
            shutil.copy(made, self.kept)


def _filled(text, values):
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values[found[1]], text)


@pytest.mark.thorough
def test_a_push_makes_the_baseline_and_pull_requests_are_compared_with_it(tmp_path):
    runner = Runner(tmp_path)
    before = runner.run("pull_request", trace=str(SLOW))
    assert before == 0
    assert "No baseline main yet" in runner.summary.read_text()
    assert runner.run("push", trace=str(FAST)) == 0
    assert [each.name for each in runner.kept.iterdir()] == ["main.json.gz"]

    gate = "b.span_ns > 100 * a.span_ns\nb.span_ns <> a.span_ns\n"
    assert runner.run("pull_request", trace=str(FAST), fail_if=gate) == 0
    assert runner.run("pull_request", trace=str(SLOW), fail_if=gate) == 1
    # What a pull request may have put into the checkout is not the baseline.
    assert not (runner.work / ".tracekit").exists()
    comment = Path(f"{runner.log}.comment").read_text()
    assert comment.startswith("<!-- tracekit baseline main -->\n### ")
    assert comment in runner.summary.read_text()
    calls = runner.log.read_text()
    assert "run list --branch main --event push --workflow perf.yml" in calls
    assert "run download 77 --name tracekit-main" in calls
    # One comment, which the second comparison edits.
    assert calls.count("issues/5/comments -F") == 1
    assert "-X PATCH repos/me/it/issues/comments/9" in calls
    before = comment
    assert runner.run("pull_request", trace="none.json", fail_if=gate) == 2
    assert Path(f"{runner.log}.comment").read_text() == before


def test_the_artifact_is_the_file_that_is_saved_and_found_again(tmp_path):
    (step,) = (
        each for each in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if "uses" in each
    )
    given = step["with"]
    # An artifact of one file has it at its root; files in hidden folders are left out by default.
    assert given["path"] == ".tracekit/baselines/${{ inputs.baseline }}.json.gz"
    assert given["include-hidden-files"] and given["overwrite"]
    assert given["name"] == "tracekit-${{ inputs.baseline }}"
    assert re.fullmatch(r"actions/upload-artifact@[0-9a-f]{40}", step["uses"])


def test_budgets_are_run_and_fail(tmp_path):
    runner = Runner(tmp_path)
    endings = [("assert False", 1), ("assert True", 0)]
    for text, status in sample("ways in which budgets end", endings, endings[:1]):
        (tmp_path / "test_it.py").write_text(f"def test_it():\n    {text}\n")
        assert runner.run("pull_request", budgets=f"{tmp_path}/test_it.py\n") == status


HOSTILE = ["$(touch ran)", "`touch ran`", "; touch ran", "-pran", "--rootdir=/", "a b", "'\"", "*"]


def test_the_name_of_a_file_is_never_run_nor_an_option(tmp_path):
    """pytest is a stand-in that notes its arguments; the file `ran` is what a name would make."""
    runner = Runner(tmp_path)
    python = tmp_path / "bin/python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/noted\n')
    python.chmod(0o755)
    assert runner.run("pull_request", budgets="\n\n".join(HOSTILE)) == 0
    assert (tmp_path / "noted").read_text().splitlines() == ["-m", "pytest", "--", *HOSTILE]
    runner.kept.mkdir()
    (runner.kept / "main.json.gz").symlink_to(FAST)
    for name in ("--help", "$(touch ran)"):
        assert runner.run("pull_request", trace=name) == 2
    assert not (runner.work / "ran").exists()


def test_names_from_a_pull_request_never_reach_the_shell_unquoted():
    for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
