"""What held a memory snapshot's peak: roles, places, growth and the sentences on them, on made
training runs whose numbers are worked out by hand."""

import json

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit.processes import invoke
from tests.kit.snapshots import MAIN, UNWIND, Allocator, mlp, operator, write

MB = 1 << 20
UNWOUND = SHARED_TRACES / "forms" / "memory-unwind.pickle"


def roles_of(path, **parameters):
    """Bytes at the peak in MiB by role and phase, and the places of growth."""
    with tracekit.load(path, verdicts=False) as run:
        held = {}
        for row in run.ask("memory_roles", **parameters):
            key = (row["role"], row["phase"])
            held[key] = held.get(key, 0) + row["live_bytes"] / MB
        growth = [
            (row["place"], row["allocations"], row["live_bytes"] / MB, row["passes"])
            for row in run.ask("memory_growth")
        ]
    return held, growth


@pytest.fixture
def made(tmp_path):
    """Writes a snapshot."""
    return lambda allocator: write(tmp_path / "s.pickle", allocator)


# -- roles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tells_frees", [True, False])
def test_each_role_of_a_training_loop_has_its_bytes(tells_frees, made):
    """Four parameters of 1 MB, activations of 3 MB; the peak is in the second step's backward, when
    one gradient and the one passed on live beside all activations."""
    held, growth = roles_of(made(mlp(tells_frees=tells_frees)))
    assert held == {
        ("activations", "forward"): 4 * 3,
        ("optimizer states", "optimizer"): 2 * 4,
        ("parameters", "setup"): 4,
        ("temporaries", "backward"): 3,
        ("gradients", "backward"): 1,
    }
    assert growth == []


def test_a_peak_in_the_optimizers_step_has_its_temporaries(made):
    held, _ = roles_of(made(mlp(hidden=100)))
    assert held == {
        ("parameters", "setup"): 4,
        ("gradients", "backward"): 4,
        ("optimizer states", "optimizer"): 8,
        ("temporaries", "optimizer"): 4,
    }


def test_activations_of_a_cut_forward_are_known_by_earlier_ones(made):
    held, _ = roles_of(made(mlp(hidden=9 * MB, until="forward", extra_layers=2)))
    assert held["activations", "forward"] == 6 * 9


def test_the_first_forward_alone_does_not_tell_what_is_kept_for_backward(made):
    held, growth = roles_of(made(mlp(layers=40, steps=1, until="forward")))
    assert held == {("unknown", "forward"): 40 * 3, ("parameters", "setup"): 40}
    # One pass through 40 layers is no growth.
    assert growth == []


def test_without_stacks_every_role_is_unknown(made):
    held, growth = roles_of(made(mlp(has_stacks=False, kept=2 * MB)))
    assert {role for role, _ in held} == {"unknown"} and growth == []


def test_what_a_backward_without_stacks_frees_is_no_temporary(made):
    """Stacks of Python alone: the threads of autograd have none."""
    held, _ = roles_of(made(mlp(native=False)))
    assert ("temporaries", "forward") not in held and ("gradients", "backward") not in held
    assert held["unknown", "forward"] == 12


@pytest.mark.parametrize(("inputs", "parameters"), [(0, 2), (1, 0)])
def test_parameters_that_no_module_made_are_known_if_as_many_gradients_are_as_large(
    inputs, parameters, made
):
    """A tensor of their size beside them makes it ambiguous, so none is named."""
    allocator = Allocator()
    line = allocator.frames(("/app/net.py", 3, "weights"), MAIN)
    node = ("??", 0, "torch::autograd::generated::MulBackward0::apply()")
    backward = allocator.frames(operator("mul_Tensor"), node)
    after = allocator.frames(("/app/net.py", 9, "update"), MAIN)
    for _ in range(2 + inputs):
        allocator.alloc(MB, line)
    for _ in range(2):
        allocator.alloc(MB, backward)
    allocator.alloc(512, after)
    held, _ = roles_of(made(allocator))
    assert held.get(("parameters", None), 0) == parameters
    assert held.get(("gradients", "backward"), 0) == parameters


def test_a_workspace_is_one_wherever_it_is_made(made):
    allocator = Allocator()
    frames = (("??", 0, "at::cuda::getCurrentCUDABlasLtWorkspace()"), ("/app/m.py", 4, "forward"))
    allocator.alloc(8 * MB, allocator.frames(*UNWIND, *frames))
    assert roles_of(made(allocator))[0] == {("workspace", "workspace"): 8}


# -- places ----------------------------------------------------------------------------------------


def test_frames_of_cpp_are_resolved_to_the_node_and_the_operator():
    if not UNWOUND.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(UNWOUND, verdicts=False) as run:
        rows = run.ask("memory_sites")
        found = {row["place"]: (row["cpu_op"], row["allocations"], row["live_bytes"])
                 for row in rows}  # fmt: skip
        (unwound,) = run.sql("SELECT count(*) FROM allocation WHERE place LIKE '%unwind%'").rows()
    assert found == {
        "MulBackward0": ("aten::mul", 20, 20 * 2_097_152),
        "MmBackward0": ("aten::mm", 20, 20 * 2_097_152),
    }
    assert unwound == (0,)
    screen = invoke("analyze", UNWOUND).stdout
    assert "in backward: MmBackward0 41.9, MulBackward0 41.9 MB." in screen
    assert "torch::unwind" not in screen


