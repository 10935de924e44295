"""Prints all runs of a lake, each line with the command for details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from tracekit.lake.fleet import Fleet, FleetChange, SlowHost, SlowRun
from tracekit.reporters.terminal import console, section, table
from tracekit.reporters.works import compared, different, one, rates_before_and_since, spread_of
from tracekit.text import counted, duration, percent, printable, quoted

_SHOWN = 8
_CHANGES = "What changed, and when"


def render(fleet: Fleet) -> None:
    """Prints what costs most, and since when."""
    out = console()
    out.print(Text(headline(fleet), "bold"))
    out.print(Text(summary(fleet)))
    for title, section_rows in findings(fleet).items():
        if section_rows or title == _CHANGES:
            section(out, title)
        for sentence, command in section_rows[:_SHOWN]:
            out.print(Text(f"- {sentence}\n  {command}"))
        if not section_rows and title == _CHANGES:
            for sentence in compared(fleet.works) or ["no two runs do the same work"]:
                out.print(Text(sentence))
    if fleet.causes:
        section(out, "What device time is lost to, over all runs")
        rows = [
            (percent(each.share), hours(each.lost_ns), printable(each.cause),
             f"{each.runs:,}", printable(each.worst_run))
            for each in fleet.causes
        ]  # fmt: skip
        out.print(table([">share", ">device time", "cause", ">runs", "most in run"], rows))


def headline(fleet: Fleet) -> str:
    """The number of runs, and of changes, slow hosts and slow runs among them."""
    changes, hosts, slow = len(fleet.changes), len(fleet.slow_hosts), len(fleet.slow_runs)
    counts = {"change": changes, "slow host": hosts, "slow run": slow}
    counted_names = [counted(count, name) for name, count in counts.items() if count]
    if not counted_names and len(fleet.works) == 1:
        counted_names = [spread_of(fleet.works[0], names=False)]
    elif not counted_names:
        counted_names = [counted(len(fleet.works), "kind of work", "kinds of work")]
    return f"{counted(len(fleet.runs), 'run')}: {', '.join(counted_names)}"


def summary(fleet: Fleet) -> str:
    """The ranks, hosts and recorded time of the runs, and what they do if that differs."""
    hosts = f" on {counted(fleet.hosts, 'host')}" if fleet.hosts else ""
    ordered = "; ordered by name, since traces do not record the date" * (fleet.order == "name")
    said = f"{counted(fleet.ranks, 'rank')}{hosts}, {hours(fleet.device_ns)} recorded{ordered}"
    apart = different(fleet.works)
    return f"{said}. {apart}" if apart else said


def findings(fleet: Fleet) -> dict[str, list[tuple[str, str]]]:
    """Changes, slow hosts and slow runs under their headings: a sentence on each, and the command
    for details."""
    slow = [(_run(run), _see(fleet, run.run)) for run in fleet.slow_runs]
    return {
        _CHANGES: [(_change(fleet, change), _see(fleet, change.run)) for change in fleet.changes],
        "Slow hosts": [(_host(host), _see(fleet, host.worst_run)) for host in fleet.slow_hosts],
        "Runs that were slower than those around them": slow,
    }


def _change(fleet: Fleet, change: FleetChange) -> str:
    became = "longer" if change.after_ns > change.before_ns else "shorter"
    share = abs(change.after_ns / change.before_ns - 1)
    why = ""
    if change.cause is not None:
        on = "" if change.rank is None else f" on rank {change.rank}"
        at = f", most of it in {change.place}" if change.place else ""
        why = f": {duration(change.cause_ns)} of {change.cause}{on}{at}"
    return printable(
        f"{one(change.unit)} is {percent(share)} {became} since run {change.run}, from "
        f"{duration(change.before_ns)} to {duration(change.after_ns)}"
        f"{rates_before_and_since(fleet.works, change)}{why}. {labels(change.labels)}"
        f"{hours(change.lost_ns)} in {counted(change.runs, 'run')}."
    )


def labels(changed: Mapping[str, Sequence[str | None]]) -> str:
    """A sentence on the labels that changed with a run; empty if none did."""
    if not changed:
        return ""
    each = ", ".join(f"{name} {old or '-'} -> {new or '-'}" for name, (old, new) in changed.items())
    return f"With it came {each}. "


def _host(host: SlowHost) -> str:
    cause, unit = f" by {host.cause}" if host.cause else "", host.unit or "unit"
    return printable(
        f"{host.host}: the others wait for it in {host.late_runs:,} of "
        f"{counted(host.runs, 'run')}{cause}, {duration(host.late_ns)} in {one(unit)}. "
        f"{hours(host.lost_ns)}, {percent(host.share)} of all."
    )


def _run(run: SlowRun) -> str:
    on = "" if run.rank is None else f" on rank {run.rank}"
    cause = f", by {run.cause}{on}" if run.cause else ""
    return printable(
        f"{run.run}: {one(run.unit)} takes {duration(run.step_ns)}, usually "
        f"{duration(run.usual_ns)}{cause}. {hours(run.lost_ns)}."
    )


def hours(ns: int) -> str:
    """Time of devices."""
    return f"{ns / 3.6e12:,.2f} GPU hours" if abs(ns) >= 3.6e10 else f"{duration(ns)} of GPUs"


def _see(fleet: Fleet, run: str) -> str:
    from tracekit.lake.layout import Selection, escape, selection

    where = Selection(selection(fleet.lake).root, escape(run))
    return f"tracekit analyze {quoted(where)}"
