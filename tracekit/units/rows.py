"""The units of work of a database's traces, as rows of the fact `unit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np

from tracekit.units.cycles import GOOD_SCORE
from tracekit.units.find import Placed, units_of
from tracekit.units.groups import cold_units, groups_of
from tracekit.units.process import Frames, HostProcess, Launched, ServerSteps, Spans
from tracekit.units.sequence import Flags, Ints, Sequence, running_sum

Columns = dict[str, Any]
_UNKNOWN = -(1 << 62)
# The launches of several traces that are read together.
_MOST_LAUNCHES = 1_000_000
# What a process is read from: queries/schema/read_unit_*.sql.
_READ = ("launches", "marks", "servers", "frames", "training", "compilation")
# Threads are apart if they are more regular than the process by this score.
_MORE = 0.1


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Replaces the rows of the table `unit` by the units of all traces."""
    connection.execute("DELETE FROM unit")
    for keys in _batches(connection):
        read = _Read(connection, sorted({trace_id for trace_id, _ in keys}))
        found = [rows for trace_id, pids in groupby(keys, itemgetter(0))
                 for rows in _of_trace(read, trace_id, [pid for _, pid in pids])]  # fmt: skip
        connection.register("_units", {name: _joined(found, name) for name in found[0]})
        connection.execute("INSERT INTO unit BY NAME FROM _units")
        connection.unregister("_units")


def _joined(found: list[Columns], name: str) -> Any:
    join: Any = np.ma.concatenate
    return join([each[name] for each in found])


def _batches(connection: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[int, int]]]:
    """The processes that launch work, by trace and process: those of several small traces."""
    batch: list[tuple[int, int]] = []
    launches = 0
    for trace_id, pid, count, of_trace in connection.execute(_sql("unit_processes")).fetchall():
        is_new = not batch or batch[-1][0] != trace_id
        if batch and is_new and launches + of_trace > _MOST_LAUNCHES:
            yield batch
            batch, launches = [], 0
        batch.append((trace_id, pid))
        launches += count
    if batch:
        yield batch


def _of_trace(read: _Read, trace_id: int, pids: list[int]) -> Iterator[Columns]:
    """The units of a trace's processes, by thread where these repeat other things."""
    units = 0
    for pid in pids:
        groups = 0
        for process, placed in _by_thread(read.process(trace_id, pid)):
            rows = _rows(process, placed)
            count = len(rows["level"])
            rows["group_id"] += groups
            groups = int(rows["group_id"].max()) + 1
            yield rows | {
                "trace_id": np.full(count, trace_id),
                "pid": np.full(count, pid),
                "unit_id": np.arange(units, units + count),
                "parent_id": np.ma.array(rows["parent_id"] + units, mask=rows["parent_id"] < 0),
            }
            units += count


def _by_thread(process: HostProcess) -> Iterator[tuple[HostProcess, list[Placed]]]:
    """The units of a process; those of its threads if these repeat other things side by side.

    The threads of one step, such as those of its forward and backward pass, repeat equally often.
    """
    placed = units_of(process)
    whole = placed[0].family
    tids, thread = np.unique(process.launched.tid, return_inverse=True)
    if len(tids) > 1 and whole.source in ("single", "sequence") and whole.score < GOOD_SCORE:
        threads = [process.of_thread(tid) for tid in tids.tolist()]
        parts = [units_of(each) for each in threads]
        families = [part[0].family for part in parts]
        repeats = np.array([family.score > whole.score + _MORE for family in families])
        held = np.bincount(thread, process.launches.weight)
        counts = [len(family) for family, is_one in zip(families, repeats, strict=True) if is_one]
        if held[repeats].sum() > held.sum() / 2 and max(counts) > min(counts) + 1:
            yield from zip(threads, parts, strict=True)
            return
    yield process, placed


# -- reading


class _Read:
    """What units are found by, of some traces together: a statement takes as long for one."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, traces: list[int]) -> None:
        self._columns = {name: _selected(connection, f"unit_{name}", traces) for name in _READ}
        stops = connection.execute(_sql("device_stop"), {"traces": traces}).fetchall()
        self._stops = dict(reversed(stops))

    def process(self, trace_id: int, pid: int) -> HostProcess:
        own = {name: self._own(name, trace_id, pid) for name in _READ}
        return _process(own, self._stops.get(trace_id, -_UNKNOWN))

    def _own(self, name: str, trace_id: int, pid: int) -> Columns:
        """The rows of a process, and those of the trace that are any process's."""
        rows = self._columns[name]
        first, last = np.searchsorted(rows["trace_id"], [trace_id, trace_id + 1])
        pids = rows["pid"][first:last]
        chosen = (pids == pid) | (pids == _UNKNOWN)
        return {each: values[first:last][chosen] for each, values in rows.items()}


def _selected(connection: duckdb.DuckDBPyConnection, name: str, traces: list[int]) -> Columns:
    rows: Columns = connection.execute(_sql(name), {"traces": traces}).fetchnumpy()
    return {name: np.ma.filled(values, _missing(values)) for name, values in rows.items()}


def _sql(name: str) -> str:
    return (files("tracekit.queries") / "schema" / f"read_{name}.sql").read_text("utf-8")


