"""XLA profiles: copies of TPUs between the memories of host and device."""

import json

import pytest

import tracekit
from tests.kit.xplane_made import plane, profile

# What a TPU does, and the copy that it is.
HLO = {
    "%copy-start.1 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(%p.1)": "DtoH",
    "%copy-done.1 = f32[8]{0:S(5)} copy-done(%copy-start.1)": "DtoH",
    # The end does not tell from where it copied: the start does.
    "%copy-done.2 = f32[8]{0:T(128)} copy-done(%copy-start.2)": "HtoD",
    "%copy-start.2 = (f32[8]{0:T(128)}, f32[8]{0:T(128)S(5)}, u32[]{:S(2)}) copy-start(%q)": "HtoD",
    # Its start was not recorded, but some versions print the operand's layouts.
    "%copy-done.3 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0:S(5)}, u32[]) %copy-start.3)": "HtoD",
    "%copy.5 = f32[8]{0:S(5)} copy(f32[8]{0} %x)": "DtoH",
    # Within the device's memory, or the host's.
    "%copy-done.4 = f32[8]{0:T(128)S(1)} copy-done(%copy-start.4)": None,
    "%copy-start.4 = (f32[8]{0:T(128)S(1)}, f32[8]{0:T(128)}, u32[]) copy-start(%r)": None,
    "%copy.6 = f32[8]{0:S(5)} copy(f32[8]{0:S(5)} %y)": None,
    "%copy-done.7 = f32[8]{0} copy-done(%copy-start.7)": None,
    # No copies, though one is an operand.
    "%fusion.8 = f32[8]{0} fusion(f32[8]{0:S(5)} %copy-done.9), kind=kLoop": None,
    "%custom-call.9 = (f32[8]{0:S(5)}, f32[8]{0}) custom-call(%copy(%z))": None,
}  # fmt: skip
NAMES = {each: each[1:].partition(" ")[0] for each in HLO}
EXPECTED = sorted(
    ("memcpy", f"Memcpy {way} ({NAMES[each]})", way) if way else ("kernel", NAMES[each], None)
    for each, way in HLO.items()
)
OPS = [(each, 1_000 * at, 500) for at, each in enumerate(HLO)]
TPU = profile(plane("/device:TPU:0", {"XLA Ops": OPS, "Async XLA Ops": OPS[:1]}))
ASKED = "SELECT kind, name, copy_kind FROM gpu_ops ORDER BY ALL"


def test_copies_between_host_and_device_have_their_direction(tmp_path):
    (tmp_path / "t.xplane.pb").write_bytes(TPU)
    with tracekit.load(tmp_path / "t.xplane.pb", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == EXPECTED
        (window,) = run.ask("partition", kind="gpu_active")
        kinds = run.fetch("SELECT kind, name FROM slices WHERE kind = 'gpu_annotation'")[1]
        (full,) = run.fetch(
            "SELECT args->>'full name' FROM event WHERE name = 'Memcpy HtoD (copy-done.2)'"
        )[1]
    assert window["exposed_memcpy_ns"] == 6 * 500 and window["compute_ns"] == 6 * 500
    # The line of asynchronous operations repeats what the copies' start and end show.
    assert kinds == [("gpu_annotation", "copy-start.1")]
    assert full == ("%copy-done.2 = f32[8]{0:T(128)} copy-done(%copy-start.2)",)


def test_a_chrome_trace_of_the_same_run_has_the_same_copies(tmp_path):
    lanes = [
        {"ph": "M", "name": kind, "pid": 1, "tid": 1, "args": {"name": name}}
        for kind, name in (("process_name", "/device:TPU:0"), ("thread_name", "XLA Ops"))
    ]
    # Events are in the order of their times: a copy's start is before its end.
    texts = sorted(HLO, key=lambda text: "copy-start(" not in text)
    ops = [
        {"ph": "X", "name": NAMES[each], "pid": 1, "tid": 1, "ts": at, "dur": 0.5,
         "args": {"long_name": each}}
        for at, each in enumerate(texts)
    ]  # fmt: skip
    (tmp_path / "t.trace.json").write_text(json.dumps({"traceEvents": [*lanes, *ops]}))
    with tracekit.load(tmp_path / "t.trace.json", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == EXPECTED


@pytest.mark.parametrize("text", ["%a = (" + "f32[8]{0}, " * 20_000, "%a = " + "x " * 100_000])
def test_long_texts_that_are_no_copies_take_no_time(text, tmp_path):
    (tmp_path / "t.trace.json").write_text(
        json.dumps(
            [
                {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}},
                {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "XLA Ops"}},
                {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 1,
                 "args": {"long_name": text}},
            ]
        )
    )  # fmt: skip
    with tracekit.load(tmp_path / "t.trace.json", verdicts=False) as run:
        assert run.fetch(ASKED)[1] == [("kernel", "a", None)]
