"""What XLA's names of planes, lines and events mean, in a profile and in its Chrome trace.

https://github.com/openxla/xla: xla/tsl/profiler/utils/xplane_schema.cc
"""

from __future__ import annotations

import re
from typing import Any

# The host's number in XLA's viewers; devices have their plane's number.
HOST = 701
DEVICE = re.compile(r"/device:(?!CPU)([A-Z]+):(\d{1,18})(.*)")
# Events of TensorFlow's own runtime, which uses the same profiler.
TENSORFLOW = re.compile(
    r"(ExecutorState::Process|EagerKernelExecute|EagerLocalExecute|FunctionRun|SessionRun)\b"
)
_STREAM = re.compile(r"Stream #(\d{1,18})|XLA Ops$")
_CALL = re.compile(r"(cuda|hip)[A-Z]|cu[A-Z]")
_PYTHON = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_COPY = re.compile(r"Memcpy([HDP])2([HDP])")
# The category of modules, steps and scopes, which XLA shows next to device work.
_RANGE = "gpu_user_annotation"
RANGE_ON_HOST = "user_annotation"
# The line on which TensorFlow shows a device's steps, by number, and the name of such a step.
STEPS = "Steps"
_STEP = "ProfilerStep#"


def stream_of(line: str, number: int) -> int | None:
    """The stream of a device's line; None: the line has ranges. `number` is the line's own."""
    stream = _STREAM.match(line)
    if stream is None:
        return None
    return int(stream[1]) if stream[1] else number


def on_device(name: str) -> tuple[str, str]:
    """Kineto's category and name for an operation on a stream."""
    if copy := _COPY.match(name):
        return "gpu_memcpy", f"Memcpy {copy[1]}to{copy[2]}"
    return ("gpu_memset", "Memset (Device)") if name.startswith("Memset") else ("kernel", name)


def beside_device(line: str, name: str) -> tuple[str, str]:
    """Kineto's category and name for a range on a device's line without a stream."""
    return _RANGE, f"{_STEP}{name}" if line == STEPS and name.isdecimal() else name


def on_host(name: str, args: dict[str, Any]) -> tuple[str, str]:
    """Kineto's category and name for a host slice."""
    category, shown = host_label(name)
    if category == RANGE_ON_HOST and isinstance(args.get("step_num"), int):
        args["range"] = name
        return category, f"{_STEP}{args['step_num']}"
    return category, shown


def host_label(name: str) -> tuple[str, str]:
    """Kineto's category and name for a host slice that is no step."""
    if frame := _PYTHON.fullmatch(name):
        return "python_function", f"{frame[1]}({frame[2]}): {frame[3]}"
    if _CALL.match(name):
        return ("cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"), name
    return RANGE_ON_HOST, name
