"""The Triton kernels and every variant of the MLP against float64.

They run in Triton's interpreter, or with TRACEKIT_TEST_DEVICE=cuda on a GPU.
"""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import triton
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.conftest import TEST_DEVICE
from tests.kit.processes import ran
from tests.kit.sampling import sample
from tracekit.capture.workload import Options, parameters_of
from tracekit.workloads import WORKLOADS, attention, mlp, mlp_kernels
from tracekit.workloads.base import Shape, Workload, error_of
from tracekit.workloads.kernels import gate_up as gate_up_module
from tracekit.workloads.kernels import tuning
from tracekit.workloads.kernels.activations import exact
from tracekit.workloads.kernels.block import MOST_ROWS, Workspace, block
from tracekit.workloads.kernels.gate_up import gate_up
from tracekit.workloads.kernels.glu import glu, glu_over_gate

# Half a unit in the last place of the largest result, and float32 arithmetic before it. The
# interpreter rounds bfloat16 toward zero: a whole unit there.
LIMIT = {torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
# Gradients are rounded to the dtype several times.
GRADIENT_LIMIT = {torch.float32: 2e-6, torch.float16: 2**-9, torch.bfloat16: 2**-6}
# The last has more blocks than the interpreter has programs, so each takes several.
SHAPES = [(1, 1), (3, 5), (2, 3, 1), (1, 1024), (2, 1025), (4, 7, 300), (0, 8), (17, 2100)]
NAMES = list(mlp.ACTIVATIONS)
every_dtype = pytest.mark.parametrize("dtype", LIMIT, ids=str)
every_activation = pytest.mark.parametrize(
    "activation", sample("activations of each kernel", NAMES, NAMES[:2])
)
DEVICE = torch.device(TEST_DEVICE)
needs_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="needs TRACEKIT_TEST_DEVICE=cuda")


@pytest.fixture(autouse=True)
def on_the_device():
    """Makes tensors on the device where the kernels run, the same in each run."""
    torch.manual_seed(0)
    with DEVICE:
        yield


