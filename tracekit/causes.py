"""The causes to which time is attributed, with their side (host or device) and texts."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files

# The cause of a host thread's stretch without records, if it is too long for the interpreter
# between two operators (the threshold `unrecorded_ns`). Shorter stretches count as Python.
UNRECORDED = "unrecorded-time"

# Causes of host time, then of device time, then of time that the trace does not explain. In arrays,
# a cause's number is its index here.
CAUSES = (
    *("launch", "dispatch", "python", "sync", "input", "allocation", "compilation", "copy"),
    *("host-function", UNRECORDED),
    *("communication", "memory-bandwidth", "math", "math-or-memory", "latency"),
    "unknown",
)

# The cause of kernel time when the trace does not show whether math or memory limits the kernels.
UNKNOWN_LIMIT = "math-or-memory"
# The causes that such kernels may have.
LIMITS = ("math", "memory-bandwidth")

# The causes that can be the bottleneck of a host-bound run, and of a device-bound run. Copies and
# synchronizations take time on both sides.
OF_HOST = CAUSES[: CAUSES.index("communication")]
OF_DEVICE = (
    *("communication", "copy", "memory-bandwidth", "math", "math-or-memory", "latency", "sync"),
)

# The causes of host activities whose names differ from their cause's (the SQL type host_activity,
# columns of the query cpu_time, `launch_latency` and `held` in gpu_timeline).
CAUSE_OF_ACTIVITY = {
    "runtime": "launch", "view": "dispatch", "untraced": "python", "launch_latency": "latency",
    "held": "unknown", "host_function": "host-function", "waiting": "unrecorded-time",
}  # fmt: skip


def cause_of(activity: str) -> str:
    """The cause of a host thread's activity, unless it is a long stretch without records."""
    return CAUSE_OF_ACTIVITY.get(activity, activity)


def words(says: str) -> dict[str, str]:
    """The texts of one kind in queries/words.csv, by their cause or finding:
    what the host does (`host_does`), what to do (`next`), what to record instead (`record`) ...
    """
    return _all_words().get(says, {})


@cache
def _all_words() -> dict[str, dict[str, str]]:
    lines = (files("tracekit.queries") / "words.csv").read_text(encoding="utf-8").splitlines()
    texts: dict[str, dict[str, str]] = {}
    for says, of, text in csv.reader(lines):
        texts.setdefault(says, {})[of] = text
    return texts


def in_words_of(device: str, text: str) -> str:
    """The text with the device's word for a GPU, such as `MTIA`, in PyTorch names too."""
    if device == "GPU":
        return text
    if device.isupper():
        text = text.replace("torch.cuda.", f"torch.{device.lower()}.")
        text = text.replace("ProfilerActivity.CUDA", f"ProfilerActivity.{device}")
    return re.sub(r"\bGPU\b", device, text)


# Engines whose own switches record more, whichever recorder they use.
ENGINES = ("vLLM", "SGLang")
# The recorders with their own switches; all others use Kineto's.
RECORDERS = ("kineto", "nsys", "rocprofv3", "jax", "tensorflow", "proton")


def in_switches_of(recorder: str, text: str) -> str:
    """The text with each {code} replaced by this recorder's switch that records it."""
    switches = words(f"switch {recorder if recorder in RECORDERS else RECORDERS[0]}")
    for code, switch in switches.items():
        text = text.replace(f"{{{code}}}", switch)
    return text
