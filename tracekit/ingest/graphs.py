"""What a program said of the nodes of its graphs -> a table, beside the traces that replay them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import duckdb

from tracekit.database import catalog
from tracekit.database.names import spelled
from tracekit.errors import TracekitError
from tracekit.ingest.writer import insert
from tracekit.trace.beside import Beside, annotated_nodes

# Nodes of graphs, each with what is said of it: a JSON object.
Nodes = Sequence[tuple[int, str]]


def replaying(connection: duckdb.DuckDBPyConnection, after: int) -> list[tuple[int, str]]:
    """The traces with higher trace_ids that replay graphs: trace_id and path."""
    return connection.execute(spelled(catalog.schema("read_replaying")), [after]).fetchall()


def record_annotations(
    connection: duckdb.DuckDBPyConnection,
    traces: Iterable[tuple[int, str]],
    given: Mapping[str, Nodes],
    beside: Beside,
    notes: list[str],
) -> list[str]:
    """Writes what files say of the nodes of these traces' graphs: the files that are given, and
    those beside a trace, which it returns. Of one that cannot be read, it adds a note."""
    found = []
    for trace_id, trace in traces:
        # An interrupted load may have begun this.
        connection.execute("DELETE FROM graph_annotation WHERE trace_id = ?", [trace_id])
        files = dict(given)
        for path in beside.annotations(trace):
            if path in given:
                continue
            try:
                files[path] = [*annotated_nodes(path)]
                found.append(path)
            except TracekitError as error:
                notes.append(f"without annotations beside it: {error}")
        for path, nodes in files.items():
            insert(connection, "graph_annotation", [(trace_id, *each, path) for each in nodes])
    return found
