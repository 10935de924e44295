"""GPU events in Perfetto's traces: counters and render stages. PyTorch writes each kernel and copy
as a render stage.

https://perfetto.dev/docs/reference/trace-packet-proto (GpuRenderStageEvent, GpuCounterEvent);
PyTorch's writer is torch/profiler/_cuspy/trace.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracekit.trace.budget import Budget, decoded_json
from tracekit.trace.other.converted import microseconds, slice_of
from tracekit.trace.other.protos import text

# The kinds of interned texts that these packets refer to.
INTERNED = ("gpu_specifications", "compute_kernels", "compute_arg_names")
# Categories by stage.
_STAGES = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
}  # fmt: skip
# What Kineto calls these values. Perfetto's viewer needs other names.
_RENAMED = {
    "device id": "device", "stream id": "stream", "context id": "context",
    "registers_per_thread": "registers per thread", "shared_mem_dynamic": "dynamic shared memory",
}  # fmt: skip


def stage_event(
    stage: Any, at: int, named: Callable[[str, int], str | None], budget: Budget
) -> dict[str, Any]:
    """The event of a render stage that begins at `at`, in Chrome's terms; `named` gives interned
    texts by kind and number."""
    extra = {text(each.name): _value(text(each.value), budget) for each in stage.extra_data}
    args = {_RENAMED.get(key, key): value for key, value in extra.items()}
    args.setdefault("device", stage.gpu_id)
    args.setdefault("stream", stage.hw_queue_iid)
    if stage.HasField("launch"):
        launch = stage.launch
        args["grid"] = [launch.grid_size.x, launch.grid_size.y, launch.grid_size.z]
        block = launch.workgroup_size
        args["block"] = [block.x, block.y, block.z]
        for each in launch.args:
            key = text(each.name) or named("compute_arg_names", each.name_iid) or ""
            given = [value for field, value in each.ListFields() if field.name.endswith("_value")]
            if given:
                value = text(given[0]) if isinstance(given[0], bytes) else given[0]
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
    """The events of a sample of a GPU's counters."""
    for each in sample.counters:
        name = names.get(each.counter_id, f"counter {each.counter_id}")
        value = each.int_value if each.HasField("int_value") else each.double_value
        place = {"pid": gpu_id, "ts": microseconds(at)}
        yield {"ph": "C", "name": name} | place | {"args": {name: value}}


def _value(said: str, budget: Budget) -> Any:
    """The value of an annotation, which is text: numbers and lists are parsed."""
    return decoded_json(said, budget) if said[:1] in "-0123456789[{" else said
