"""SQL that writes the rows of a table of an Nsight Systems report as the text of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracekit.trace.other.sqlite import ROWS, Tables

_RENAMED = {
    "deviceId": "device",
    "contextId": "context",
    "streamId": "stream",
    "correlationId": "correlation",
    "registersPerThread": "registers per thread",
    "graphId": "graph id",
    "graphNodeId": "graph node id",
    "originalGraphNodeId": "original graph node id",
}
KERNEL_NAMES = ("demangledName", "shortName", "mangledName")
_STRINGS = ("nameId", "textId", "jsonTextId", *KERNEL_NAMES)


@dataclass
class EventTable:
    """A table whose rows are events: SQL of their parts, over its rows `t`."""

    table: str
    category: str
    name: str
    pid: str = "t.globalTid >> 24 & 16777215"
    tid: str = "t.globalTid & 16777215"
    phase: str = "'X'"
    end: str = "t.end"
    where: str = "TRUE"
    args: dict[str, str] = field(default_factory=dict)
    """Arguments that no column is by itself: JSON, or NULL."""
    members: str = "''"
    """Further arguments as text, each with a comma before it."""
    used: Sequence[str] = ()
    """Columns that the parts above say in full."""
    rows: str | None = None
    """A relation of the rows of `mine`, those of the process, with further columns."""


def query(tables: Tables, source: EventTable, mine: str) -> str:
    """A query for the texts of the events of a table's rows for which `mine` holds.

    One printf writes an event: SQLite copies the text again for each `||`.
    """
    columns, counts = tables.columns[source.table], tables.counts(source.table)
    told = {*source.used, "start", "end", "globalTid", "globalPid"}
    form = '{"ph":"%s","cat":"%s","name":%s,"pid":%d,"tid":%d,"ts":%s%d.%03d'
    values = [
        source.phase,
        source.category,
        f"json_quote(CAST({source.name} AS TEXT))",
        source.pid,
        source.tid,
        *time_parts("t.start"),
    ]
    if source.end == "t.end" and counts.get("end") == counts[ROWS]:
        form += ',"dur":%s%d.%03d'
        values += time_parts("(t.end - t.start)")
    elif source.end != "t.end" or "end" in columns:
        length = f"({source.end} - t.start)"
        form += "%s"
        dur = f"printf(',\"dur\":%s%d.%03d', {', '.join(time_parts(length))})"
        values.append(f"CASE WHEN {length} IS NOT NULL THEN {dur} END")
    always, sometimes = [], []
    for column, kind in columns.items():
        if counts[column] and column not in told:
            key = f'"{_RENAMED.get(column, column)}":'
            if counts[column] == counts[ROWS] and kind.startswith("INT") and column not in _STRINGS:
                always.append(f"{key}%d")
                values.append(f't."{column}"')
            else:
                sometimes.append(f"ifnull(',{key}' || {_value(column, kind)}, '')")
    sometimes += [f"ifnull(',\"{key}\":' || {value}, '')" for key, value in source.args.items()]
    rest = " || ".join([*sometimes, source.members])
    # The first argument has no comma before it.
    values.append(rest if always else f"substr({rest}, 2)")
    form += f',"args":{{{",".join(always)}%s}}}}'
    return (
        f"WITH mine AS (SELECT * FROM {source.table} WHERE {mine})"
        f" SELECT printf('{form}', {', '.join(values)}) FROM {source.rows or 'mine'} AS t"
        f" WHERE {source.where} AND t.start IS NOT NULL"
    )


def string(column: str) -> str:
    return f'(SELECT value FROM StringIds WHERE id = t."{column}")'


def _value(column: str, kind: str) -> str:
    """A column as JSON; NULL where it is NULL."""
    if column in _STRINGS:
        return f"json_quote({string(column)})"
    if kind.startswith("INT"):
        return f'CAST(t."{column}" AS INTEGER)'
    text = f'CAST(t."{column}" AS {"REAL" if kind == "REAL" else "TEXT"})'
    return f'CASE WHEN t."{column}" IS NOT NULL THEN json_quote({text}) END'


def time_parts(ns: str) -> list[str]:
    """What printf shows as microseconds with three decimals, as Kineto has them: %s%d.%03d."""
    return [f"CASE WHEN {ns} < 0 THEN '-' END", f"abs({ns}) / 1000", f"abs({ns}) % 1000"]


def cases(column: str, names: Sequence[str], first: int) -> str:
    whens = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(names, first))
    return f"CASE {column} {whens} ELSE 'Unknown' END"
