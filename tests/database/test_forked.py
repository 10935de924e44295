"""A forked process is refused what only its parent's database can answer."""

import os

import pytest

import tracekit
from tests.kit import traces
from tracekit.errors import TracekitError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_child_that_asks_is_refused_in_one_line_and_its_parent_goes_on(tmp_path, is_stored):
    """DuckDB's threads are not in the child: it would wait for them for ever, or crash."""
    traces.write(tmp_path / "t.json", [traces.slice_event("cpu_op", "op", 1, 1)])
    output = tmp_path / "run.duckdb" if is_stored else None
    with tracekit.load(tmp_path / "t.json", output) as run:
        run.sql("SELECT 1")
        asking = [
            run.traces, run.verdict, run.connection, lambda: run.sql("SELECT 1"),
            lambda: run.export(tmp_path / "x.json"),
        ]  # fmt: skip
        child = os.fork()
        if not child:
            refused = 0
            for ask in asking:
                try:
                    ask()
                except TracekitError as error:
                    refused += "before this process was forked" in str(error) or not is_stored
            run.close()
            os._exit(0 if refused == len(asking) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert run.sql("SELECT 1").height == 1
