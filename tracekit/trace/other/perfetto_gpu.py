"""GPU events in Perfetto traces: counters and render stages. PyTorch writes kernels and copies as
render stages.

https://perfetto.dev/docs/reference/trace-packet-proto (GpuRenderStageEvent, GpuCounterEvent);
PyTorch's writer is torch/profiler/_cuspy/trace.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracekit.trace.budget import Budget, decoded_json
from tracekit.trace.other.converted import microseconds, slice_of
from tracekit.trace.other.protos import text

# Kinds of interned texts that these packets refer to.
INTERNED = ("gpu_specifications", "compute_kernels", "compute_arg_names")
# Categories by stage.
_STAGES = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
}  # fmt: skip
# Kineto's names for these values. Perfetto's viewer needs other names.
_RENAMED = {
    "device id": "device", "stream id": "stream", "context id": "context",
    "registers_per_thread": "registers per thread", "shared_mem_dynamic": "dynamic shared memory",
}  # fmt: skip


def stage_event(
    stage: Any, at: int, named: Callable[[str, int], str | None], budget: Budget
) -> dict[str, Any]:
    """A render stage that starts at `at`, as a Chrome trace event; `named` gives interned texts by
    kind and number."""
    extra = {text(each.name): _value(text(each.value), budget) for each in stage.extra_data}
    args = {_RENAMED.get(key, key): value for key, value in extra.items()}
    args.setdefault("device", stage.gpu_id)
    args.setdefault("stream", stage.hw_queue_iid)
    if stage.HasField("launch"):
        launch = stage.launch
        args["grid"] = [launch.grid_size.x, launch.grid_size.y, launch.grid_size.z]
        block = launch.workgroup_size
        args["block"] = [block.x, block.y, block.z]
        for argument in launch.args:
            key = text(argument.name) or named("compute_arg_names", argument.name_iid) or ""
            values = [
                value for field, value in argument.ListFields() if field.name.endswith("_value")
            ]
            if values:
                value = text(values[0]) if isinstance(values[0], bytes) else values[0]
                args[_RENAMED.get(key, key)] = value
    if stage.event_wait_ids:
        args |= {"event id": stage.event_id, "waits for": [*stage.event_wait_ids]}
    kind = named("gpu_specifications", stage.stage_iid)
    name = (
        text(stage.name)
        or named("event_names", stage.name_iid)
        or named("compute_kernels", stage.kernel_iid)
        or kind
    )
    category, duration = _STAGES.get(kind or "", kind), stage.duration
    return slice_of(category, name, args["device"], args["stream"], at, duration, args)


def counter_events(
    sample: Any, at: int, gpu_id: int, names: dict[int, str]
) -> Iterator[dict[str, Any]]:
    """The events in a sample of GPU counters."""
    for counter in sample.counters:
        name = names.get(counter.counter_id, f"counter {counter.counter_id}")
        value = counter.int_value if counter.HasField("int_value") else counter.double_value
        place = {"pid": gpu_id, "ts": microseconds(at)}
        yield {"ph": "C", "name": name} | place | {"args": {name: value}}


def _value(said: str, budget: Budget) -> Any:
    """An annotation's value, parsed from text if it is a number or list."""
    return decoded_json(said, budget) if said[:1] in "-0123456789[{" else said
