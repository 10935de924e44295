"""The callbacks with the frameworks themselves, on a CPU: the same weights with and without them.

`make test` installs none of the frameworks: tests of missing ones are skipped.
examples/frameworks.md says how to run all.
"""

import json
import warnings

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


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return [each.detach().clone() for each in model.parameters()]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def verdict(output) -> dict:
    as_json, as_text = verdict_paths(output)
    found = json.loads(as_json.read_text())["verdict"]
    assert as_text.read_text().startswith(found["regime"])
    return found


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out" / "run.json.gz"


class TestHuggingFace:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("transformers", reason="transformers is not installed")
        pytest.importorskip("accelerate", reason="accelerate is not installed")

    def train(self, folder, *callbacks, **options):
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

        set_seed(0)
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
        )
        words = torch.randint(0, 64, (64, 8))
        data = [{"input_ids": each, "labels": each} for each in words]
        arguments = TrainingArguments(
            output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=2, use_cpu=True,
            report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, **options,
        )  # fmt: skip
        trainer = Trainer(
            model, arguments, train_dataset=data, eval_dataset=data[:8], callbacks=list(callbacks)
        )
        result = trainer.train()
        return weights(model), [result.training_loss, *_losses(trainer)]

    def test_a_trainer_trains_alike_and_leaves_a_trace_and_a_verdict(self, output, tmp_path):
        from tracekit.frameworks.huggingface import ProfileTrainerCallback

        callback = ProfileTrainerCallback(output, steps=(8, 10))
        with_it, losses = self.train(tmp_path, callback)
        without, plain = self.train(tmp_path)
        assert equal(with_it, without) and losses == plain
        assert callback.recorder.path == output and steps_in(output) == 3
        assert verdict(output)["regime"]

    def test_an_evaluation_is_left_out_and_accumulated_steps_count_once(self, output, tmp_path):
        from tracekit.frameworks.huggingface import ProfileTrainerCallback

        callback = ProfileTrainerCallback(output, steps=(6, 8), verdict=False)
        options = {"eval_strategy": "steps", "eval_steps": 7, "gradient_accumulation_steps": 2}
        with pytest.warns(TracekitWarning, match="an evaluation began, so 2 of 3 steps"):
            with_it, losses = self.train(tmp_path, callback, **options)
        without, plain = self.train(tmp_path, **options)
        assert equal(with_it, without) and losses == plain
        assert steps_in(output) == 2

    def test_training_that_fails_fails_alike_and_can_be_repeated(self, output, tmp_path):
        from transformers import TrainerCallback

        from tracekit.frameworks.huggingface import ProfileTrainerCallback

        class Broken(TrainerCallback):
            def on_step_end(self, args, state, control, **given):
                if state.global_step == 9:
                    raise ZeroDivisionError

        callback = ProfileTrainerCallback(output, steps=(8, 10), verdict=False)
        with pytest.raises(ZeroDivisionError):
            self.train(tmp_path, callback, Broken())
        assert not output.exists()
        self.train(tmp_path, callback)
        assert steps_in(output) == 3


def _losses(trainer) -> list[float]:
    return [each["loss"] for each in trainer.state.log_history if "loss" in each]


class TestLightning:
    @pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
    def package(self, request):
        return pytest.importorskip(request.param, reason=f"{request.param} is not installed")

    def train(self, package, folder, *callbacks, **options):
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

        package.seed_everything(0, verbose=False)
        model = Model()
        data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=2, shuffle=True)
        trainer = package.Trainer(
            max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
            callbacks=list(callbacks), **options,
        )  # fmt: skip
        with warnings.catch_warnings():
            for theirs in (UserWarning, DeprecationWarning):
                warnings.simplefilter("ignore", theirs)
            warnings.simplefilter("always", TracekitWarning)
            trainer.fit(model, data, data if "val_check_interval" in options else None)
        return weights(model)

    def test_a_trainer_trains_alike_and_leaves_a_trace_and_a_verdict(
        self, package, output, tmp_path
    ):
        from tracekit.frameworks.lightning import ProfileCallback

        callback = ProfileCallback(output, steps=(8, 10))
        with_it = self.train(package, tmp_path, callback)
        assert equal(with_it, self.train(package, tmp_path))
        assert callback.recorder.path == output and steps_in(output) == 3
        assert verdict(output)["regime"]

    def test_a_validation_is_left_out(self, package, output, tmp_path):
        from tracekit.frameworks.lightning import ProfileCallback

        with pytest.warns(TracekitWarning, match="a validation began, so 2 of 3 steps"):
            self.train(
                package, tmp_path, ProfileCallback(output, (6, 8), verdict=False),
                val_check_interval=7, limit_val_batches=2,
            )  # fmt: skip
        assert steps_in(output) == 2

    def test_lightnings_own_profiler_goes_first(self, package, output, tmp_path):
        from tracekit.frameworks.lightning import ProfileCallback

        with pytest.warns(TracekitWarning, match="profiler"):
            with_it = self.train(
                package, tmp_path, ProfileCallback(output, (6, 8)), profiler="pytorch"
            )
        assert equal(with_it, self.train(package, tmp_path))
        assert not output.exists()

    def test_training_that_fails_fails_alike(self, package, output, tmp_path):
        from tracekit.frameworks.lightning import ProfileCallback

        class Broken(package.Callback):
            def on_train_batch_end(self, trainer, module, outputs, batch, number):
                if number == 8:
                    raise ZeroDivisionError

        with (
            pytest.warns(TracekitWarning, match="training failed"),
            pytest.raises(ZeroDivisionError),
        ):
            self.train(package, tmp_path, ProfileCallback(output, (8, 10)), Broken())
        assert not torch.autograd._profiler_enabled()


class TestAccelerate:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("accelerate", reason="accelerate is not installed")

    def train(self, *profiled, accumulate=1, **options):
        from contextlib import nullcontext

        from accelerate import Accelerator

        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        model = torch.nn.Linear(8, 1)
        data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=2)
        model, optimizer, data = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), data
        )
        if profiled:
            from tracekit.frameworks.accelerate import ProfileSteps

            made = ProfileSteps(accelerator, *profiled, **options)
        with made if profiled else nullcontext() as steps:
            for batch in data:
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch).square().mean())
                    optimizer.step()
                    optimizer.zero_grad()
                if steps:
                    steps.step()
        return weights(model)

    def test_a_loop_trains_alike_and_leaves_a_trace_and_a_verdict(self, output):
        with_it = self.train(output, (8, 10))
        assert equal(with_it, self.train())
        assert steps_in(output) == 3
        assert verdict(output)["regime"]

    def test_accumulated_steps_count_once(self, output):
        with pytest.warns(TracekitWarning, match="training ended, so 3 of 9 steps"):
            self.train(output, (6, 14), accumulate=4, verdict=False)
        assert steps_in(output) == 3


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