SITE = "/opt/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "place", "cpu_op"),
    [
        ([operator("empty_memory_format"), operator("sum_dim_IntList"),
          (f"{SITE}/transformers/models/llama/modeling_llama.py", 9, "forward"),
          ("/app/train.py", 8, "loss")], "/app/train.py(8): loss", "aten::sum"),
        ([(f"{SITE}/vllm/worker.py", 5, "run"), ("/usr/lib/python3.11/runpy.py", 3, "run"),
          ("/opt/venv/bin/vllm", 8, "<module>")], f"{SITE}/vllm/worker.py(5): run", None),
        ([("??", 0, "void flash_attn::run_fwd<float>(int)"),
          ("??", 0, "c10::impl::wrap_kernel_functor::call()")],
         "flash_attn::run_fwd", "flash_attn::run_fwd"),
        ([("??", 0, "c10::intrusive_ptr::reset()"), ("??", 0, "_start")],
         "C++ without an operator", None),
        ([("??", 0, "at::native::copy_(at::Tensor&)"), (f"{SITE}/torch/_utils.py", 4, "f")],
         "at::copy_", "at::copy_"),
    ],
)  # fmt: skip
def test_the_place_is_the_users_line_with_the_operator_beside_it(frames, place, cpu_op, made):
    allocator = Allocator()
    allocator.alloc(MB, allocator.frames(*UNWIND, *frames))
    with tracekit.load(made(allocator), verdicts=False) as run:
        (row,) = run.ask("memory_sites")
    assert (row["place"], row["cpu_op"]) == (place, cpu_op)


# -- growth ----------------------------------------------------------------------------------------


def test_what_each_step_keeps_is_growth(made):
    path = made(mlp(kept=2 * MB, steps=6))
    _, growth = roles_of(path)
    assert growth == [("/app/train.py(33): log", 6, 12, 6)]
    screen = invoke("analyze", path).stdout
    assert "6 x train.py(33): log, over 6 passes" in screen
    assert "Keep less at train.py(33): log" in screen


def test_what_is_kept_for_some_steps_is_no_growth(made):
    assert roles_of(made(mlp(kept=2 * MB, steps=6, frees=2)))[1] == []


def test_growth_that_holds_most_is_the_first_sentence(made):
    with tracekit.load(made(mlp(kept=64 * MB, steps=6))) as run:
        said = run.verdict().headline
    # Six of 67.1 MB.
    assert said.endswith(": 6 allocations by train.py(33): log stay, 403 MB.")


# -- sentences -------------------------------------------------------------------------------------


def test_the_first_sentence_names_the_largest_roles(made):
    path = made(mlp(hidden=100))
    with tracekit.load(path) as run:
        analysis = run.verdict()
    assert analysis.headline == (
        "21 MB at the peak, in the optimizer's step: optimizer states 8.39, gradients 4.19, "
        "parameters 4.19, temporaries 4.19 MB."
    )
    assert (analysis.regime, analysis.bottleneck) == ("unknown", None)
    assert any("8 bits" in step and "6.29 MB" in step for step in analysis.verdict.try_next)
    told = json.loads(invoke("analyze", path, "--json").stdout)
    memory = told.get("memory") or told["analyses"][0]["memory"]
    assert memory["peak_bytes"] == sum(role["live_bytes"] for role in memory["roles"])
    assert {role["role"]: role["live_bytes"] for role in memory["roles"]} == {
        "optimizer states": 8 * MB, "gradients": 4 * MB, "parameters": 4 * MB,
        "temporaries": 4 * MB,
    }  # fmt: skip
    assert (memory["peak_phase"], memory["out_of_memory"]) == ("optimizer", None)


def test_a_failed_allocation_is_the_first_sentence(made):
    allocator = mlp(until="forward")
    allocator.out_of_memory(80 << 30, allocator.frames(("/app/train.py", 40, "evaluate")))
    with tracekit.load(made(allocator)) as run:
        verdict = run.verdict().verdict
    assert verdict.headline == (
        "Out of memory: 85.9 GB were asked for with 1.05 MB free on device 0, by train.py(40): "
        "evaluate."
    )
    assert any("When the allocation failed" in each for each in verdict.why)


def test_a_snapshot_without_actions_tells_what_is_in_use(made):
    allocator = mlp(entries=0)
    with tracekit.load(made(allocator)) as run:
        said = run.verdict().headline
    assert said.startswith("12.6 MB in use when the snapshot was taken")


def test_hostile_names_stay_printable(made):
    allocator = Allocator()
    names = ("/app/\x1b[31mred\u202e.py", 1, "f\ng\u0000" + "x" * 300)
    allocator.alloc(MB, allocator.frames(names))
    screen = invoke("analyze", made(allocator)).stdout
    assert all(letter.isprintable() or letter == "\n" for letter in screen)
    assert max(map(len, screen.splitlines())) <= 80
    headline = " ".join(screen.splitlines()[:2])
    assert len(headline) <= 160 and "1.05 MB at the peak" in headline


LOOPS = [
    {},
    {"hidden": 100},
    {"kept": 64 * MB, "steps": 6},
    {"has_stacks": False},
    {"until": "forward", "steps": 1},
]


@pytest.mark.parametrize("options", LOOPS)
def test_first_sentences_are_short_and_the_screen_fits(options, made):
    path = made(mlp(**options))
    with tracekit.load(path) as run:
        said = run.verdict().headline
    assert len(said) <= 160 and len(said.split()) <= 25
    screen = invoke("analyze", path).stdout.splitlines()
    assert len(screen) <= 32 and max(map(len, screen)) <= 80
