"""Devices that are not read, and ranks merged into one file: no verdict, and the reason first."""

import pytest

from tests.kit.traces import Together, frame, gpu_op, launch, operator, slice_event, step
from tests.reporters.test_screens import screen

TRACES = Together()
FLOAT = ["float", "float"]
# Products back to back: alone, they would be judged as a program that computes on the CPU.
WORK = [
    step(1, 0, 30_000),
    *(operator("aten::mm", i * 1000.0, 900.0, [[999, 999]] * 2, FLOAT) for i in range(30)),
]


def named(kind, name, pid, tid=0):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def lane(pid=7, tid=2, category=None, count=30):
    """Slices beside the host's, without a category unless it is given."""
    slices = [slice_event("", f"MulAiCore{i % 3}", i * 1000.0 + 300, 8.0) for i in range(count)]
    return [
        {key: value for key, value in each.items() if key != "cat"}
        | {"pid": pid, "tid": tid, "args": {}}
        | ({"cat": category} if category else {})
        for each in slices
    ]


def flows(category):
    return [
        {"ph": phase, "cat": category, "name": "x", "id": i, "pid": pid, "tid": tid,
         "ts": i * 1000.0 + 300}
        for i in range(30) for phase, pid, tid in (("s", 100, 100), ("f", 7, 2))
    ]  # fmt: skip


UNREAD = {
    "a process named like hardware": [named("process_name", "Acme Hardware", 7), *lane()],
    "a thread named like a stream": [named("thread_name", "Stream #14(Compute)", 7, 2), *lane()],
    "a process named like a device": [named("process_name", "/device:TPU:0", 7), *lane()],
    "a text in place of its number": lane("GPU functions", 0),
    "an unknown category": [named("thread_name", "GPU 1", 7, 2), *lane(category="task")],
    "the target of launches": [*lane(), *flows("HostToDevice")],
}
READ = {
    "a thread of the host": [named("thread_name", "worker", 7, 2), *lane()],
    "a host in JAX's words": [named("process_name", "/host:CPU", 7), *lane()],
    "a device that is the host": [named("process_name", "/device:CPU:0", 7), *lane()],
    "flows between threads": [*lane(), *flows("queue")],
    "ranges of the user": [named("thread_name", "GPU feeder", 7, 2),
                           *lane(category="user_annotation")],
    "Python on a thread named so": [
        named("thread_name", "GPU feeder", 100, 100),
        *(frame(f"a.py({i}): f", i * 1000.0, 950) for i in range(30)),
    ],
    "a few slices": [named("thread_name", "GPU 1", 7, 2), *lane(count=3)],
}  # fmt: skip
UNREAD_IDS = {title: TRACES.events([*WORK, *more]) for title, more in UNREAD.items()}
READ_IDS = {title: TRACES.events([*WORK, *more]) for title, more in READ.items()}


def codes(analysis):
    return {each.code for each in analysis.trace.health}


@pytest.mark.parametrize("title", UNREAD)
def test_slices_that_look_like_a_device_s_forbid_a_verdict(title, analyses, capsys, monkeypatch):
    analysis = analyses[UNREAD_IDS[title]]
    assert "look like a device's, in a form not read yet" in analysis.verdict.headline
    judged = [analysis.verdict, *analysis.windows, *analysis.steps]
    assert {each.regime for each in judged} == {"unknown"}
    assert analysis.host is None or analysis.host.device_evidence == "slices that are not read"
    said = " ".join(screen(analysis, capsys, monkeypatch))
    assert "a device that is not read" in said and "CPU only" not in said
    assert "no_gpu_ops" not in codes(analysis)


@pytest.mark.parametrize("title", READ)
def test_a_host_s_slices_are_not_taken_for_a_device_s(title, analyses):
    analysis = analyses[READ_IDS[title]]
    assert analysis.verdict.regime == "compute-bound" and "unread_device" not in codes(analysis)


BESIDE = TRACES.events(
    [named("thread_name", "Stream 9", 7, 2), *lane(category="graph_host_node"), *WORK]
    + [each for i in range(30) for each in (launch(i * 1000.0, 5, i + 1),
                                            gpu_op(i * 1000.0 + 10, 900, i + 1))]
)  # fmt: skip


def test_a_trace_with_known_gpu_ops_is_judged(analyses):
    assert analyses[BESIDE].verdict.regime != "unknown"
    assert "unread_device" not in codes(analyses[BESIDE])


# Two ranks that number their launches alike, as merging tools write them.
def rank(pid, device):
    events = []
    for i in range(1, 31):
        events += [
            launch(i * 1000.0, 5, i) | {"pid": pid},
            gpu_op(i * 1000.0 + 10, 900, i, device=0) | {"pid": device},
        ]
    return events


MERGED = {
    "prefixed": TRACES.events([*rank("node1: 4000", "node1: 0"), *rank("node2: 4001", "node2: 0")]),
    "numbers": TRACES.events([*rank(4000, 0), *rank(4001, 1)]),
}


@pytest.mark.parametrize("title", MERGED)
def test_ranks_in_one_file_are_called_so_and_miss_nothing(title, analyses, capsys, monkeypatch):
    analysis = analyses[MERGED[title]]
    assert analysis.verdict.headline.startswith(
        "The recordings of 2 processes are merged into this file ("
        + {"prefixed": "node1: 4000 to node2: 4001", "numbers": "process 4000 to"}[title]
    )
    assert analysis.verdict.regime == "unknown" and len(analysis.verdict.why) == 1
    assert codes(analysis).isdisjoint({"lost_kernels", "dropped_at_start", "dropped_at_end"})
    assert not any("no launch in the trace" in each.message for each in analysis.trace.health)
    said = screen(analysis, capsys, monkeypatch)
    assert not any(line.startswith("Where the") for line in said)