def close(actual: torch.Tensor, expected: torch.Tensor, limit: float) -> None:
    assert actual.shape == expected.shape
    if expected.numel():
        error = (actual.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
        assert error <= limit


def check(fused, unfused, inputs: list[torch.Tensor]) -> None:
    """Compares answer and gradients with float64."""
    dtype = inputs[0].dtype
    ours = [each.detach().requires_grad_() for each in inputs]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    actual, expected = fused(*ours), unfused(*exact)
    assert actual.dtype == dtype
    close(actual, expected, LIMIT[dtype])
    torch.manual_seed(1)
    grad = torch.randn(expected.shape).to(dtype)
    found = torch.autograd.grad(actual, ours, grad)
    for a, b in zip(found, torch.autograd.grad(expected, exact, grad.double()), strict=True):
        close(a, b, GRADIENT_LIMIT[dtype])


def weights(dtype: torch.dtype, hidden: int, dim: int) -> list[torch.Tensor]:
    return [
        (torch.randn(rows, columns) * columns**-0.5).to(dtype)
        for rows, columns in ((hidden, dim), (hidden, dim), (dim, hidden))
    ]


def gelu_of_products(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """What `gate_up` computes by default, in float64."""
    gelu = mlp.ACTIVATIONS["gelu-tanh"]
    return gelu(x.double() @ gate.double().T) * (x.double() @ up.double().T)


@every_dtype
@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_glu_is_exact_to_the_dtype_in_any_shape(shape, dtype):
    gelu = mlp.ACTIVATIONS["gelu-tanh"]
    inputs = [torch.randn(shape).to(dtype) for _ in range(2)]
    check(glu, lambda gate, up: gelu(gate) * up, inputs)


@every_dtype
@every_activation
@pytest.mark.sampled(5)
def test_every_activation_is_computed_with_its_gradients(activation, dtype):
    act = mlp.ACTIVATIONS[activation]
    x = torch.randn(3, 7, 37).to(dtype)
    gate, up, down = weights(dtype, 70, 37)

    check(
        lambda gate, up: glu(gate, up, activation),
        lambda gate, up: act(gate) * up,
        [torch.randn(5, 33).to(dtype) for _ in range(2)],
    )
    check(
        lambda *given: gate_up(*given, activation),
        lambda x, gate, up: act(x @ gate.T) * (x @ up.T),
        [x, gate, up],
    )
    check(
        lambda *given: block(*given, activation),
        lambda x, gate, up, down: (act(x @ gate.T) * (x @ up.T)) @ down.T,
        [x, gate, up, down],
    )


# 131 rows reach the tiles of 64 rows and more.
@every_dtype
@pytest.mark.sampled(20)
@pytest.mark.parametrize("rows", [1, 15, 17, 64, 131])
@pytest.mark.parametrize(("hidden", "dim"), [(1, 1), (33, 65), (64, 64), (130, 70)])
def test_products_hold_for_any_size_of_rows_and_features(rows, hidden, dim, dtype):
    x, (gate, up, down) = torch.randn(rows, dim).to(dtype), weights(dtype, hidden, dim)
    inner, limit = gelu_of_products(x, gate, up), max(LIMIT[dtype], 2e-6)
    close(gate_up(x, gate, up), inner, limit)
    if rows <= MOST_ROWS:
        close(block(x, gate, up, down), inner @ down.double().T, limit)


@needs_gpu
def test_many_programs_add_to_one_result_in_each_call():
    x, (gate, up, down) = torch.randn(64, 768).half(), weights(torch.float16, 3072, 768)
    expected = gelu_of_products(x, gate, up) @ down.double().T
    workspace = Workspace.zeros(768, DEVICE)
    for _ in range(20):
        close(block(x, gate, up, down, workspace=workspace), expected, LIMIT[torch.float16])


def test_kernels_read_any_strides():
    gelu = mlp.ACTIVATIONS["gelu-tanh"]
    packed = torch.randn(8, 6)
    for gate, up in (packed.chunk(2, dim=-1), (packed.t()[:3], packed.t()[3:])):
        check(glu, lambda gate, up: gelu(gate) * up, [gate, up])
    x, (gate, up, _) = torch.randn(6, 9).t(), weights(torch.float32, 12, 6)
    inner = gelu_of_products(x, gate, up)
    close(gate_up(x, gate, up), inner, 2e-6)
    close(gate_up(x, gate.t().contiguous().t(), up), inner, 2e-6)
    close(glu(torch.randn(1, 5).expand(4, 5), torch.zeros(4, 5)), torch.zeros(4, 5).double(), 0)


@every_dtype
@pytest.mark.sampled(4)
@pytest.mark.parametrize("tile", gate_up_module._CONFIGS, ids=str)
def test_every_tile_of_the_search_gives_the_same_answer(tile, dtype):
    x, (gate, up, _) = torch.randn(131, 70).to(dtype), weights(dtype, 133, 70)
    out = torch.full((131, 133), torch.nan, dtype=dtype)
    sizes = tile.all_kwargs()
    programs = triton.cdiv(131, sizes["ROWS"]) * triton.cdiv(133, sizes["HIDDEN"])
    with skipped_where_there_is_no_room():
        gate_up_module._gate_up_gemm_kernel[(programs,)](
            x, gate, up, out, 131, 133, 70, 70, 70, 70,
            ACTIVATION="gelu-tanh", EXACT=exact(x), **sizes,
        )  # fmt: skip
    close(out, gelu_of_products(x, gate, up), max(LIMIT[dtype], 2e-6))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile", gate_up_module._DESCRIPTOR_CONFIGS, ids=str)
def test_every_tile_read_by_descriptors_gives_the_same_answer(tile):
    if DEVICE.type == "cuda" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("descriptors are for compute capability 9.0 and later")
    x, (gate, up, _) = torch.randn(131, 72).half(), weights(torch.float16, 136, 72)
    out = torch.full((131, 136), torch.nan, dtype=torch.float16)
    with skipped_where_there_is_no_room():
        gate_up_module._launch_described(tile.all_kwargs(), x, gate, up, out, "gelu-tanh")
    close(out, gelu_of_products(x, gate, up), LIMIT[torch.float16])


@contextmanager
def skipped_where_there_is_no_room():
    """The search skips such a tile, too."""
    try:
        yield
    except triton.OutOfResources as error:
        pytest.skip(str(error))


def test_tiles_are_timed_once_per_size_and_the_fastest_is_kept(monkeypatch):
    timed = []

    def fastest(calls):
        timed.append(list(calls))
        return timed[-1][0]

    monkeypatch.setattr(gate_up_module, "fastest", fastest)
    monkeypatch.setattr(gate_up_module, "_CHOSEN", {})
    gate, up, _ = weights(torch.float32, 4, 3)
    for rows in (9, 16, 17, 10):
        gate_up(torch.randn(rows, 3), gate, up)
    assert len(timed) == 2
    first = timed[0][0]
    assert [first, timed[1][0]] == list(gate_up_module._CHOSEN.values())
    # 17 rows have larger tiles to choose from.
    assert len(timed[0]) < len(timed[1])


def test_a_kernel_that_the_device_has_no_room_for_is_not_chosen(monkeypatch):
    us = {"slow": 3.0, "fast": 1.0, "middle": 2.0}

    def do_bench(call, **_):
        if call == "too large":
            raise triton.OutOfResources(1, 1, "shared memory")
        return us[call]

    monkeypatch.setattr(tuning, "do_bench", do_bench)
    monkeypatch.setattr(tuning, "INTERPRETED", False)
    assert tuning.fastest({each: each for each in ("too large", *us)}) == "fast"


def test_rows_may_be_so_far_apart_that_32_bits_do_not_count_the_elements():
    far = 2**30
    try:
        wide = torch.empty(2 * far + 8, dtype=torch.float16)
    except RuntimeError:
        pytest.skip("no 4 GB of memory to point into")
    x = wide.as_strided((3, 8), (far, 1))
    x.copy_(torch.randn(3, 8))
    near, (gate, up, down) = x.clone(), weights(torch.float16, 12, 8)
    # Equal up to half precision's last bit, since the block adds in any order.
    limit = LIMIT[torch.float16]
    close(glu(x, near), glu(near, near).double(), 0)
    close(gate_up(x, gate, up), gate_up(near, gate, up).double(), 0)
    close(block(x, gate, up, down), block(near, gate, up, down).double(), limit)
    tall = wide.as_strided((3, 8), (far, 1))
    tall.copy_(down[:3, :8])
    close(
        block(near[:, :3], gate[:8, :3], up[:8, :3], tall),
        block(near[:, :3], gate[:8, :3], up[:8, :3], down[:3, :8]).double(),
        limit,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_and_tile_compiles_for_a_device_that_is_not_here(capability):
    script = Path(__file__).parents[1] / "bench" / "compile_kernels.py"
    done = ran("python", script, str(capability), TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    products = {"_gate_up_gemm_kernel", "_gated_mlp_gemm_kernel"}
    products |= {"_gate_up_descriptor_gemm_kernel"} if capability == 90 else set()
    assert {each["kernel"] for each in compiled} == products | {"_glu_forward_kernel"}
    # The most shared memory that a block may have:
    # https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
    most = {80: 163, 90: 227}[capability] * 1024
    for each in compiled:
        assert each["shared_bytes"] <= most, each
        # Half-precision products run on tensor cores, and keep their sums in registers.
        half = each["dtype"] != "fp32"
        assert (each["tensor_core"] > 0) == (each["kernel"] in products and half), each
        assert each["spilled_bytes"] == 0 or not half, each


def test_the_result_may_take_the_memory_of_gate():
    gate, up = torch.randn(17, 2100), torch.randn(17, 4200)[:, ::2]
    expected = glu(gate, up)
    assert glu_over_gate(gate, up).data_ptr() == gate.data_ptr()
    assert torch.equal(gate, expected)


def test_a_workspace_is_clear_again_after_each_call():
    gate, up, down = weights(torch.float32, 130, 70)
    workspace = Workspace.zeros(70, DEVICE)
    for rows in (1, 64, 17):
        x = torch.randn(rows, 70)
        found = block(x, gate, up, down, workspace=workspace)
        close(found, gelu_of_products(x, gate, up) @ down.double().T, 2e-6)
        assert not workspace.sums.any() and not workspace.finished.any()
    with pytest.raises(ValueError, match="workspace is for fewer features"):
        block(*(torch.ones(3, 71) for _ in range(3)), torch.ones(71, 3), workspace=workspace)


def test_a_trace_has_the_operators_with_their_shapes_and_the_compiler_takes_them():
    x, (gate, up, down) = torch.randn(2, 3, 20), weights(torch.float32, 35, 20)

    def every(x, gate, up, down):
        inner = gate_up(x, gate, up)
        return glu(inner, inner), block(x, gate, up, down)

    # https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
    fake = FakeTensorMode()
    with fake:
        copies = (fake.from_tensor(each) for each in (x, gate, up, down))
        sizes = [out.shape for out in every(*copies)]
    with torch.profiler.profile(record_shapes=True) as recorded:
        found = every(x, gate, up, down)
    assert sizes == [out.shape for out in found]
    shapes = {each.name: each.input_shapes for each in recorded.events()}
    assert shapes["tracekit::gate_up"][:3] == [[2, 3, 20], [35, 20], [35, 20]]
    assert shapes["tracekit::glu"][:2] == [[2, 3, 35]] * 2
    assert shapes["tracekit::block"][:4] == [[2, 3, 20], [35, 20], [35, 20], [20, 35]]


@needs_gpu
def test_more_elements_than_32_bits_count_are_computed():
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    for rows, columns in ((2**17, 2**14 + 8), (1, 2**27)):
        gate, up = (torch.randn(rows, columns, dtype=torch.float16) for _ in range(2))
        out = glu(gate, up, "relu")
        assert torch.equal(out[-1], torch.relu(gate[-1]) * up[-1])
        assert torch.equal(out[0], torch.relu(gate[0]) * up[0])


def test_second_gradients_are_refused_rather_than_wrong():
    gate, up, down = weights(torch.float32, 4, 3)
    x = torch.randn(2, 3, requires_grad=True)
    inner = torch.randn(2, 4, requires_grad=True)
    for out, given in (
        (glu(inner, inner * 2), inner),
        (gate_up(x, gate, up), x),
        (block(x, gate, up, down), x),
    ):
        (grad,) = torch.autograd.grad(out.square().sum(), given, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad.sum().backward()


@every_activation
def test_activations_hold_at_extreme_values(activation):
    gate = torch.tensor([[-1e30, -1e4, -40.0, -0.0, 40.0, 1e4, 1e30]])
    out = glu(gate, torch.ones_like(gate), activation)
    assert torch.equal(out.nan_to_num(0, 0, 0), out)
    assert out.tolist()[0][:3] == pytest.approx([0, 0, 0], abs=1e-12)
    assert torch.equal(out[0, 4:], gate[0, 4:])


@pytest.mark.parametrize(
    ("kernel", "given", "message"),
    [
        (glu, [torch.ones(2, 2, dtype=torch.float64)] * 2, ""),
        (glu, [torch.ones(2, 2), torch.ones(2, 3)], ""),
        (glu, [torch.ones(2, 2), torch.ones(2, 2).half()], ""),
        (glu, [torch.ones(2, 2), torch.ones(2, 2), "tanh"], ""),
        (gate_up, [torch.ones(2, 3), torch.ones(4, 2), torch.ones(4, 2)], ""),
        (gate_up, [torch.ones(2, 3), torch.ones(4, 3), torch.ones(4, 3).half()], ""),
        (block, [torch.ones(2, 3), torch.ones(4, 3), torch.ones(4, 3), torch.ones(4, 3)], ""),
        (block, [torch.ones(65, 3), torch.ones(4, 3), torch.ones(4, 3), torch.ones(3, 4)], ""),
        (block, [torch.ones(2, 3), *[torch.ones(4, 3, device="meta")] * 2, torch.ones(3, 4)], ""),
        # Nothing is written over a gate that is still needed.
        (glu_over_gate, [torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)], "gradients"),
        (glu_over_gate, [torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)], "gradients"),
        (glu_over_gate, [torch.ones(1, 2).expand(2, 2), torch.ones(2, 2)], "memory of its own"),
        (glu_over_gate, [torch.ones(2, 2)] * 2, "memory of its own"),
    ],
)
def test_unsupported_inputs_are_refused(kernel, given, message):
    with pytest.raises(ValueError, match=message):
        kernel(*given)


INTERPRETED = [
    "matmul-add", "linear", "mlp-eager", "mlp-torch-fused", "mlp-triton", "mlp-triton-gate-up",
    "mlp-triton-full", "attention-block", "train-step", "sync-bound", "python-bound", "copy-bound",
    "input-bound",
]  # fmt: skip


@every_dtype
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", INTERPRETED)
def test_every_workload_agrees_with_its_reference(name, dtype, monkeypatch):
    # On a GPU, this runs the kernel even where the compiler's form is faster.
    monkeypatch.setattr(mlp_kernels, "faster", lambda fused, *_: fused)
    for activation in NAMES if name.startswith("mlp") else NAMES[:1]:
        shape = Shape(2, 3, 20, 35, dtype, DEVICE, activation)
        workload = WORKLOADS[name].build(shape)
        error, limit = error_of(workload, dtype)
        assert error <= limit
        if name.startswith("mlp-triton"):
            assert workload.variant.startswith("triton")


ATTENTION = [name for name, entry in WORKLOADS.items() if entry.on_gpu]


@every_dtype
@pytest.mark.parametrize("name", ATTENTION)
def test_every_backend_of_attention_agrees_or_says_in_a_line_that_it_is_not_here(name, dtype):
    build = WORKLOADS[name].build
    shape = Shape(2, 17, 128, 1, dtype, DEVICE)
    kind = name.removeprefix("attention-").removeprefix("sdpa-")
    # On a GPU, flash and cuDNN compute no float32; efficient and cuDNN are not for CPUs.
    missing = ("efficient", "cudnn") if DEVICE.type == "cpu" else ()
    if DEVICE.type != "cpu" and dtype == torch.float32:
        missing = ("flash", "cudnn")
    if kind in missing:
        with pytest.raises(ValueError, match=f"^no {kind} attention here: .+$"):
            build(shape)
        return
    workload = build(shape)
    error, limit = error_of(workload, dtype)
    assert error <= limit
    assert workload.note is None
    with torch.profiler.profile() as recorded:
        workload.step()
    called = {each.name for each in recorded.events()}
    own = {"naive": "aten::masked_fill", "inplace": "aten::masked_fill_", "math": "_math"}
    assert any(each.endswith(own.get(kind, f"_{kind}_attention")) for each in called) or (
        kind == "flash" and "aten::_scaled_dot_product_flash_attention_for_cpu" in called
    )


def test_the_faster_form_of_two_products_runs_and_says_so():
    fused, compiled = (
        Workload(lambda: torch.ones(1), lambda: torch.ones(1), name) for name in ("one", "two")
    )
    us = {"fused": 310.04, "compiled": 300.0}
    chosen = mlp_kernels.faster(fused, compiled, lambda steps: us)
    assert (chosen.variant, chosen.step) == ("two", compiled.step)
    assert "takes 300.0 us with them on this device and 310.0 us with one" in str(chosen.note)
    us = {"fused": 300.0, "compiled": 300.0}
    assert mlp_kernels.faster(fused, compiled, lambda steps: us) is fused


def test_a_workload_has_sizes_of_its_own():
    known = {"batch": 2, "seq": 128, "dim": 128, "dtype": "fp32", "device": "cpu"}
    assert parameters_of("attention-naive", Options(), torch.device("cpu")) == known
    published = parameters_of("attention-sdpa-flash", Options(seq=4096), torch.device("cuda"))
    assert published == {"batch": 8, "seq": 4096, "dim": 1024, "dtype": "bf16", "device": "cuda"}
    # The block says which attention it got.
    for dim, backend in ((128, "eager, flash attention"), (20, "eager, ")):
        workload = attention.block(Shape(2, 3, dim, 35, torch.float32, torch.device("cpu")))
        assert workload.variant.startswith(backend)
    with pytest.raises(ValueError, match="multiple of 64"):
        attention.naive(Shape(1, 2, 100, 1, torch.float32, DEVICE))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_takes_the_fused_module_as_it_is():
    from tracekit.workloads.mlp import FusedMlp

    shape = Shape(2, 3, 20, 35, torch.float32, DEVICE, "silu")
    plain = mlp.Mlp(shape)
    scripted = torch.jit.script(FusedMlp(plain, shape.activation))
    x = shape.random(2, 3, 20, seed=7)
    close(scripted(x), plain.double()(x.double()), 1e-5)
