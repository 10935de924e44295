"""Small files of rocprofv3, JAX and Perfetto, and changes to SQLite files."""

import sqlite3
from pathlib import Path

from tests.kit import nsys_simulated as nsys
from tests.kit.perfetto_schema import SCHEMA
from tests.kit.protos import messages
from tests.kit.xplane_schema import SCHEMA as XPLANE


def changed(file: Path, *statements: str) -> Path:
    """The SQLite file, after these statements."""
    with sqlite3.connect(file) as made:
        for each in statements:
            made.execute(each)
    made.close()
    return file


def framed(texts, tag=b"\n"):
    """Messages as the repeated field 1 of another; each is shorter than 16 kB."""
    sizes = (bytes([len(text) & 127 | 128, len(text) >> 7]) for text in texts)
    return b"".join(tag + size + text for size, text in zip(sizes, texts, strict=True))


# -- rocprofv3 -------------------------------------------------------------------------------------


def _record(kind, operation, start, end, internal, **more):
    ids = {"correlation_id": {"internal": internal, "external": 0}, "thread_id": 51}
    times = {"start_timestamp": start, "end_timestamp": end}
    return {"kind": kind, "operation": operation} | ids | times | more


KINDS = {
    "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"], "MARKER_CORE_API": ["roctx"],
    "KERNEL_DISPATCH": [], "MEMORY_COPY": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"],
}  # fmt: skip
# A process with an MI300X, as rocprofv3 writes it.
ROCPROF = {"rocprofiler-sdk-tool": [{
    "metadata": {"pid": 50, "node": {"hostname": "h"}, "command": ["train"]},
    "agents": [
        {"id": {"handle": 1}, "type": 1, "name": "a CPU"},
        {"id": {"handle": 9}, "type": 2, "name": "gfx942", "logical_node_id": 4,
         "product_name": "AMD Instinct MI300X", "cu_count": 304},
    ],
    "strings": {
        "buffer_records": [{"kind": kind, "operations": all_} for kind, all_ in KINDS.items()],
        "marker_api": [{"key": 3, "value": "forward"}],
    },
    "kernel_symbols": [{"kernel_id": 5, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm"}],
    "buffer_records": {
        "hip_api": [_record(0, 0, 1_000, 1_500, 1), _record(0, 1, 1_600, 1_700, 2)],
        "marker_api": [_record(1, 0, 900, 1_800, 3)],
        "memory_copy": [
            _record(3, 1, 4_000, 4_100, 2, bytes=64, dst_agent_id={"handle": 9},
                    src_agent_id={"handle": 1})
        ],
        "kernel_dispatch": [
            _record(2, 0, 2_000, 3_001, 1, stream_id={"handle": 2}, dispatch_info={
                "agent_id": {"handle": 9}, "queue_id": {"handle": 7}, "kernel_id": 5,
                "workgroup_size": {"x": 64, "y": 1, "z": 1},
                "grid_size": {"x": 640, "y": 2, "z": 1}})
        ],
    },
}]}  # fmt: skip
ROCPD_SUFFIX = "_0000abcd_1234"


def rocpd(file, version=4):
    """What ROCPROF has, as rocprofv3 writes it to SQLite."""
    strings = nsys.Strings()
    rows = [
        ("region", "hipLaunchKernel", "HIP_RUNTIME_API", 1_000, 1_500, 1),
        ("region", "hipMemcpyAsync", "HIP_RUNTIME_API", 1_600, 1_700, 2),
        ("region", "roctxThreadRangeA", "MARKER_CORE_RANGE_API", 900, 1_800, 3),
        ("kernel_dispatch", None, "KERNEL_DISPATCH", 2_000, 3_001, 1),
        ("memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY", 4_000, 4_100, 2),
    ]
    tables: dict = {
        "info_process": [{"id": 1, "pid": 50}],
        "info_thread": [{"id": 8, "tid": 51}],
        "info_agent": [{"id": 9, "type": "GPU", "product_name": "AMD Instinct MI300X"}],
        "info_kernel_symbol": [{"id": 5, "kernel_name": "gemm.kd", "display_name": "gemm"}],
        "info_node": [{"id": 1, "hostname": "h"}],
        "event": [], "region": [], "kernel_dispatch": [], "memory_copy": [], "track": [],
        "timestamp": [],
    }  # fmt: skip
    for number, (table, name, category, start, end, stack) in enumerate(rows):
        tables["event"].append(
            {"id": number, "stack_id": stack, "category_id": strings[category],
             "extdata": '{"message": "forward"}' if stack == 3 else "{}"}
        )  # fmt: skip
        place = {"pid": 1, "tid": 8, "agent_id": 9, "queue_id": 7,
                 "stream_id": 2 if stack == 1 else 0}  # fmt: skip
        row = {"id": number, "event_id": number}
        if version == 3:
            row |= {"start": start, "end": end} | place
        else:
            tables["track"].append({"id": number} | place)
            tables["timestamp"] += [
                {"id": 2 * number, "value": start}, {"id": 2 * number + 1, "value": end}
            ]  # fmt: skip
            row |= {"track_id": number, "start_id": 2 * number, "end_id": 2 * number + 1}
        if table == "kernel_dispatch":
            row |= {"kernel_id": 5, "workgroup_size_x": 64, "workgroup_size_y": 1,
                    "workgroup_size_z": 1, "grid_size_x": 640, "grid_size_y": 2,
                    "grid_size_z": 1}  # fmt: skip
        else:
            row["name_id"] = strings[name]
        if table == "memory_copy":
            row |= {"dst_agent_id": 9, "src_agent_id": 1, "size": 64}
        tables[table].append(row)
    named = {f"rocpd_{table}{ROCPD_SUFFIX}": rows for table, rows in tables.items() if rows}
    texts = [{"id": key, "string": text} for text, key in strings.items()]
    named[f"rocpd_string{ROCPD_SUFFIX}"] = texts
    nsys.write(file, named, nsys.Strings({"": 0}))
    return changed(file, "DROP TABLE StringIds")


# -- JAX -------------------------------------------------------------------------------------------


def space(kind=b"TPU", device=b"TPU v6 Lite2", called=b"PjitFunction(f)"):
    """A device that runs one step, with its host, in XLA's terms."""
    made = messages(XPLANE)["XPlane"]
    host, tpu = made(id=2, name=b"/host:CPU"), made(id=1, name=b"/device:%s:0" % kind)
    for plane, names in (
        (host, [b"$train.py:12 step", b"train", called]),
        (tpu, [b"fusion.3", b"jit_f"]),
    ):
        for number, name in enumerate(names, 1):
            plane.event_metadata.add(key=number).value.name = name
        for number, name in enumerate([b"step_num", b"hlo_category", b"loop fusion", b"flops"], 1):
            plane.stat_metadata.add(key=number).value.name = name
    tpu.stat_metadata.add(key=5).value.name = b"device_type_string"
    tpu.stats.add(metadata_id=5, str_value=device)
    thread = host.lines.add(id=77, display_name=b"main", timestamp_ns=1_000)
    thread.events.add(metadata_id=1, offset_ps=0, duration_ps=9_000_000)
    thread.events.add(metadata_id=2, offset_ps=1_000_000, duration_ps=5_000_000).stats.add(
        metadata_id=1, int64_value=4
    )
    thread.events.add(metadata_id=3, offset_ps=1_500_000, duration_ps=1_000_000)
    ops = tpu.lines.add(id=3, name=b"XLA Ops", timestamp_ns=1_000)
    op = ops.events.add(metadata_id=1, offset_ps=2_000_400, duration_ps=1_000_300)
    op.stats.add(metadata_id=2, ref_value=3)
    op.stats.add(metadata_id=4, uint64_value=1 << 40)
    modules = tpu.lines.add(id=4, name=b"XLA Modules", timestamp_ns=1_000)
    modules.events.add(metadata_id=2, offset_ps=2_000_000, duration_ps=1_002_000)
    tpu.event_metadata.add(key=3).value.name = b"4"
    steps = tpu.lines.add(id=5, name=b"Steps", timestamp_ns=1_000)
    steps.events.add(metadata_id=3, offset_ps=2_000_000, duration_ps=1_002_000)
    return framed([host.SerializeToString(), tpu.SerializeToString()])


# -- Perfetto --------------------------------------------------------------------------------------


def packets():
    """Packets as PyTorch writes them: tracks, names, all begins of a kind, then all ends."""
    on_gpu = {"device": 0, "stream": 7}
    events = [
        (1, 1_000, 2_000, b"aten::mm", 0, {"cat": "cpu_op", "External id": 4}),
        (1, 1_100, 1_900, b"cudaLaunchKernel", 9, {"cat": "cuda_runtime", "correlation": 9}),
        (2, 3_000, 4_001, b"gemm", 9,
         {"cat": "kernel", "correlation": 9, **on_gpu, "grid": [264, 1, 1]}),
        (2, 4_001, 5_000, b"relu", 0, {"cat": "kernel", "correlation": 10, **on_gpu}),
    ]  # fmt: skip
    packet = messages(SCHEMA)["TracePacket"]
    made = []
    for uuid, pid, tid, name in ((1, 50, 51, b"main"), (2, 0, 7, b"stream 7")):
        each = packet()
        each.track_descriptor.uuid = uuid
        thread = each.track_descriptor.thread
        thread.pid, thread.tid, thread.thread_name = pid, tid, name
        made.append(each)
    names = packet(trusted_packet_sequence_id=1, sequence_flags=1)
    for iid, (_, _, _, name, *_) in enumerate(events, 1):
        names.interned_data.event_names.add(iid=iid, name=name)
    made.append(names)
    for iid, (track, start, _, _, flow, args) in enumerate(events, 1):
        each = packet(timestamp=start, trusted_packet_sequence_id=1, sequence_flags=2)
        event = each.track_event
        event.type, event.track_uuid, event.name_iid = 1, track, iid
        event.flow_ids.extend([flow] if flow else [])
        for key, value in args.items():
            told = event.debug_annotations.add(name=key.encode())
            if isinstance(value, list):
                for item in value:
                    told.array_values.add(int_value=item)
            elif isinstance(value, int):
                told.int_value = value
            else:
                told.string_value = value.encode()
        made.append(each)
    for track, _, end, *_ in events:
        each = packet(timestamp=end, trusted_packet_sequence_id=1)
        each.track_event.type, each.track_event.track_uuid = 2, track
        made.append(each)
    return [each.SerializeToString() for each in made]


def compressed(text: bytes) -> bytes:
    """A packet that holds packets, which zlib compressed."""
    packet = messages(SCHEMA)["TracePacket"]
    return packet(compressed_packets=text).SerializeToString()
