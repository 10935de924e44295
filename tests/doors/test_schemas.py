"""Every JSON that a command prints has a published schema, and every output follows it."""

import copy
import json
import re
import shutil
from functools import cache, reduce
from operator import getitem

import pytest

import tracekit
from tests.conftest import OWN_TRACES, trace_names
from tests.kit.lakes import add, write_rank
from tests.kit.sampling import IS_ALL, sample
from tracekit import schemas as outputs
from tracekit.database import catalog
from tracekit.reporters import rows

jsonschema = pytest.importorskip("jsonschema", reason="schemas are tested with jsonschema")
Validator = jsonschema.Draft202012Validator

OVERHEAD, COMPUTE = "simulated-overhead-bound.json.gz", "simulated-compute-bound.json.gz"
RANKS = [f"simulated-2-ranks-rank{rank}.json.gz" for rank in (0, 1)]


def only_json(constant):
    raise AssertionError(f"{constant} is no JSON")


def check(command, text, question=None):
    """The document, which has to follow the schema of a command."""
    document = json.loads(text, parse_constant=only_json)
    validator(command, question).validate(document)
    return document


@cache
def validator(command, question=None):
    return Validator(outputs.schema(command, question))


def properties(schema):
    """Each property within a schema, with its name."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"].items()
        for each in schema.values():
            yield from properties(each)
    if isinstance(schema, list):
        for each in schema:
            yield from properties(each)


def kinds(schema):
    """The types that a property's values, or what they hold, may have."""
    found = schema.get("type", [])
    inner = [schema.get("items"), schema.get("additionalProperties")]
    inner += [*schema.get("anyOf", []), *schema.get("prefixItems", [])]
    return (
        {found}
        if isinstance(found, str)
        else {*found}.union(*(kinds(each) for each in inner if isinstance(each, dict)))
    )


def test_a_schema_is_valid_and_describes_every_property_with_its_unit():
    for command in outputs.commands():
        schema = outputs.schema(command)
        Validator.check_schema(schema)
        for name, each in properties(schema):
            assert re.sub(r"\([^()]*\)$", "", each["description"]).strip(), (command, name)
            if kinds(each) & {"integer", "number"}:
                assert re.search(r"\(.+\)$", each["description"]), (command, name, each)


def test_the_schema_of_each_question_is_valid_and_closed():
    columns = {}
    for name, question in catalog.queries().items():
        rows = outputs.schema("query", name)["items"]
        assert rows["additionalProperties"] is False
        assert rows["required"] == [each.name for each in question.columns], name
        for each in rows["properties"].values():
            columns[json.dumps(each | {"description": ""})] = each
    Validator.check_schema(outputs.schema("query", "top_kernels"))
    Validator.check_schema({"properties": columns})


QUESTIONS = list(catalog.queries())
ASKED = sample("questions whose answers follow their schemas", QUESTIONS, QUESTIONS[::20])


@pytest.mark.sampled(100)
@pytest.mark.parametrize("name", sorted(trace_names(), key=lambda name: name != OVERHEAD))
def test_documents_about_a_trace_follow_the_schemas(name, shared_database, shared_verdict):
    check("analyze", json.dumps(shared_verdict(name).as_dict(), default=str))
    database = shared_database(name)
    for command, ask in (
        ("advise", database.advise),
        ("whatif", lambda: database.whatif("host*0.5")),
    ):
        try:
            found = ask()
        except tracekit.TracekitError:
            continue
        check(command, json.dumps(found.as_dict()))


@pytest.mark.sampled(50)
@pytest.mark.parametrize("name", trace_names()[::5])
def test_the_answer_to_each_question_follows_its_schema(name, shared_database, tmp_path):
    database = shared_database(name)
    answer = tmp_path / "answer.json"
    for question in ASKED:
        sql = catalog.query(question).sql
        rows.render(database, sql, {}, "json", str(answer), most=200)
        check("query", answer.read_text(), question)


