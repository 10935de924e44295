"""The callbacks with the frameworks themselves, on a CPU: the same weights with and without them.

`make test` installs none of the frameworks: tests of missing ones are skipped.
examples/frameworks.md says how to run all.
"""

import json
import warnings
from contextlib import nullcontext
from functools import partial

import pytest

from tests.frameworks.test_frameworks import steps_in
from tests.kit.processes import ran
from tracekit.frameworks.judging import verdict_paths
from tracekit.frameworks.steps import TracekitWarning

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore", "error::tracekit.frameworks.steps.TracekitWarning"
)
STEPS = 14


def huggingface(folder, *profiled, breaks=False, evaluates=False, accumulate=1, **options):
    """Trains with Hugging Face's Trainer, profiled if an output and steps are given. As the others:
    returns the weights, and fails in the ninth step if it `breaks`."""
    package = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    class Broken(package.TrainerCallback):
        def on_step_end(self, args, state, control, **given):
            if state.global_step == 9:
                raise ZeroDivisionError

    package.set_seed(0)
    model = package.GPT2LMHeadModel(
        package.GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    )
    words = torch.randint(0, 64, (64, 8))
    data = [{"input_ids": each, "labels": each} for each in words]
    callbacks = [Broken()] if breaks else []
    if profiled:
        from tracekit.frameworks.huggingface import ProfileTrainerCallback

        callbacks.insert(0, ProfileTrainerCallback(*profiled, **options))
    arguments = package.TrainingArguments(
        output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1,
        gradient_accumulation_steps=accumulate,
        **({"eval_strategy": "steps", "eval_steps": 7} if evaluates else {}),
    )  # fmt: skip
    trainer = package.Trainer(
        model, arguments, train_dataset=data, eval_dataset=data[:8], callbacks=callbacks
    )
    trainer.train()
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    return [*weights(model), torch.tensor(losses)]


def lightning(
    folder, *profiled, name="lightning.pytorch", breaks=False, evaluates=False, profiler=None,
    **options,
):  # fmt: skip
    package = pytest.importorskip(name, reason=f"{name} is not installed")

    class Model(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))

        def training_step(self, batch, number):
            return self.net(batch).square().mean()

        def validation_step(self, batch, number):
            self.net(batch).cos()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    class Broken(package.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, number):
            if number == 8:
                raise ZeroDivisionError

    callbacks = [Broken()] if breaks else []
    if profiled:
        from tracekit.frameworks.lightning import ProfileCallback

        callbacks.insert(0, ProfileCallback(*profiled, **options))
    package.seed_everything(0, verbose=False)
    model = Model()
    data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=2, shuffle=True)
    trainer = package.Trainer(
        max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=callbacks, profiler=profiler,
        **({"val_check_interval": 7, "limit_val_batches": 2} if evaluates else {}),
    )  # fmt: skip
    with warnings.catch_warnings():
        for theirs in (UserWarning, DeprecationWarning):
            warnings.simplefilter("ignore", theirs)
        warnings.simplefilter("always", TracekitWarning)
        trainer.fit(model, data, data if evaluates else None)
    return weights(model)


pytorch_lightning = partial(lightning, name="pytorch_lightning")


def accelerate(folder, *profiled, accumulate=1, **options):
    package = pytest.importorskip("accelerate", reason="accelerate is not installed")
    torch.manual_seed(0)
    accelerator = package.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    model = torch.nn.Linear(8, 1)
    data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=2)
    model, optimizer, data = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), 0.1), data
    )
    profiling = nullcontext()
    if profiled:
        from tracekit.frameworks.accelerate import ProfileSteps

        profiling = ProfileSteps(accelerator, *profiled, **options)
    with profiling as steps:
        for batch in data:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            if steps:
                steps.step()
    return weights(model)


def weights(model):
    return [each.detach().clone() for each in model.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out" / "run.json.gz"


each_framework = pytest.mark.parametrize(
    "train", [huggingface, lightning, pytorch_lightning, accelerate]
)
each_trainer = pytest.mark.parametrize("train", [huggingface, lightning, pytorch_lightning])


@each_framework
def test_training_is_unchanged_and_leaves_a_trace_and_a_verdict(train, output, tmp_path):
    assert equal(train(tmp_path, output, (8, 10)), train(tmp_path))
    assert steps_in(output) == 3
    as_json, as_text = verdict_paths(output)
    verdict = json.loads(as_json.read_text())["verdict"]
    assert as_text.read_text().startswith(verdict["headline"][:60])


@each_trainer
def test_an_evaluation_is_left_out(train, output, tmp_path):
    with pytest.warns(TracekitWarning, match="an? (evaluation|validation) began, so 2 of 3 steps"):
        found = train(tmp_path, output, (6, 8), verdict=False, evaluates=True)
    assert equal(found, train(tmp_path, evaluates=True))
    assert steps_in(output) == 2


@each_trainer
def test_training_that_fails_fails_as_without_tracekit_and_can_be_repeated(train, output, tmp_path):
    with warnings.catch_warnings(), pytest.raises(ZeroDivisionError):
        warnings.simplefilter("ignore", TracekitWarning)
        train(tmp_path, output, (8, 10), breaks=True)
    assert not output.exists()
    assert train is huggingface or not torch.autograd._profiler_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracekitWarning)
        train(tmp_path, output, (8, 10), verdict=False)
    assert steps_in(output) == 3


@pytest.mark.parametrize(("train", "last"), [(huggingface, 8), (accelerate, 14)])
def test_accumulated_steps_count_once(train, last, output, tmp_path):
    with warnings.catch_warnings(record=True):
        train(tmp_path, output, (6, last), accumulate=4, verdict=False)
    assert steps_in(output) == 3


@pytest.mark.parametrize("train", [lightning, pytorch_lightning])
def test_lightnings_own_profiler_goes_first(train, output, tmp_path):
    with pytest.warns(TracekitWarning, match="profiler"):
        with_it = train(tmp_path, output, (6, 8), profiler="pytorch")
    assert equal(with_it, train(tmp_path))
    assert not output.exists()


def test_a_framework_that_is_missing_is_one_line():
    hidden = "transformers", "lightning", "pytorch_lightning", "accelerate"
    program = (
        f"import importlib, sys\nsys.modules.update(dict.fromkeys({hidden}))\nimport tracekit\n"
        "for each in ('huggingface', 'lightning', 'accelerate'):\n"
        "    try:\n        importlib.import_module(f'tracekit.frameworks.{each}')\n"
        "    except tracekit.TracekitError as error:\n        print(error)"
    )
    done = ran("python", "-c", program)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    for line, package in zip(lines, ("transformers", "lightning", "accelerate"), strict=True):
        assert f"pip install {package}" in line
