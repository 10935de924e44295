"""The units of work of a database's traces, as rows of the fact `unit`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
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
# Threads are apart if they are more regular than the process by this score.
_MORE = 0.1


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Replaces the rows of the table `unit` by the units of all traces."""
    connection.execute("DELETE FROM unit")
    keys = "SELECT DISTINCT trace_id, pid FROM _scratch.unit_launch ORDER BY ALL"
    trace, units = -1, 0
    for trace_id, pid in connection.execute(keys).fetchall():
        units = 0 if trace_id != trace else units
        trace = trace_id
        groups = 0
        for process, placed in _by_thread(_read(connection, trace_id, pid)):
            rows = _rows(process, placed)
            count = len(rows["level"])
            rows["group_id"] += groups
            groups = int(rows["group_id"].max()) + 1
            rows |= {
                "trace_id": np.full(count, trace_id),
                "pid": np.full(count, pid),
                "unit_id": np.arange(units, units + count),
                "parent_id": np.ma.array(rows["parent_id"] + units, mask=rows["parent_id"] < 0),
            }
            # The statement reads this local variable by its name.
            connection.execute("INSERT INTO unit BY NAME FROM rows")
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


def _read(connection: duckdb.DuckDBPyConnection, trace_id: int, pid: int) -> HostProcess:
    def select(name: str) -> Columns:
        sql = (files("tracekit.queries") / "schema" / f"read_{name}.sql").read_text("utf-8")
        rows: Columns = connection.execute(sql, {"trace": trace_id, "pid": pid}).fetchnumpy()
        return {name: np.ma.filled(values, _missing(values)) for name, values in rows.items()}

    def spans(rows: Columns) -> Spans:
        return Spans(rows["start_ns"], rows["end_ns"])

    launches, marks, served, frames = (
        select(name) for name in ("unit_launches", "unit_marks", "unit_servers", "unit_frames")
    )
    training, compiled = select("unit_training"), select("unit_compilation")
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
        stopped=_stopped(connection, trace_id),
    )


def _stopped(connection: duckdb.DuckDBPyConnection, trace_id: int) -> int:
    """When a device's recording stopped before the host's; never: far in the future."""
    sql = (files("tracekit.queries") / "schema" / "read_device_stop.sql").read_text("utf-8")
    found = connection.execute(sql, {"trace": trace_id}).fetchone()
    return -_UNKNOWN if found is None else int(found[0])


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