TINY = [
    "--dim", "32", "--batch", "2", "--seq", "4", "--device", "cpu", "--rounds", "3",
    "--active", "1", "--warmup", "1",
]  # fmt: skip
PRINTED = [
    [None, "analyze", "ranks.duckdb", "--json"],
    [None, "analyze", "unlike.duckdb", "--json"],
    [None, "diff", "unlike.duckdb", "--json"],
    [None, "sql", "unlike.duckdb", "SELECT 1 AS x, 'nan'::DOUBLE AS y, [1] AS z", "--format",
     "json"],
    [None, "workloads", "--json"],
    [None, "advise", OVERHEAD, "--json"],
    [None, "whatif", OVERHEAD, "host*0.5", "--json"],
    [None, "whatif", "ranks.duckdb", "straggler*0", "--json"],
    ["top_kernels", "query", OVERHEAD, "top_kernels", "--format", "json"],
    [None, "query", OVERHEAD, "top_kernels", "--format", "json"],
    [None, "analyze", "lake/run=a", "--json"],
    [None, "history", "lake", "--json"],
    ["top_kernels", "query", "lake", "top_kernels", "--format", "json"],
    ["top_kernels", "lake ask", "lake", "top_kernels", "--format", "json"],
    [None, "crosscheck", OVERHEAD, "--json"],
    [None, "sweep", "linear", "-o", "s.duckdb", *TINY, "--json"],
    [None, "probe", "linear", *TINY, "--json"],
    [None, "probe", "linear", "--advice", *TINY, "--json"],
]  # fmt: skip
# Commands with the files that they write: name, and the number and kind of things in it.
WRITTEN = [
    ("load a.gz none.gz -o w.duckdb --no-verdict", [("w.duckdb", 1, "traces")]),
    ("load a.gz -o w.duckdb", [("w.duckdb", 1, "traces")]),
    ("export w.duckdb -o e.json.gz", [("e.json.gz", 127, "events")]),
    ("export w.duckdb --format collapsed -o e.txt", [("e.txt", 5, "stacks")]),
    ("report w.duckdb -o p.html", [("p.html", None, None)]),
    ("annotate w.duckdb -o n.json.gz", [("n.json.gz", 688, "events added")]),
    ("baseline save main w.duckdb", [(".tracekit/baselines/main.json.gz", 127, "events")]),
    ("skill install s", [("s/tracekit/SKILL.md", None, None)]),
    ("lake compact lake", [("lake", 2, "groups of ranks")]),
]
FEW_WRITTEN = [each for each in WRITTEN if not each[0].startswith(("report", "annotate"))][1:]


def test_output_of_commands_follows_their_schemas(run, tmp_path):
    for name in (OVERHEAD, COMPUTE, *RANKS):
        shutil.copy(OWN_TRACES / name, tmp_path)
    for several, names in (("ranks.duckdb", RANKS), ("unlike.duckdb", (OVERHEAD, COMPUTE))):
        paths = [OWN_TRACES / name for name in names]
        tracekit.load(paths, tmp_path / several, verdicts=False).close()
    for run_of_lake in ("a", "b") if IS_ALL else ():
        add(tmp_path / "lake", write_rank(tmp_path / run_of_lake, 0, 2))
    for question, command, *arguments in sample("commands that print JSON", PRINTED, PRINTED[:5]):
        done = run(*command.split(), *arguments)
        found = check(command, done.stdout, question)
        assert found, done.stderr
        assert arguments[0] != "unlike.duckdb" or command != "analyze" or found["no_run"]


@pytest.mark.thorough
def test_commands_report_written_files_in_one_form(run, tmp_path):
    shutil.copy(OWN_TRACES / OVERHEAD, tmp_path / "a.gz")
    for rank in range(2):
        add(tmp_path / "lake", write_rank(tmp_path / "in", rank, 2))
    for line, expected in sample("commands that write files", WRITTEN, FEW_WRITTEN):
        command = line.split()
        name = " ".join(command[:2]) if " ".join(command[:2]) in outputs.commands() else command[0]
        done = run(*command, "--json")
        assert done.returncode == (2 if "none.gz" in line else 0), done.stderr
        found = check(name, done.stdout)["outputs"]
        assert [(each["path"], each["count"], each["unit"]) for each in found] == expected, line
        for each in found:
            path = tmp_path / each["path"]
            assert each["bytes"] == (path.stat().st_size if path.is_file() else None)
    listed = check("lake files", run("lake", "files", "lake", "trace", "--json").stdout)["outputs"]
    assert [each["path"] for each in listed] == run("lake", "files", "lake", "trace").stdout.split()
    done = run("export", "w.duckdb", "--format", "collapsed", "-o", "-", "--json")
    assert check("export", done.stderr)["outputs"][0]["path"] == "-"
    assert "schema" not in done.stdout


