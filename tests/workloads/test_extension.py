"""The C++ operator of mlp-cpp, and the peer that mlp-liger calls, against the eager MLP.

The operator is compiled once, into PyTorch's extension cache, for 8 seconds: by `make test-all`. On
a GPU where TRACEKIT_TEST_DEVICE=cuda.
"""

import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

import tracekit
from tests.capture.test_capture import SMALL, STEPS
from tests.conftest import TEST_DEVICE
from tests.workloads.test_kernels import close
from tracekit.workloads import mlp, mlp_kernels
from tracekit.workloads.base import TOLERANCE, Shape, error_of
from tracekit.workloads.kernels import extension
from tracekit.workloads.kernels.extension import why_not

DEVICE = torch.device(TEST_DEVICE)
# Both workers would compile the extension.
pytestmark = pytest.mark.xdist_group("extension")
compiled = pytest.mark.thorough
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
every_activation = pytest.mark.parametrize("activation", mlp.ACTIVATIONS)


@pytest.fixture(scope="session")
def gated_mlp():
    reason = why_not(DEVICE)
    if reason is not None and DEVICE.type == "cuda":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    return torch.ops.tracekit.gated_mlp


@pytest.fixture(autouse=True)
def on_the_device():
    with DEVICE:
        yield


def tensors(dtype: torch.dtype, rows: int, dim: int, hidden: int) -> list[torch.Tensor]:
    """x, the packed gate and up, and down."""
    torch.manual_seed(0)
    return [
        (torch.randn(a, b) * scale).to(dtype)
        for a, b, scale in (
            (rows, dim, 1),
            (2 * hidden, dim, dim**-0.5),
            (dim, hidden, hidden**-0.5),
        )
    ]


def exact(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, name: str) -> torch.Tensor:
    """The same answer in float64."""
    gate, up = (x.double() @ gate_up.double().t()).chunk(2, dim=-1)
    return (mlp.ACTIVATIONS[name](gate) * up) @ down.double().t()


@compiled
@every_dtype
@every_activation
def test_the_operator_agrees_with_eager(activation, dtype, gated_mlp):
    for rows, dim, hidden in ((1, 1, 1), (3, 5, 7), (17, 20, 35), (9, 16, 24), (64, 33, 136)):
        given = tensors(dtype, rows, dim, hidden)
        out = gated_mlp(*given, activation)
        assert out.dtype == dtype
        close(out, exact(*given, activation), TOLERANCE[dtype])


@compiled
def test_no_rows_more_axes_and_any_strides_are_read(gated_mlp):
    x, gate_up, down = tensors(torch.float32, 6, 10, 12)
    expected = exact(x, gate_up, down, "gelu")
    apart = torch.randn(6, 30)[:, ::3].copy_(x)
    turned = [each.t().contiguous().t() for each in (x, gate_up, down)]
    for given, answer in (
        ((x[:0], gate_up, down), torch.empty(0, 10).double()),
        ((x.view(2, 3, 10), gate_up, down), expected.view(2, 3, 10)),
        ((x[0], gate_up, down), expected[0]),
        ((apart, gate_up, down), expected),
        (turned, expected),
        ((x[:1].expand(6, 10), gate_up, down), expected[:1].expand(6, 10)),
    ):
        close(gated_mlp(*given, "gelu"), answer, TOLERANCE[torch.float32])


@compiled
def test_the_compiler_takes_the_operator_as_it_is(gated_mlp):
    x, gate_up, down = tensors(torch.float32, 17, 20, 35)

    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def compiled(x):
        return gated_mlp(x + 1, gate_up, down, "relu") * 2

    for rows in (17, 5):
        found = compiled(x[:rows])
        close(found, 2 * exact(x[:rows] + 1, gate_up, down, "relu"), TOLERANCE[torch.float32])


@compiled
def test_packed_rows_that_begin_anywhere_are_multiplied(gated_mlp):
    memory = torch.randn(1 + 5 * 32)
    packed = memory[1:].view(5, 32)
    gate, up = packed.double().chunk(2, dim=-1)
    found = torch.ops.tracekit.act_mul(packed, "relu")
    assert found.is_contiguous()
    close(found, torch.relu(gate) * up, TOLERANCE[torch.float32])