def _process(own: Mapping[str, Columns], stopped: int) -> HostProcess:
    def spans(rows: Columns) -> Spans:
        return Spans(rows["start_ns"], rows["end_ns"])

    launches, marks, served, frames, training, compiled = (own[name] for name in _READ)
    thread = np.unique(launches["tid"], return_inverse=True)[1]
    sequence = (
        launches["label"],
        thread,
        launches["start_ns"],
        launches["end_ns"],
        launches["gpu_ns"],
    )
    names = (
        "tid",
        "outer_start_ns",
        "outer_end_ns",
        "done_ns",
        "gpu_ops",
        "is_transfer",
        "is_graph",
    )
    flags = (frames[name] for name in ("is_range", "is_module", "in_module"))
    is_backward = training["is_backward"]
    return HostProcess(
        launches=Sequence(*sequence).renumbered(),
        launched=Launched(*(launches[name] for name in names)),
        marks=spans(marks),
        mark_names=marks["name"].tolist(),
        server_steps=ServerSteps(
            spans(served),
            served["name"].tolist(),
            served["kind"].tolist(),
            served["requests"],
            served["tokens"],
        ),
        frames=Frames(
            spans(frames), frames["tid"], frames["parent_id"], frames["name"].tolist(), *flags
        ),
        backward=training["start_ns"][is_backward],
        optimizer=training["start_ns"][~is_backward],
        cold_work=spans(compiled),
        has_device=bool(launches["gpu_ops"].any()),
        stopped=stopped,
    )


def _missing(values: Any) -> Any:
    return _UNKNOWN if values.dtype.kind == "i" else None


# -- writing


def _rows(process: HostProcess, placed: list[Placed]) -> Columns:
    families = [each.family for each in placed]
    sizes = [len(family) for family in families]

    def joined(name: str) -> Any:
        return np.concatenate([np.asarray(getattr(family, name)) for family in families])

    def repeated(values: list[Any], dtype: Any = np.int64) -> Any:
        return np.repeat(np.array(values, dtype), sizes)

    first, stop, level = joined("first"), joined("stop"), repeated([each.level for each in placed])
    spans = Spans(
        *(
            np.concatenate([getattr(each.spans, name) for each in families])
            for name in ("start", "end")
        )
    )
    on_device = process.on_device(spans)
    group, cold = np.zeros(len(first), np.int64), np.zeros(len(first), np.bool_)
    for each in np.unique(level).tolist():
        own = np.flatnonzero(level == each)
        since = int(group.max()) + 1 if each > 1 else 0
        group[own] = since + groups_of(process, first[own], stop[own])
        cold[own] = cold_units(process, spans.take(own), first[own], stop[own], group[own])
    ends = np.cumsum(sizes)
    groups = [group[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    odd = [own != np.bincount(own).argmax() for own in groups]
    ops, weight = (
        running_sum(each) for each in (process.launched.gpu_ops, process.launches.weight)
    )
    requests = _requests(process.server_steps, placed)
    whole = joined("is_whole") & (spans.end <= process.stopped)
    alike = zip(level.tolist(), requests["kind"].tolist(), group.tolist(), strict=True)
    return {
        "is_median": _medians(list(alike), on_device.end - on_device.start, on_device.start, whole),
        "parent_id": repeated([each.parent for each in placed]),
        "level": level,
        "source": repeated([family.source for family in families], object),
        "phase_source": repeated([family.phase_source for family in families], object),
        "score": repeated([family.score for family in families], np.float64),
        "name": np.concatenate([np.array(family.names, object) for family in families]),
        "tid": process.launched.tid[first],
        "start_ns": spans.start,
        "end_ns": spans.end,
        "begin_ns": on_device.start,
        "complete_ns": on_device.end,
        "ordinal": np.concatenate([np.arange(1, size + 1) for size in sizes]),
        "group_id": group,
        "is_whole": whole,
        "is_odd": whole & np.concatenate(odd),
        "is_cold": cold,
        "launches": stop - first,
        "gpu_ops": ops[stop] - ops[first],
        "gpu_ns": process.has_device * (weight[stop] - weight[first]),
    } | requests


def _medians(alike: list[tuple[Any, ...]], length: Ints, start: Ints, whole: Flags) -> Flags:
    """Which units are those of median length among those that are alike, and whole if any is: of
    two, the shorter."""
    members: dict[tuple[Any, ...], list[int]] = {}
    for at in np.lexsort((start, length, ~whole)).tolist():
        members.setdefault(alike[at], []).append(at)
    medians = np.zeros(len(alike), np.bool_)
    for own in members.values():
        count = np.count_nonzero(whole[own]) or len(own)
        medians[own[(count - 1) // 2]] = True
    return medians


def _requests(steps: ServerSteps, placed: list[Placed]) -> Columns:
    """The kind of each unit; for a server's steps, their requests and tokens, too."""
    kinds: list[str] = []
    counts = []
    for each in placed:
        which = each.server_steps
        if which is None:
            kinds += [each.family.kind] * len(each.family)
            counts.append(np.full((2, len(each.family)), _UNKNOWN))
        else:
            kinds += [steps.kind[at] for at in which.tolist()]
            counts.append(np.stack([steps.requests[which], steps.tokens[which]]))
    requests, tokens = np.ma.masked_equal(np.concatenate(counts, axis=1), _UNKNOWN)
    return {"kind": np.array(kinds, object), "requests": requests, "tokens": tokens}
