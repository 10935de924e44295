"""Layers found by repeating sequences of kernels."""

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import gpu_op, recorded


def in_a_row(names, dur_us=2, gap_us=1, **more):
    """Kernels of these names, one after another."""
    pace = dur_us + gap_us
    return [gpu_op(pace * i, dur_us, name=name, **more) for i, name in enumerate(names)]


LAYER = ["norm", "qkv", "attention", "norm", "up", "gelu", "down"]


def test_a_sequence_that_repeats_back_to_back_is_a_layer(tmp_path):
    events = in_a_row(["embed", *LAYER * 6, "head", "loss"])
    events[1 + 7 * 3]["dur"] = 2.5
    with traces.load(tmp_path, events) as run:
        (row,) = run.ask("repeated_layers")
    assert (row["kernels"], row["length"], row["runs"], row["count"]) == (LAYER, 7, 1, 6)
    assert (row["total_ns"], row["share_of_kernel_time"]) == (84_500, 84.5 / 90.5)
    assert (row["min_ns"], row["p50_ns"], row["max_ns"]) == (20_000, 20_000, 20_000)
    assert row["slow_count"] == 0


def test_layers_of_several_steps_and_streams_are_told_apart(tmp_path):
    step = ["embed", *LAYER * 4, "head", "loss", "sgd"]
    events = in_a_row([*step * 2, *step[:-1]])
    # The third layer of the second step takes 50 us longer.
    late = len(step) + 1 + 2 * len(LAYER) + 3
    for event in events[late:]:
        event["ts"] += 50
    other = in_a_row(["a", "b"] * 6, stream=9)
    with traces.load(tmp_path, [*events, *other]) as run:
        rows = {(row["stream"], row["length"]): row for row in run.ask("repeated_layers")}
        fewer = run.ask("repeated_layers", repeats=5)
    layer = rows[7, 7]
    assert (layer["kernels"], layer["runs"], layer["count"]) == (LAYER, 3, 12)
    assert (layer["p50_ns"], layer["max_ns"]) == (20_000, 70_000)
    assert (layer["slow_count"], layer["slow_ns"], layer["slowest_number"]) == (1, 50_000, 3)
    assert (rows[9, 2]["kernels"], rows[9, 2]["count"]) == (["a", "b"], 6)
    assert [row["stream"] for row in fewer] == [9]


def test_kernels_that_do_not_repeat_are_no_layers(tmp_path):
    names = [f"kernel{i * i % 101}" for i in range(60)]
    with traces.load(tmp_path, in_a_row(names)) as run:
        assert run.ask("repeated_layers") == []


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize(
    ("name", "layers", "length"),
    [
        ("h100-bert-small", 4, 12),
        ("h100-timesformer", 12, 36),
        ("b200-vllm-eager", 18, 42),
        ("mi300x-sglang-graph-decode", 36, 15),
        ("a100-transformer-batch512", 8, 42),
    ],
)
def test_layers_are_those_of_the_recorded_kernels(name, layers, length, shared_database):
    row = shared_database(f"{name}.json.gz").ask("repeated_layers")[0]
    assert (row["runs"], row["count"], row["length"]) == (1, layers, length)
    kernels = [
        e for e in recorded(trace_file(f"{name}.json.gz"))
        if e.get("cat") == "kernel" and e["args"]["stream"] == row["stream"]
    ]  # fmt: skip
    kernels.sort(key=lambda each: each["begin"])
    names = [each["name"] for each in kernels]
    whole = row["kernels"] * layers
    (begin,) = [i for i in range(len(names)) if names[i : i + len(whole)] == whole]
    assert names[begin + len(whole) : begin + len(whole) + length] != row["kernels"]
    repeats = [kernels[begin + i * length :][:length] for i in range(layers)]
    spans = [max(e["end"] for e in each) - each[0]["begin"] for each in repeats]
    assert (row["min_ns"], row["max_ns"]) == (min(spans), max(spans))
    assert row["p50_ns"] == sorted(spans)[layers // 2]
    assert row["slowest_number"] == spans.index(max(spans)) + 1
    assert row["total_ns"] == sum(e["end"] - e["begin"] for each in repeats for e in each)


@pytest.mark.parametrize(
    ("modules", "names", "passes"),
    [
        # Layers repeat inside one pass of a model.
        (["nn.Module: Model_0"], ["embed", *LAYER * 6, "head"], 1),
        (["nn.Module: Model_0"] * 3, ["embed", *LAYER * 6, "head"] * 3, 3),
        ([], ["a", "b", "c", "d"] * 5, 5),
        ([], ["a"] * 90, 0),
        ([], ["a", *["b"] * 2, *["c"] * 3, *["d"] * 4], 0),
    ],
)
def test_passes_are_calls_of_the_outermost_module_or_turns_of_a_loop(
    modules, names, passes, tmp_path
):
    frames = [
        traces.slice_event("python_function", each, 1000 * at, 900)
        for at, each in enumerate(modules)
    ]
    inner = [
        traces.slice_event("python_function", "nn.Module: Layer_0", 1000 * at + 10 * n, 5)
        for at in range(len(modules))
        for n in range(1, 7)
    ]
    with traces.load(tmp_path, [*frames, *inner, *in_a_row(names)]) as run:
        (row,) = run.ask("repetition")
    assert row["passes"] == passes
