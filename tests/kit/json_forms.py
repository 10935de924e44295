"""Small files in each form of JSON that other profilers and tools write: two launches of a kernel,
an operator or scope around each, and a copy where the form has copies."""

import json
from typing import Any

Event = dict[str, Any]


def _named(pid: object, process: str, **threads: str) -> list[Event]:
    names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}]
    return names + [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": int(tid[1:]), "args": {"name": name}}
        for tid, name in threads.items()
    ]


def _slice(name: str, pid: object, tid: object, ts: object, dur: object, **more: Any) -> Event:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur} | more


def _ascend() -> object:
    events = _named(2, "Python") + _named(3, "CANN") + _named(32, "Ascend Hardware")
    for n in range(2):
        at = 1_715_330_000_000_000 + 100 * n
        task = {"Task Type": "AI_CORE", "Physic Stream Id": 5, "connection_id": n + 1}
        events += [
            _slice("aten::mm", 2, 31, f"{at}.000", 20, cat="cpu_op", args={}),
            _slice("AscendCL@aclnnMm", 3, 31, f"{at + 5}.125", 10, args={"connection_id": n + 1}),
            _slice("MatMul", 32, 5, f"{at + 30}.250", 40.5, args=task),
        ]
    copy = {"Task Type": "MEMCPY_ASYNC", "connection_id": 9}
    wait = {"Task Type": "EVENT_WAIT"}
    return [*events, _slice("c", 32, 5, "1715330000000300.000", 4, args=copy),
            _slice("w", 32, 5, "1715330000000310.000", 4, args=wait)]  # fmt: skip


def _proton() -> object:
    events = _named(0, "Trace", t1="CPU Thread 1", t1000007="GPU Stream 7")
    for n in range(2):
        at, stack = 100.0 * n, ["ROOT", "mlp"]
        flow = {"cat": "flow", "name": "launch->kernel", "id": n + 1, "pid": 0}
        events += [
            _slice("mlp", 0, 1, at, 50.0, cat="scope", args={"call_stack": stack}),
            flow | {"ph": "s", "tid": 1, "ts": at},
            flow | {"ph": "f", "tid": 1000007, "ts": at + 30},
            _slice(
                "k", 0, 1000007, at + 30, 40.5, cat="kernel", args={"call_stack": [*stack, "k"]}
            ),
        ]
    return {"displayTimeUnit": "us", "traceEvents": events}


def _proton_of_streams() -> str:
    lines = []
    for stream in range(2):
        stack = {"call_stack": ["ROOT", "mlp", "k"]}
        event = {"ph": "X", "cat": "kernel", "name": "k", "tid": stream, "args": stack}
        events = [event | {"ts": 30.0 + 100 * n + stream, "dur": 40.5} for n in range(2)]
        lines.append(json.dumps({"displayTimeUnit": "us", "traceEvents": events}))
    return "\n".join(lines) + "\n"


def _tree() -> object:
    def node(name: str, *children: object, **metrics: object) -> Event:
        return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}

    kernel = node("k", count=2, **{"time (ns)": 81_000, "flops16": 81e9, "device_id": "0"})
    return [node("ROOT", node("mlp", kernel)), {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}]


def _jax() -> object:
    events = _named(1, "/device:GPU:0", t14="Stream #14(Compute)", t2="XLA Modules", t3="Steps")
    events += _named(701, "/host:CPU", t9="python")
    for n in range(2):
        at, known = 100.0 * n, {"correlation_id": str(n + 1)}
        events += [
            _slice("train", 701, 9, at, 90.0, args={"step_num": str(n)}),
            _slice("cuLaunchKernel", 701, 9, at + 5.125, 10.0, args=dict(known)),
            _slice("jit_step(1)", 1, 2, at + 30, 44.0, args={}),
            _slice(str(n), 1, 3, at + 30, 44.0, args={}),
            _slice("gemm_fusion", 1, 14, at + 30.25, 40.5, args=dict(known)),
        ]
    copy = _slice("MemcpyH2D", 1, 14, 300.0, 4.0, args={"correlation_id": "9"})
    return {"displayTimeUnit": "ns", "traceEvents": [*events, copy, {}]}


