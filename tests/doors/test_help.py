"""The help of commands, and errors that say what to type instead."""

import re
from pathlib import Path

import pytest

import tracekit
from docs.generate.commands import all_commands
from tests.conftest import OWN_TRACES
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


def test_whatif_takes_the_ranks_of_a_run_as_analyze_does():
    ranks = sorted(OWN_TRACES.glob("simulated-2-ranks-rank*.json.gz"))
    printed = invoke("whatif", *map(str, ranks), "host*0.5").stdout
    assert "2 traces, 2 ranks together, with host*0.5" in printed
    assert "Missing argument 'CHANGES'" in invoke("whatif", *map(str, ranks)).stderr


RANKS = [str(each) for each in sorted(OWN_TRACES.glob("simulated-2-ranks-rank*.json.gz"))]
# What commands on traces take to choose a trace and a part of it, in this order.
CHOICES = {
    "analyze": ["--trace-id", "--rank", "--window"],
    "advise": ["--trace-id", "--rank", "--window"],
    "whatif": ["--trace-id", "--rank", "--window"],
    "report": ["--trace-ids", "--trace-id", "--rank", "--window"],
    "query": ["--trace-id", "--rank"],
    "diff": ["--trace-ids", "--rank"],
    "baseline save": ["--trace-id", "--rank"],
    "baseline compare": ["--rank"],
    "export": ["--trace-id", "--rank", "--step", "--window"],
    "open": ["--trace-id", "--rank", "--step", "--window"],
}


def test_commands_choose_a_trace_by_the_same_words_in_the_same_order():
    words = ("--trace-ids", "--trace-id", "--rank", "--step", "--window")
    chosen = {
        name.removeprefix("tracekit "): [
            option for each in command.params for option in each.opts if option in words
        ]
        for name, command in COMMANDS.items()
    }
    assert {name: taken for name, taken in chosen.items() if taken} == CHOICES


@pytest.mark.parametrize(
    "command", [("analyze",), ("advise",), ("whatif", "host*0.5"), ("query", "overview")]
)
def test_a_rank_chooses_its_trace(tmp_path, command):
    both = tmp_path / "both.duckdb"
    tracekit.load(RANKS, both).close()
    name, *rest = command
    by_rank, by_trace = (
        invoke(name, str(both), *rest, *which, "--json")
        for which in (("--rank", "1"), ("--trace-id", "2"))
    )
    assert by_rank.exit_code == 0 and by_rank.stdout == by_trace.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("analyze", *RANKS, "--rank", "7"), "has no rank 7; its ranks are 0, 1"),
        (("analyze", *RANKS, "--rank", "1", "--trace-id", "1"), "not by both"),
        (("report", RANKS[0], "--rank", "2"), "has no rank 2"),
        (("diff", *RANKS, "--rank", "1"), "has no rank 1; its ranks are 0"),
        (("diff", RANKS[0], "--rank", "1"), "--trace-ids chooses from one database"),
        (("query", RANKS[0], "rank_waits", "--rank", "0"), "is about several traces"),
        (("query", RANKS[0], "overview", "--rank", "0", "--param", "trace=1"), "choose one of"),
    ],
)
def test_a_choice_that_chooses_nothing_says_why(arguments, says):
    with pytest.raises(TracekitError) as raised:
        invoke(*arguments)
    assert says in str(raised.value)


def test_diff_compares_the_rank_that_is_chosen(tmp_path):
    runs = []
    for name in "ab":
        (folder := tmp_path / name).mkdir()
        for each in RANKS:
            (folder / Path(each).name).write_bytes(Path(each).read_bytes())
        runs.append(str(folder))
    for rank in ("0", "1"):
        done = invoke("diff", *runs, "--rank", rank)
        assert done.exit_code == 0 and f"compares rank={rank} of run" in done.stderr
