"""XLA profiles, made line by line."""

import re

from tests.kit.other_formats import framed
from tests.kit.protos import messages
from tests.kit.xplane_schema import SCHEMA

_OPERATOR = re.compile(r"[\w./]+:([A-Z]\w*)")
# A name, in full, and as it is shown; start and length in nanoseconds; what is said of it.
Event = tuple[str, int, int] | tuple[str, int, int, dict[str, int | str]]


def plane(name: str, lines: dict[str, list[Event]], number: int = 1) -> bytes:
    """A plane of lines by name. An instruction of HLO is shown by its own name, and TensorFlow's
    operators by their type: xla/backends/profiler/cpu/host_tracer_utils.cc (MayAddDisplayName).
    """
    made = messages(SCHEMA)["XPlane"](id=number, name=name.encode())
    kinds: dict[str, int] = {}
    stats: dict[str, int] = {}
    for place, (line_name, events) in enumerate(lines.items(), 1):
        line = made.lines.add(id=place, name=line_name.encode(), timestamp_ns=0)
        for called, start, length, *said in events:
            key = kinds.setdefault(called, len(kinds) + 1)
            event = line.events.add(
                metadata_id=key, offset_ps=start * 1000, duration_ps=length * 1000
            )
            for stat, value in (said[0] if said else {}).items():
                added = event.stats.add(metadata_id=stats.setdefault(stat, len(stats) + 1))
                if isinstance(value, int):
                    added.int64_value = value
                else:
                    added.str_value = value.encode()
    for called, key in kinds.items():
        kind = made.event_metadata.add(key=key).value
        kind.name = called.encode()
        if called.startswith("%"):
            kind.display_name = called[1:].partition(" ")[0].encode()
        elif called.startswith("Iterator::"):
            kind.display_name = f"Iterator::{called.rpartition('::')[2]}".encode()
        elif operator := _OPERATOR.fullmatch(called):
            kind.display_name = operator[1].encode()
    for stat, key in stats.items():
        made.stat_metadata.add(key=key).value.name = stat.encode()
    return made.SerializeToString()


def profile(*planes: bytes) -> bytes:
    """A file of these planes."""
    return framed(planes)
