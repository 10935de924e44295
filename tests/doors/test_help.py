"""The help of commands, and errors that say what to type instead."""

import re

import pytest

from docs.generate.commands import all_commands
from tests.kit.processes import invoke
from tracekit.errors import TracekitError
from tracekit.native import library

COMMANDS = {context.command_path: command for context, command in all_commands()}


def headings(*command):
    return re.findall(r"^(\w.*):$", invoke(*command, "--help").stdout, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_resources_come_last_and_together(name):
    names = [option for each in COMMANDS[name].params for option in each.opts]
    if "--memory-mb" in names:
        _, *command = name.split()
        text = invoke(*command, "--help").stdout
        _, _, last = text.partition("\nResources:\n")
        assert {"--memory-mb", "--threads", "--temp-dir", "--hardware"} <= {*last.split()}
        assert "--help" not in last and "\nOptions:\n" in text


def test_the_options_of_capture_are_grouped_by_what_is_recorded():
    assert headings("capture") == [
        "Options", "Servers", "Built-in workloads", "Built-in workloads and module:function",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train.py", "--steps", "6"), "capture train.py -- --steps ..."),
        (("train.py", "--active", "6"), "--active is for built-in workloads and module:function"),
        (("train.py", "--lr", "1"), "Options of train.py go behind --: tracekit capture train.py"),
        (("steps:train", "--batch", "6"), "--batch is for built-in workloads"),
        (("mlp-eager", "--seconds", "6"), "--seconds is for servers"),
        (("--server", "http://x", "--batch", "6"), "--batch is for built-in workloads"),
    ],
)
def test_capture_takes_no_option_that_what_it_records_does_not_have(arguments, says):
    done = invoke("capture", *arguments)
    assert done.exit_code == 2 and says in " ".join(done.stderr.split())


def test_python_in_a_checkout_that_is_not_compiled_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "_PATH", tmp_path / "tracekit" / "native" / "libtracekit.so")
    for files, says in (((), "install tracekit with pip"), (("setup.py",), "is a checkout")):
        for each in files:
            (tmp_path / each).touch()
        with pytest.raises(TracekitError, match=says):
            library._loaded(library.CDLL)