GONE = object()


def changed(document, *path, to=GONE):
    """The document with another value at a path, or without it."""
    found = copy.deepcopy(document)
    *outer, last = path
    inner = reduce(getitem, outer, found)
    inner[last] = to
    if to is GONE:
        del inner[last]
    return found


def test_a_wrong_document_is_rejected(shared_verdict):
    good = shared_verdict(OVERHEAD).as_dict()
    schema = validator("analyze")
    assert schema.is_valid(good)
    for wrong in (
        {}, [], [good], {"schema": "tracekit/analysis/1"},
        changed(good, "schema", to="tracekit/analysis/2"),
        changed(good, "gpu", "busy_ns", to="309437"),
        changed(good, "gpu", "busy_ns", to=1.5),
        changed(good, "gpu", "speed", to=1),
        changed(good, "window", to=None),
        changed(good, "verdict", "regime", to="slow"),
        changed(good, "verdict", "savings", to=[{"remove": "python"}]),
        changed(good, "causal", "undilated", to=[0.5]),
        changed(good, "idle", "causes", "python", to=None),
        changed(good, "advice"), changed(good, "verdict", "why"),
    ):  # fmt: skip
        assert not schema.is_valid(wrong), wrong
    listed = validator("query", "top_kernels")
    assert listed.is_valid([])
    assert not listed.is_valid([{"trace_id": 1}]) and not listed.is_valid({})


def test_the_command_prints_the_schema(run):
    listed = [line.split("  ")[0] for line in run("schema").stdout.splitlines()]
    assert listed == list(outputs.commands())
    assert json.loads(run("schema", "analyze").stdout) == outputs.schema("analyze")
    asked = run("schema", "lake", "ask", "top_kernels")
    assert json.loads(asked.stdout) == outputs.schema("lake ask", "top_kernels")
    for wrong in (("sql", "top_kernels"), ("query", "nothing")):
        with pytest.raises(tracekit.TracekitError):
            outputs.schema(*wrong)
    for wrong in (("demo",), ("query", "a", "b")):
        done = run("schema", *wrong)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1


def test_every_command_that_prints_json_has_a_schema():
    from tracekit.commands import cli

    def all_of(group, before=""):
        for name in group.list_commands(None):
            each = group.get_command(None, name)
            if hasattr(each, "commands"):
                yield from all_of(each, f"{before}{name} ")
            else:
                formats = {flag for option in each.params for flag in option.opts}
                for option in each.params:
                    formats |= set(getattr(option.type, "choices", ()))
                yield f"{before}{name}", formats

    printing = {name for name, formats in all_of(cli) if formats & {"--json", "json"}}
    assert printing == set(outputs.commands()), "in _OUTPUTS of tracekit/schemas.py, or not"


# What programs that read the verdict rely on: keys may be added, never changed or taken away.
PROMISED = {
    "Analysis": "schema trace window gpu idle launch verdict one_offs advice steps devices",
    "Trace": "path events rank world_size devices health",
    "Finding": "code severity message count",
    "Window": "kind name start_ns end_ns span_ns",
    "Gpu": "kernels gpu_ops linked busy_ns compute_ns exposed_comm_ns exposed_memcpy_ns idle_ns",
    "Idle": "host_late_ns device_ns unlinked_ns causes",
    "Launch": "count delay_p50_ns delay_p90_ns queue_depth_p50",
    "Verdict": "regime bottleneck confidence shares why savings",
    "Saving": "remove saves_at_most_ns",
    "OneOffEvent": "start_ns dur_ns cause name place",
    "Advice": "remedy cause where saves_ns share effort needs doubts change",
    "Analyses": "schema analyses run",
    "RunVerdict": "step_ns pace_rank late_ranks collectives savings",
}


def test_the_verdict_keeps_the_keys_that_programs_rely_on():
    definitions = outputs.schema("analyze")["$defs"]
    for name, keys in PROMISED.items():
        assert set(keys.split()) <= set(definitions[name]["required"]), name
