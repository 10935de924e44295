"""Events without a category: distinguished by name and arguments, or reported."""

import gzip
import json

import pytest

import tracekit
from tests.conftest import trace_file
from tests.kit.traces import Together, slice_event


def without_category(event):
    return {key: value for key, value in event.items() if key != "cat"}


TRACES = Together()
EMPTY = TRACES.events([slice_event("", "aten::add", 0, 5)])


def test_an_empty_category_is_none(loaded):
    of = f"WHERE trace_id = {EMPTY}"
    assert loaded.fetch(f"SELECT kind FROM slices {of}")[1] == [("cpu_op",)]
    assert loaded.fetch(f"SELECT category FROM event {of}")[1] == [("",)]


@pytest.mark.sampled(2, of=2)
@pytest.mark.parametrize("name", ["simulated-overhead-bound", "simulated-compute-bound"])
def test_the_verdict_is_the_same_without_categories(tmp_path, name, shared_verdict):
    path = trace_file(f"{name}.json.gz")
    whole = json.loads(gzip.decompress(path.read_bytes()))
    whole["traceEvents"] = [without_category(event) for event in whole["traceEvents"]]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(whole))
    with tracekit.load(bare) as told:
        ours, theirs = told.verdict(), shared_verdict(path.name)
    assert ours.gpu == theirs.gpu
    assert (ours.verdict.regime, ours.verdict.bottleneck) == (
        theirs.verdict.regime,
        theirs.verdict.bottleneck,
    )


def test_metadata_and_marks_need_no_category(shared_ask):
    # Only the events that every profiler writes without a category are without one.
    health = shared_ask("no-categories.json.gz", "health")
    assert "no_category" not in [row["code"] for row in health]
