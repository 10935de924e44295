"""FLOPs are those that PyTorch's own counter counts for the same calls."""

import pytest

import tracekit

torch = pytest.importorskip("torch", reason="PyTorch counts the FLOPs, and it is not installed")
functional = torch.nn.functional
flop_counter = pytest.importorskip("torch.utils.flop_counter")


def _tensor(*shape):
    return torch.ones(shape, requires_grad=True)


def _convolution(*weight, x=(2, 6, 9, 8), transposed=False, **options):
    run = functional.conv_transpose2d if transposed else functional.conv2d
    return run(_tensor(*x), _tensor(*weight), **options)


CALLS = {
    "mm": lambda: _tensor(5, 7) @ _tensor(7, 3),
    "addmm": lambda: torch.addmm(_tensor(3), _tensor(5, 7), _tensor(7, 3)),
    "linear": lambda: functional.linear(_tensor(2, 5, 7), _tensor(3, 7), _tensor(3)),
    "bmm": lambda: torch.bmm(_tensor(4, 5, 7), _tensor(4, 7, 3)),
    "baddbmm": lambda: torch.baddbmm(_tensor(4, 5, 3), _tensor(4, 5, 7), _tensor(4, 7, 3)),
    "conv2d": lambda: _convolution(4, 6, 3, 2),
    "strided": lambda: _convolution(4, 6, 3, 3, stride=(2, 3), padding=(1, 2), dilation=(2, 1)),
    "grouped": lambda: _convolution(4, 3, 3, 3, groups=2, padding=1),
    "depthwise": lambda: _convolution(6, 1, 3, 3, groups=6),
    "conv1d": lambda: functional.conv1d(_tensor(2, 6, 9), _tensor(4, 6, 3), padding=1),
    "conv3d": lambda: functional.conv3d(_tensor(2, 3, 4, 5, 6), _tensor(4, 3, 2, 2, 2)),
    "transposed": lambda: _convolution(6, 4, 3, 3, transposed=True, stride=2, output_padding=1),
    "transposed in groups": lambda: _convolution(6, 2, 3, 3, transposed=True, groups=2),
}


def _counted(call, is_backward, tmp_path):
    """What PyTorch counts, and what the database has, of the same calls."""
    counter = flop_counter.FlopCounterMode(display=False)
    with counter:
        result = call().sum()
        if is_backward:
            result.backward()
    with torch.profiler.profile(record_shapes=True) as profiler:
        result = call().sum()
        if is_backward:
            result.backward()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    with tracekit.load(path) as run:
        rows = run.fetch("""
            SELECT w.flops FROM operator_work AS w JOIN thread_slice AS s USING (trace_id, event_id)
            WHERE is_matrix AND NOT EXISTS (
                FROM operator_work AS i JOIN thread_slice AS t USING (trace_id, event_id)
                WHERE i.is_matrix AND i.trace_id = w.trace_id AND i.tid = w.tid
                    AND i.event_id <> w.event_id AND i.start_ns >= w.start_ns
                    AND i.end_ns <= w.end_ns AND t.depth > s.depth)
        """)[1]
    return counter.get_total_flops(), sum(flops for (flops,) in rows)


# PyTorch's counter ignores groups in the gradient of the weight, and counts all pairs of channels.
GROUPED = ["grouped", "depthwise", "transposed in groups"]


@pytest.mark.parametrize("name", CALLS)
def test_flops_are_those_of_torchs_counter(name, tmp_path):
    expected, counted = _counted(CALLS[name], False, tmp_path)
    assert expected > 0
    assert counted == expected


@pytest.mark.parametrize("name", [name for name in CALLS if name not in GROUPED])
@pytest.mark.sampled(2)
def test_flops_with_the_backward_pass_are_those_of_torchs_counter(name, tmp_path):
    expected, counted = _counted(CALLS[name], True, tmp_path)
    assert counted == expected


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.sampled(3)
def test_both_gradients_of_a_grouped_convolution_are_as_much_work_as_its_forward(name, tmp_path):
    forward, _ = _counted(CALLS[name], False, tmp_path)
    expected, counted = _counted(CALLS[name], True, tmp_path)
    assert counted == 3 * forward < expected


# The counter has the formulas of fused attention, but does not know the operator of CPUs.
SHAPES = (2, 4, 16, 8), (2, 4, 24, 8), (2, 4, 24, 8)


@pytest.mark.parametrize("is_backward", [False, True], ids=["forward", "with backward"])
def test_flops_of_fused_attention_are_those_of_torchs_formulas(is_backward, tmp_path):
    def call():
        return functional.scaled_dot_product_attention(*(_tensor(*shape) for shape in SHAPES))

    expected = flop_counter.sdpa_flop_count(*SHAPES)
    if is_backward:
        expected += flop_counter.sdpa_backward_flop_count(SHAPES[0], *SHAPES)
    assert _counted(call, is_backward, tmp_path)[1] == expected


def test_causal_attention_counts_only_the_pairs_that_the_mask_leaves(tmp_path):
    # PyTorch's formula ignores the mask. Kernels skip what it hides, so that counting all pairs
    # would make them seem faster than the device: of 16 queries, query n has n keys.
    def call():
        parts = [_tensor(*SHAPES[0]) for _ in range(3)]
        return functional.scaled_dot_product_attention(*parts, is_causal=True)

    every_pair = flop_counter.sdpa_flop_count(*[SHAPES[0]] * 3)
    assert _counted(call, False, tmp_path)[1] == every_pair * (16 + 1) / (2 * 16)
