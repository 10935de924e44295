"""Plugins: the example is installed and takes part, marked; what is wrong with one is left out."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.kit.processes import ran
from tracekit import plugins
from tracekit.advice.model import remedy_of
from tracekit.advice.once import advice_without_share
from tracekit.database.remedies import all_remedies

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
# The example's plugin, as marks name it.
MARK, OF_VERSION = "plugin tracekit-acme: ", "plugin tracekit-acme 0.1"
FENCES = 60


# Runs several commands in one process: most of a command's time is its start.
COMMANDS = """
import json, sys
from click.testing import CliRunner
from tracekit.commands import cli
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    found = {"output": done.stdout, "errors": done.stderr, "failed": str(done.exception or "")}
    print(json.dumps(found))
"""


def tracekit(plugins_at: str | Path, *commands: list[object], off: bool = False):
    """What commands print and why they fail, where the plugins of a folder are installed."""
    switches = {plugins.OFF: "1" if off else "", "PYTHONPATH": str(plugins_at)}
    given = json.dumps([[*map(str, each)] for each in commands])
    done = ran("python", "-c", COMMANDS, given, **switches)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder into which pip has installed the example."""
    # Building leaves files in the source.
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("target")
    shutil.copytree(EXAMPLE, source)
    done = ran(
        sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile",
        "--no-build-isolation", "--disable-pip-version-check", "--target", str(target), str(source),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    """A file of Acme's profiler: a task of 50 us for each operator, and a fence after each."""
    lines = ["acme-trace 1", "device 0 Acme X1"]
    for number in range(FENCES):
        at_ns = number * 100_000
        lines += [
            f"op {at_ns} 10000 - acme::linear",
            f"call {at_ns + 2000} 3000 {number} acmeSubmit",
            f"task {at_ns + 8000} 50000 {number} acme_gemm",
            f"call {at_ns + 12000} 48000 {FENCES + number} acmeFence",
            f"op {at_ns + 62000} 30000 - acme::prepare",
        ]
    file = tmp_path_factory.mktemp("runs") / "run.acme"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def told(installed, trace) -> dict[str, dict[str, str]]:
    """What each command says with the plugin."""
    database = trace.parent / "run.duckdb"
    peaks = "SELECT hardware, source, flop_per_s['bf16'] AS rate FROM device_peaks"
    commands = {
        "analyze": ["analyze", trace, "--json"],
        # A folder's files are found by their endings.
        "load": ["load", trace.parent, "-o", database],
        "screen": ["analyze", database],
        "advise": ["advise", database],
        "list": ["query", "--list", "acme_fences"],
        "query": ["query", database, "acme_fences", "--format", "json"],
        "sql": ["sql", database, peaks, "--format", "csv"],
    }
    found = dict(zip(commands, tracekit(installed, *commands.values()), strict=True))
    assert {name: each["failed"] for name, each in found.items()} == dict.fromkeys(commands, "")
    return found


def test_a_reader_names_and_a_remedy_of_a_plugin_take_part_and_say_so(told):
    assert told["analyze"]["errors"] == ""
    found = json.loads(told["analyze"]["output"])
    assert found["gpu"]["kernels"] == found["gpu"]["linked"] == FENCES
    advised = {each["remedy"]: each for each in found["advice"]}["acme-fence"]
    assert advised["title"].startswith(MARK) and advised["plugin"] == "tracekit-acme"
    assert advised["saves_ns"] > 2_000_000
    said = {each["code"]: each["message"] for each in found["trace"]["health"]}
    assert said["plugin_reader"] == f"read by {OF_VERSION}"
    assert said["plugin_names"] == f"names spelled by {OF_VERSION}"


def test_questions_and_devices_of_a_plugin_say_so(told):
    assert f"  acme_fences            {MARK}How often" in told["list"]["output"]
    (row,) = json.loads(told["query"]["output"])
    assert (row["calls"], row["wait_ns"]) == (FENCES, FENCES * 48_000)
    named = "Acme X1 (plugin tracekit-acme)"
    row = f"{named},{MARK}Acme X1 data sheet,100000000000000.0"
    assert told["sql"]["output"].splitlines()[1:] == [row]


def test_a_database_keeps_the_marks_and_opens_without_the_plugin(installed, told, trace):
    commands = ["analyze", trace.parent / "run.duckdb"], ["analyze", trace]
    stored, unread = tracekit(installed, *commands, off=True)
    assert "is not JSON" in unread["failed"]
    with_it, without = (" ".join(each["output"].split()) for each in (told["screen"], stored))
    for each in (with_it, without):
        assert f"run.acme, names spelled by {OF_VERSION}, read by {OF_VERSION}: Acme X1" in each
    assert f"{MARK}Call acmeFence once" in with_it
    assert f"{MARK}Call acmeFence once" in told["advise"]["output"]
    assert MARK not in without


HEADER = "-- question: Why?\n-- columns name\n-- doubts: no_gpu_ops\n"
REMEDY = f"""{HEADER}-- title: Do it
-- causes: sync
-- needs: -
-- before: -
-- after: -
-- risks: -
-- check: -
-- sources: -
"""
# Files of a plugin, each with one fault, and the message about it.
FAULTS = {
    "bad/reader.py": ("import no_such_module", "bad.reader cannot be imported"),
    "bad/like_ours.py": (
        "NAME, ENDINGS, sniff, read = 'ours', ['.json'], bool, iter",
        "tracekit already reads files that end in .json",
    ),
    "bad/host/no_header.sql": ("SELECT 1", "its header has no question"),
    "bad/host/unknown.sql": ("-- question: Why?\n-- columns nothing\n", "has no column nothing"),
    "bad/host/judged.sql": (
        HEADER + "SELECT thresholds().much",
        "there is no threshold with this name: 'much'",
    ),
    "bad/host/top_kernels.sql": (
        HEADER,
        "tracekit already has a question or remedy named top_kernels",
    ),
    "bad/elsewhere/question.sql": (HEADER, "there is no topic 'elsewhere'"),
    "bad/remedies/bare.sql": (HEADER + "SELECT 1", "the remedy bare is left out"),
    "bad/remedies/no_cause.sql": (REMEDY.replace("sync", "bad luck"), "'bad' is not a cause"),
    "bad/remedies/claims.sql": (
        REMEDY + "-- claims: all\nSELECT 1",
        "its claims must be one of events",
    ),
    "bad/remedies/wrong.sql": (
        REMEDY + "SELECT nothing FROM slices",
        "the remedy wrong is left out: wrong of plugin bad: SQL: Binder Error",
    ),
    "bad/remedies/text.sql": (
        REMEDY + "SELECT *, '' AS place, '' AS detail, 'host' AS target, '1' AS factor FROM slices",
        "the remedy text is left out: its column factor is not a number",
    ),
    "bad/remedies/writes.sql": (
        REMEDY + "DELETE FROM trace",
        "the remedy writes is left out: writes of plugin bad: ",
    ),
    "bad/remedies/when.sql": (
        REMEDY + "-- when: nothing = 1\nSELECT 1",
        "when, whose condition is wrong, is left out",
    ),
    "bad/no_rank.csv": (
        "facet,kinds,rank,pattern,meaning,source\nkind,,first,^x/,kernel,x",
        "no_rank.csv is left out: line 2",
    ),
    "bad/no_meaning.csv": (
        "facet,kinds,rank,pattern,meaning,source\nkind,,1,^x/,thing,x",
        "'thing' is not a kind in tracekit",
    ),
    "bad/hardware.toml": ("[[device]]", "hardware.toml"),
}
# Files without a fault as long as nobody asks.
ASKED = {
    "bad/empty.csv": ("facet\n", ""),
    "bad/host/two.sql": (HEADER + "SELECT 1 AS trace_id, 'x' AS name; DELETE FROM trace", ""),
}
ENTRIES = """[tracekit.readers]
one = bad.reader
two = bad.like_ours
[tracekit.queries]
one = bad
[tracekit.names]
one = bad
[tracekit.hardware]
one = bad
two = no_such_package
[tracekit.pages]
one = bad
"""


@pytest.mark.thorough
def test_a_faulty_part_of_a_plugin_is_left_out_and_named_in_one_line(
    installed, told, trace, tmp_path
):
    broken = tmp_path / "broken"
    for name, (text, _) in (FAULTS | ASKED).items():
        (broken / name).parent.mkdir(parents=True, exist_ok=True)
        (broken / name).write_text(text)
    about = broken / "bad-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    both = f"{installed}{os.pathsep}{broken}"
    done, asked = tracekit(both, ["analyze", trace, "--json"], ["query", trace, "two"])
    assert asked["failed"].startswith("two of plugin bad: ") and "one SELECT" in asked["failed"]
    assert (done["failed"], done["output"]) == ("", told["analyze"]["output"])
    lines = done["errors"].splitlines()
    assert all(line.startswith("tracekit: plugin bad: ") for line in lines)
    whys = [why for _, why in FAULTS.values()]
    whys += ["no_such_package is not a package", "tracekit.pages is not an entry point group"]
    assert [why for why in whys if sum(why in line for line in lines) != 1] == []
    assert len(lines) == len(whys)


def test_a_remedy_whose_plugin_is_gone_has_the_words_of_the_stored_advice():
    known = replace(all_remedies()["cuda-graph"], name="gone", title=f"{MARK}Do it", needs="Luck")
    advice = advice_without_share(known, "sync", None, 1, 1)
    gone = remedy_of(advice)
    assert (gone.title, gone.causes, gone.needs) == (f"{MARK}Do it", ("sync",), "Luck")
    assert gone.sections == ()


def test_without_a_plugin_looking_for_them_imports_no_reader_of_metadata():
    code = """
import sys
before = {*sys.modules}
from tracekit.plugins import installed
assert installed() == ()
print(*(name for name in {*sys.modules} - before if name.startswith("importlib.metadata")))
"""
    done = ran("python", "-c", code, **{plugins.OFF: ""})
    assert (done.stdout, done.returncode) == ("\n", 0), done.stderr
