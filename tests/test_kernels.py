"""The Triton kernel in Triton's interpreter, against float64."""

import pytest
import torch

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, error_of
from tracekit.workloads.kernels.geglu import geglu

# Half a unit in the last place of the largest result, and float32 arithmetic before it. The
# interpreter rounds bfloat16 toward zero: a whole unit there.
LIMIT = {torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
SHAPES = [(1, 1), (3, 5), (2, 3, 1), (1, 1024), (2, 1025), (4, 7, 300), (0, 8)]


def check(gate: torch.Tensor, up: torch.Tensor) -> None:
    expected = mlp.geglu(gate.double(), up.double())
    actual = geglu(gate, up)
    assert actual.shape == expected.shape
    assert actual.dtype == gate.dtype
    if expected.numel():
        error = (actual.double() - expected).abs().max() / expected.abs().max()
        assert error <= LIMIT[gate.dtype]


@pytest.mark.parametrize("dtype", LIMIT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_geglu_is_exact_to_the_dtype_in_any_shape(shape, dtype):
    torch.manual_seed(0)
    check(torch.randn(shape).to(dtype), torch.randn(shape).to(dtype))


def test_geglu_reads_the_halves_of_a_packed_projection():
    check(*torch.randn(6, 66).chunk(2, dim=-1))


def test_geglu_reads_transposed_and_expanded_inputs():
    packed = torch.randn(8, 6)
    check(packed.t()[:3], packed.t()[3:])
    check(torch.randn(1, 5).expand(4, 5), torch.randn(4, 5))


def test_geglu_holds_at_extreme_values():
    gate = torch.tensor([[-1e4, -40.0, -0.0, 40.0, 1e4]])
    check(gate, torch.ones_like(gate))


@pytest.mark.parametrize(
    ("gate", "up"),
    [
        (torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64)),
        (torch.ones(2, 2), torch.ones(2, 3)),
        (torch.ones(2, 2), torch.ones(2, 2).half()),
    ],
)
def test_geglu_refuses_what_it_does_not_compute(gate, up):
    with pytest.raises(ValueError):
        geglu(gate, up)


@pytest.mark.parametrize("name", ["matmul_add", "linear", "mlp_eager", "mlp_triton"])
@pytest.mark.parametrize("dtype", LIMIT, ids=str)
def test_every_workload_agrees_with_its_reference(name, dtype):
    import importlib

    shape = Shape(2, 3, 20, 35, dtype, torch.device("cpu"))
    workload = importlib.import_module(f"tracekit.workloads.{name}").build(shape)
    error, limit = error_of(workload, dtype)
    assert error <= limit
    if name == "mlp_triton":
        assert workload.variant == "triton"
