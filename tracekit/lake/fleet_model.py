"""What the runs of a lake cost: the result of `fleet`."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from tracekit.records import Record

SCHEMA = "tracekit/fleet/1"


class FleetCause(Struct, frozen=True):
    """What device time is lost to, over all runs."""

    cause: str
    """Why devices did not compute."""
    lost_ns: int
    """The recorded time of all devices that it took."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    runs: int
    """The runs in which it takes 1 % or more (count)"""
    worst_run: str
    """The run in which it takes most."""


class SlowHost(Struct, frozen=True):
    """A host whose ranks are late more often than those of others."""

    host: str
    """Its name; the rank where traces tell no host."""
    runs: int
    """The runs that it took part in (count)"""
    late_runs: int
    """Those in which the others waited for it (count)"""
    cause: str | None
    """The part of a step that takes its ranks longest beyond others."""
    late_ns: int
    """By how much they are late in a step: the median of late_runs."""
    lost_ns: int
    """The recorded time of all devices that waited for it."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    worst_run: str
    """The run in which it is latest."""


class FleetChange(Struct, frozen=True):
    """The step took `before_ns` until the run `last_before`, and `after_ns` since the run `run`."""

    run: str
    """The first run with the new step."""
    last_before: str
    """The last run with the old one."""
    before_ns: int
    """The step before."""
    after_ns: int
    """The step since."""
    labels: dict[str, list[str | None]]
    """The labels that changed with this run: before and after."""
    rank: int | None
    """The rank that the others wait for since; null: all changed."""
    cause: str | None
    """What changed most."""
    cause_ns: int
    """By how much."""
    place: str | None
    """The place in the program, from the stored advice."""
    runs: int
    """Runs until the next change (count)"""
    lost_ns: int
    """The recorded time of all devices that it cost until the next change; negative: it saved."""
    share: float
    """lost_ns, of the recorded time of all devices in these runs."""


class SlowRun(Struct, frozen=True):
    """A run that was slower than the runs around it."""

    run: str
    """Its name."""
    step_ns: int
    """Its step."""
    usual_ns: int
    """The step of the runs around it."""
    rank: int | None
    """The rank that the others wait for; null: none."""
    cause: str | None
    """What takes longest beyond the usual."""
    lost_ns: int
    """The recorded time of all devices that it cost."""
    share: float
    """lost_ns, of the recorded time of all devices of all runs."""


class Fleet(Record, frozen=True):
    """What costs most in the runs of a lake; each list has what costs most first."""

    form: ClassVar[str] = SCHEMA

    lake: str
    """The path of the lake."""
    order: str
    """time or name: the order of the runs."""
    runs: list[str]
    """The runs in that order."""
    step_ns: list[int]
    """The step of each run: the median over its ranks of their median steps."""
    ranks: int
    """How many ranks they have (count)"""
    hosts: int
    """How many hosts are known (count)"""
    device_ns: int
    """The recorded time of all devices."""
    causes: list[FleetCause]
    """What device time is lost to."""
    slow_hosts: list[SlowHost]
    """Hosts whose ranks are late more often than others."""
    changes: list[FleetChange]
    """When the step changed, with which labels, and why."""
    slow_runs: list[SlowRun]
    """Runs that were slower than the runs around them."""