def _autograd() -> object:
    events: list[Event] = []
    for n in range(2):
        at, flow = 100 * n, {"name": "aten::mm", "cat": "cpu_to_cuda", "id": n, "args": {}}
        events += [
            _slice("aten::mm", "CPU functions", 1, at, 20, args={}),
            flow | {"ph": "s", "pid": "CPU functions", "tid": 1, "ts": at},
            flow | {"ph": "f", "pid": "CUDA functions", "tid": 0, "ts": at + 30},
            _slice("aten::mm", "CUDA functions", 0, at + 30, 40.5, args={}),
            _slice("aten::inner", "CUDA functions", 0, at + 31, 20, args={}),
        ]
    return events


def _tensorflow() -> object:
    names = ["/device:GPU:0 Compute", "/device:GPU:0/stream:13 Compute",
             "/device:GPU:0/memcpy Compute", "/device:CPU:0 Compute"]  # fmt: skip
    events = [each for pid, name in enumerate(names) for each in _named(pid, name)]
    for n in range(2):
        events += [
            _slice("MatMul", 0, 0, 100 * n, 20, cat="Op", args={"op": "MatMul"}),
            _slice("MatMul", 1, 0, 100 * n + 30, 40.5, cat="Op", args={"op": "MatMul"}),
        ]
    return {"traceEvents": [*events, _slice("MEMCPYHtoD", 2, 0, 300, 4, cat="Op", args={})]}


def _begin_end() -> object:
    def at(phase: str, name: str, ts: float) -> Event:
        return {"ph": phase, "cat": "dynamo_timed", "name": name, "ts": ts, "pid": 0, "tid": 0,
                "args": {"compile_id": "0/0"}}  # fmt: skip

    return [at("B", "frame", 0), at("B", "inner", 1.5), at("E", "inner", 3), at("E", "frame", 9)]


_KINETO = [
    _slice("aten::mm", 50, 51, 0, 20, cat="cpu_op", args={}),
    _slice("cudaLaunchKernel", 50, 51, 5.125, 10, cat="cuda_runtime", args={"correlation": 1}),
    _slice("k", 0, 7, 30.25, 40.5, cat="kernel",
           args={"correlation": 1, "device": 0, "stream": 7}),
]  # fmt: skip


def _viztracer() -> object:
    call = _slice("work (/app/train.py:7)", 50, 51, 20.5, 9, cat="fee")
    return {"traceEvents": [*_KINETO, call], "viztracer_metadata": {"version": "1.0"}}


def _merged() -> object:
    ranks = ("[TP00]", "[TP01]")
    events = [each | {"pid": f"{rank} {each['pid']}"} for rank in ranks for each in _KINETO]
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}] * 2
    return {"distributedInfo": {"rank": 0}, "traceEvents": events, "deviceProperties": devices}


def _fused() -> object:
    return {"traceEvents": [
        each | {"pid": each["pid"] + 1000 * rank,
                "args": each["args"] | {"rank": rank, "pid_raw": each["pid"]}}
        for rank in (0, 1) for each in _KINETO
    ]}  # fmt: skip


_FORMS = {
    "ascend.json": _ascend, "proton.json": _proton, "streams.chrome_trace": _proton_of_streams,
    "tree.hatchet": _tree, "jax.json": _jax, "autograd.json": _autograd,
    "tensorflow.json": _tensorflow, "begin_end.json": _begin_end, "viztracer.json": _viztracer,
    "merged.json": _merged, "fused.json": _fused,
}  # fmt: skip
# By file name.
FORMS: dict[str, bytes] = {
    name: (made if isinstance(made := make(), str) else json.dumps(made)).encode()
    for name, make in _FORMS.items()
}
