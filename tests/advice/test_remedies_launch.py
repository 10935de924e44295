"""Cases that remedies for launches and communication find, and cases that they leave alone."""

import pytest

import tracekit
from tests.kit.atoms import NAMES, US, Launch, Op, Sync, line, operator, step
from tests.kit.simulated import write
from tests.kit.simulator import Simulation

KERNEL = Launch(4 * US, (("memory-bandwidth", 3 * US),))


def rows(name, atoms, folder):
    with tracekit.load(write(folder / "trace.json", Simulation([*atoms, Sync(US)]))) as run:
        return run.ask(name)


def region(name, *atoms):
    lookup = operator("TorchDynamo Cache Lookup", 20 * US)
    return [lookup, operator(f"Torch-Compiled Region: {name}", 2 * US, *atoms)]


def test_code_compiled_region_by_region_has_no_graph_breaks(tmp_path):
    block = region("0/0", operator("triton_poi_fused_add_0", 5 * US, KERNEL))
    assert rows("graph_breaks", [step(n, *block * 6) for n in range(3)], tmp_path) == []


def test_what_a_compiler_wrote_is_not_compiled_again(tmp_path):
    product = Launch(4 * US, (("math", 3 * US),))
    whole = line("nn.Module: Model_0", *region("0/0", *[operator("aten::mm", 9 * US, product)] * 9))
    found = rows("torch_compile", [step(n, whole) for n in range(3)], tmp_path)
    compiled_ns = 9 * 13 * US
    assert sum(row["dur_ns"] for row in found) < compiled_ns // 9


def test_a_compiler_that_only_traces_leaves_the_code_to_be_compiled(tmp_path):
    eager = region("0/0", *[operator("aten::add", 9 * US, KERNEL)] * 9)
    found = rows("torch_compile", [step(n, *eager) for n in range(3)], tmp_path)
    assert all("generates no code" in row["detail"] for row in found)
    assert sum(row["dur_ns"] for row in found if row["target"] == "overhead") > 3 * 9 * 9 * US


@pytest.mark.parametrize(("elements", "count"), [(1 << 8, 4 * 2 * 7), (1 << 24, 0)])
def test_only_small_collectives_are_coalesced(elements, count, tmp_path):
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    reduce = Launch(5 * US, (Op("communication", 30 * US, NAMES["communication"], told),))
    atoms = [operator("c10d::allreduce_", 5 * US, reduce)] * 8
    compute = operator("aten::mm", 9 * US, KERNEL)
    found = rows("coalesce_collectives", [step(n, *atoms, compute) for n in range(4)], tmp_path)
    assert len(found) == count


def test_an_optimizer_that_is_fused_is_left_alone(shared_database):
    """apex's FusedAdam steps in a few launches; SGD's foreach implementation has three passes."""
    assert shared_database("a100-diff-control.json.gz").ask("fused_optimizer") == []
    found = shared_database("v100-ns-resolution.json.gz").ask("fused_optimizer")
    assert {row["detail"] for row in found} == {"fused=True instead of foreach"}
    assert [row["factor"] for row in found] == [1 / 3] * 5


def test_a_compiled_run_without_modules_is_left_alone(tmp_path):
    rest = [operator("aten::mm", 9 * US, KERNEL)] * 3
    atoms = [*region("0/0", operator("triton_poi_fused_add_0", 5 * US, KERNEL)), *rest]
    assert rows("torch_compile", [step(n, *atoms) for n in range(3)], tmp_path) == []


@pytest.mark.parametrize(
    ("calling", "calls"),
    [("serve.py(3): classify", 7), ("model.py(9): generate", 0), (None, 0)],
)
def test_a_loop_over_items_in_a_function_is_no_loop_over_steps_or_tokens(calling, calls, tmp_path):
    ops = [operator("aten::mm", 14 * US, Launch(4 * US, (("latency", 4 * US),)))] * 12
    model = line("nn.Module: Classifier_0", *ops)
    around = [operator("aten::conv2d", 9 * US, Launch(4 * US, (("math", 40 * US),)))] * 20
    items = [line(calling, *[model] * 8)] if calling else [model] * 8
    atoms = [line("train.py(9): main", *(around if calling else ()), *items)]
    found = rows("batch_items", atoms, tmp_path)
    assert len([each for each in found if each["target"] == "host"]) == calls


@pytest.mark.parametrize(
    ("name", "share"), [("ampere_sgemm_128x64_tn", 0.5), ("s1688gemm_tf32", 0)]
)
def test_products_of_a_graph_are_priced_without_their_shapes(name, share, tmp_path):
    kernels = (Op("math", 200 * US, name), Op("memory-bandwidth", 20 * US, "add_kernel")) * 10
    graph = operator("graph", 9 * US, Launch(9 * US, kernels, name="cudaGraphLaunch"))
    found = rows("tensor_cores", [graph] * 4, tmp_path)
    saved_ns = sum(row["dur_ns"] * (1 - row["factor"]) for row in found)
    assert saved_ns == 4 * 10 * 200 * US * share
