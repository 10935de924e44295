"""What XLA's names of planes, lines and events mean, in a profile and in its Chrome trace.

https://github.com/openxla/xla: xla/tsl/profiler/utils/xplane_schema.cc
"""

from __future__ import annotations

import re
from typing import Any

from tracekit.trace.budget import OBJECT_BYTES, Budget

# The host's number in XLA's viewers; devices have their plane's number.
HOST = 701
DEVICE = re.compile(r"/device:(?!CPU)([A-Z]+):(\d{1,18})(.*)")
# Events of TensorFlow's own runtime, which uses the same profiler.
TENSORFLOW = re.compile(
    r"(ExecutorState::Process|EagerKernelExecute|EagerLocalExecute|FunctionRun|SessionRun)\b"
)
# An operator of its graphs, "model/dense/MatMul:MatMul", with what some versions leave at the end,
# "#id=7#"; and one of its input pipeline, "Iterator::Root::Prefetch::Map".
# xla/tsl/profiler/utils/tf_op_utils.cc: ParseTfOpFullname
_OPERATOR = re.compile(r"[A-Za-z0-9.][\w./>-]*:([A-Z_]\w*)(?:#[^#]*#)?", re.ASCII)
_DATASET = "Iterator::"
_STREAM = re.compile(r"Stream #(\d{1,18})|XLA Ops$")
_CALL = re.compile(r"(cuda|hip)[A-Z]|cu[A-Z]")
_PYTHON = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_COPY = re.compile(r"Memcpy([HDP])2([HDP])")
# An instruction that copies: "%copy-done.1 = f32[8]{0:S(5)} copy-done(%copy-start.1)".
_HLO_COPY = re.compile(
    r"%?(?P<name>[\w.-]+) = (?P<result>\(.+?\)|\S+) (?P<kind>copy(-start|-done)?)"
    r"\((?P<operands>.*)",
    re.DOTALL,
)
_HOST_MEMORY = "S(5)"
# The category of modules, steps and scopes, which XLA shows next to device work.
_RANGE = "gpu_user_annotation"
RANGE_ON_HOST = "user_annotation"
# The line on which TensorFlow shows a device's steps, by number, and the name of such a step.
STEPS = "Steps"
_STEP = "ProfilerStep#"


class HostCopies:
    """The copies between host and device memory among a device's operations, by their HLO.

    A TPU copies asynchronously: `copy-start` has the layouts of the destination and the source,
    `copy-done` that of the destination. Some versions print the operand's layouts, too. Memory
    space 5 is the host's: kHostMemorySpace in github.com/openxla/xla, xla/layout.h.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._from_host: set[str] = set()

    def note(self, full: str) -> None:
        """Remembers a copy that starts in the host's memory, for its end, which may not tell.

        Raises:
            TracekitError: when the names take more than the file's budget.
        """
        copy = _HLO_COPY.match(full)
        if (
            copy is None
            or copy["kind"] != "copy-start"
            or _HOST_MEMORY not in _second(copy["result"])
        ):
            return
        if copy["name"] not in self._from_host:
            self._budget.hold(len(copy["name"]) + OBJECT_BYTES)
            self._from_host.add(copy["name"])

    def direction(self, full: str) -> str | None:
        """HtoD or DtoH; None: it is no copy from or to the host's memory."""
        copy = _HLO_COPY.match(full)
        if copy is None:
            return None
        result, operands = copy["result"], copy["operands"]
        if copy["kind"] == "copy-start":
            to, origin = result.split(", ")[0], _HOST_MEMORY in _second(result)
        elif copy["kind"] == "copy":
            to, origin = result, _HOST_MEMORY in operands
        else:
            started = operands.rpartition("%")[2].partition(")")[0]
            to = result
            origin = _HOST_MEMORY in _second(operands) or started in self._from_host
        if origin == (_HOST_MEMORY in to):
            return None
        return "HtoD" if origin else "DtoH"


def _second(shapes: str) -> str:
    """The second of a tuple's shapes, which have no space after their commas."""
    return shapes.split(", ")[1] if ", " in shapes else ""


def _shown(full: str) -> str:
    """The name of an instruction in HLO."""
    return full.removeprefix("%").partition(" ")[0]


def stream_of(line: str, number: int) -> int | None:
    """The stream of a device's line; None: the line has ranges. `number` is the line's own."""
    stream = _STREAM.match(line)
    if stream is None:
        return None
    return int(stream[1]) if stream[1] else number


def on_device(name: str, full: str, copies: HostCopies) -> tuple[str, str]:
    """Kineto's category and name for an operation on a stream. `full`: its text in HLO, if it is
    known."""
    if copy := _COPY.match(name):
        return "gpu_memcpy", f"Memcpy {copy[1]}to{copy[2]}"
    if direction := copies.direction(full):
        return "gpu_memcpy", f"Memcpy {direction} ({_shown(full)})"
    return ("gpu_memset", "Memset (Device)") if name.startswith("Memset") else ("kernel", name)


def beside_device(line: str, name: str) -> tuple[str, str]:
    """Kineto's category and name for a range on a device's line without a stream."""
    return _RANGE, f"{_STEP}{name}" if line == STEPS and name.isdecimal() else name


def on_host(name: str, full: str, args: dict[str, Any], *, is_tensorflow: bool) -> tuple[str, str]:
    """Kineto's category and name for a host slice."""
    category, shown = host_label(name, full, is_tensorflow=is_tensorflow)
    if category == RANGE_ON_HOST and isinstance(args.get("step_num"), int):
        args["range"] = name
        return category, f"{_STEP}{args['step_num']}"
    return category, shown


def host_label(name: str, full: str, *, is_tensorflow: bool) -> tuple[str, str]:
    """Kineto's category and name for a host slice that is no step. `full`: the name that it was
    recorded with; `is_tensorflow`: TensorFlow's runtime ran, whose operators are called NAME:TYPE.
    """
    if frame := _PYTHON.fullmatch(name):
        return "python_function", f"{frame[1]}({frame[2]}): {frame[3]}"
    if _CALL.match(name):
        return ("cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"), name
    if is_tensorflow:
        if operator := _OPERATOR.fullmatch(full):
            return "cpu_op", operator[1]
        if TENSORFLOW.match(full):
            return "cpu_op", name
    return ("cpu_op" if full.startswith(_DATASET) else RANGE_ON_HOST), name
