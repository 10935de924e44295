"""Workloads on a GPU, tested on a CPU: fakes replace PyTorch's CUDA calls."""

from contextlib import contextmanager
from unittest.mock import MagicMock

import pytest
import torch

from tracekit.workloads import mlp, mlp_kernels
from tracekit.workloads.base import TOLERANCE, Shape, Workload, error_of, tolerance
from tracekit.workloads.graphs import captured

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def streams(monkeypatch):
    """The streams that the process was on, the current one last."""
    used = [MagicMock(name="the user's stream")]

    @contextmanager
    def capture(graph):
        used.append(MagicMock(name="the capture's stream"))
        # As in torch.cuda.graph: if the capture fails, nothing goes back to the user's stream.
        yield
        used.append(used[0])

    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: used[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", used.append)
    for name in ("Stream", "stream", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    return used


def test_a_failed_capture_leaves_neither_its_stream_nor_its_gradients(streams):
    old = torch.ones(2, requires_grad=True)
    old.grad = kept = torch.full((2,), 5.0)
    new = torch.ones(2, requires_grad=True)
    calls = []

    def step():
        calls.append(streams[-1])
        if len(streams) > 1:
            new.grad, old.grad = torch.zeros(2), torch.zeros(2)
            raise RuntimeError("operation not permitted when stream is capturing")
        return "answer"

    with pytest.raises(RuntimeError, match="not permitted"):
        captured(step)
    assert len(calls) == 4
    assert streams[-1] is streams[0]
    assert new.grad is None
    assert old.grad is kept


def test_a_capture_that_ends_well_gives_the_answer_of_its_call(streams):
    assert captured(lambda: len(streams))() == 2
    assert streams[-1] is streams[0]


@pytest.mark.parametrize(("device", "is_capturable"), [("cpu", False), ("meta", True)])
def test_the_training_step_can_be_captured_where_graphs_can_be(monkeypatch, device, is_capturable):
    # Building on `meta` needs no GPU, and `meta` is not a CPU either.
    made = []
    adam = torch.optim.AdamW
    monkeypatch.setattr(
        torch.optim, "AdamW", lambda *given, **named: made.append(adam(*given, **named)) or made[0]
    )
    mlp.train_step(Shape(1, 2, 4, 8, torch.float32, torch.device(device)))
    assert made[0].defaults["capturable"] is is_capturable


def in_tf32(x: torch.Tensor) -> torch.Tensor:
    """`x` rounded to the 10 bits of TF32."""
    return ((x.view(torch.int32) + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)


def test_the_float32_limit_holds_for_tf32_only_where_it_is_allowed(monkeypatch):
    assert tolerance(torch.float32, CUDA) == tolerance(torch.float32, CPU) == 1e-4
    torch.manual_seed(0)
    a, b = torch.randn(256, 768), torch.randn(768, 256) * 768**-0.5
    seen = []

    def reference():
        seen.append(torch.get_float32_matmul_precision())
        return a @ b

    torch.set_float32_matmul_precision("high")
    try:
        error, _ = error_of(Workload(lambda: in_tf32(a) @ in_tf32(b), reference, ""), torch.float32)
        assert torch.get_float32_matmul_precision() == "high"
        assert TOLERANCE[torch.float32] < error < tolerance(torch.float32, CUDA)
        assert tolerance(torch.float32, CPU) == TOLERANCE[torch.float32]
        assert tolerance(torch.bfloat16, CUDA) == TOLERANCE[torch.bfloat16]
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == ["highest"]


def test_a_gpu_never_runs_an_interpreted_kernel(monkeypatch):
    from triton import knobs

    shape = Shape(1, 2, 4, 8, torch.float32, CUDA)
    monkeypatch.setattr(knobs.runtime, "interpret", True)
    assert "the interpreter computes on the host" in (mlp_kernels.why_not(shape) or "")
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    assert mlp_kernels.why_not(shape) is None
