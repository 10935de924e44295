"""What time is put down to: the causes that bound a run, and which side each one belongs to."""

from __future__ import annotations

# The host's time, then the device's, then time that the trace does not explain. Arrays number
# causes by their place here, from 0.
CAUSES = (
    *("launch", "dispatch", "python", "sync", "input", "allocation", "compilation", "copy"),
    *("communication", "memory-bandwidth", "math", "latency"),
    "unknown",
)

# Which causes bound a run whose host is the slower side, and which one whose device is. Copies
# and synchronizations take time of both.
OF_HOST = CAUSES[: CAUSES.index("communication")]
OF_DEVICE = ("communication", "copy", "memory-bandwidth", "math", "latency", "sync")

# The cause of what a host thread does (the SQL type host_activity, columns of the query cpu_time,
# `launch_latency` of gpu_timeline) where the two have different names.
CAUSE_OF_ACTIVITY = {
    "runtime": "launch",
    "view": "dispatch",
    "untraced": "python",
    "launch_latency": "latency",
}


def cause_of(activity: str) -> str:
    """The cause that a host thread's activity amounts to."""
    return CAUSE_OF_ACTIVITY.get(activity, activity)