@compiled
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, gate_up, down: (x.double(), gate_up, down, "relu"), "float16 and bfloat16"),
        (lambda x, gate_up, down: (x, gate_up.half(), down, "relu"), "in one dtype"),
        (lambda x, gate_up, down: (x, gate_up, down.to("meta"), "relu"), "on one device"),
        (lambda x, gate_up, down: (x[:, 1:], gate_up, down, "relu"), r"takes x \(\.\.\., dim\)"),
        (lambda x, gate_up, down: (x, gate_up[1:], down, "relu"), "2 \\* hidden"),
        (lambda x, gate_up, down: (x, gate_up, down.t(), "relu"), "2 \\* hidden"),
        (lambda x, gate_up, down: (x, gate_up, down, "tanh"), "no activation 'tanh'"),
    ],
)
def test_unsupported_inputs_are_refused_with_a_reason(change, message, gated_mlp):
    with pytest.raises(ValueError, match=message):
        gated_mlp(*change(*tensors(torch.float32, 3, 4, 8)))


@compiled
@every_dtype
@every_activation
def test_the_workload_runs_the_operator(activation, dtype, gated_mlp):
    shape = Shape(2, 3, 20, 35, dtype, DEVICE, activation)
    workload = mlp_kernels.cpp(shape)
    assert (workload.variant, workload.note) == ("cpp", None)
    error, limit = error_of(workload, dtype)
    assert error <= limit


@compiled
def test_a_trace_names_the_operator(run, tmp_path, gated_mlp):
    done = run("capture", "mlp-cpp", *SMALL, *STEPS)
    assert done.returncode == 0, done.stderr
    with tracekit.load(tmp_path / "mlp-cpp.json.gz") as database:
        _, rows = database.fetch("SELECT name, count(*) // 3 FROM cpu_ops GROUP BY name")
    calls = dict(rows)
    assert calls["tracekit::gated_mlp"] == calls["tracekit::act_mul"] == 1
    assert calls["aten::mm"] == 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "environment", "said"),
    [
        ("mlp-cpp", {"PATH": "/nonexistent", "CXX": "c++"},
         ["there is no C++ compiler (c++): act and mul run in PyTorch, in place"]),
        ("mlp-liger", {}, ["liger-kernel", "instead of in one Liger kernel"]),
    ],
)  # fmt: skip
def test_what_cannot_run_says_what_runs_instead(name, environment, said, run):
    done = run("capture", name, *SMALL, *STEPS, **environment)
    assert done.returncode == 0, done.stderr
    assert all(each in done.stderr for each in said)
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("ninja"), reason="ninja is not on the PATH")
def test_a_build_that_fails_is_reported_in_one_line(run, tmp_path):
    compiler = tmp_path / "c++"
    # PyTorch first asks the compiler for its version.
    script = "[ $# -gt 1 ] || exec echo 13\necho 'mlp.cpp:1:1: fatal error: no headers'\nexit 1\n"
    compiler.write_text(f"#!/bin/sh\n{script}")
    compiler.chmod(0o755)
    # PyTorch's lock of a build that was killed.
    version = f"py{sys.version_info.major}{sys.version_info.minor}-torch{torch.__version__}"
    folder = tmp_path / "cache" / "tracekit" / version
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    settings = {"CXX": str(compiler), "TORCH_EXTENSIONS_DIR": str(tmp_path / "cache")}
    done = run("capture", "mlp-cpp", *SMALL, *STEPS, **settings)
    assert done.returncode == 0, done.stderr
    assert "the C++ operator does not build (mlp.cpp:1:1: fatal error: no headers)" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_cuda_toolkit_is_where_the_compiler_behind_a_wrapper_is(tmp_path, monkeypatch):
    wrapper, home = tmp_path / "wrapped" / "bin" / "nvcc", tmp_path / "cuda"
    for folder in (wrapper.parent, home / "bin", home / "lib64"):
        folder.mkdir(parents=True)
    wrapper.write_text(f"#!/bin/sh\necho '#$ _SPACE_= ' >&2\necho '#$ TOP={home}/bin/..' >&2\n")
    wrapper.chmod(0o755)
    seen = SimpleNamespace(CUDA_HOME=str(wrapper.parents[1]))
    monkeypatch.setattr(extension, "_cpp_extension", lambda: seen)
    monkeypatch.setattr(extension, "_loaded", lambda with_cuda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert why_not(torch.device("cuda")) == (
        f"the CUDA toolkit in {home} has no libcudart: set CUDA_HOME"
    )
    (home / "lib64" / "libcudart.so").touch()
    assert why_not(torch.device("cuda")) is None
    assert vars(seen) == {"CUDA_HOME": str(home)}


@every_dtype
@pytest.mark.parametrize("activation", mlp_kernels.LIGER_FUNCTIONS)
def test_liger_gives_the_same_answer(activation, dtype):
    shape = Shape(2, 3, 20, 35, dtype, DEVICE, activation)
    workload = mlp_kernels.liger(shape)
    error, limit = error_of(workload, dtype)
    assert error <= limit
    if workload.note is not None:
        pytest.skip(workload.note)
    assert workload.variant == "liger"
