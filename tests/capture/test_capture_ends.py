"""Captured code that ends unexpectedly: one line reports it, and nothing is left behind."""

import asyncio
import io
import os
import shutil
import sys
from pathlib import Path

import pytest

import tracekit
from tracekit import TracekitError
from tracekit.capture.profile import profile, profile_script
from tracekit.capture.usercode import refuse_unseen_ends
from tracekit.capture.workload import Options, capture

torch = pytest.importorskip("torch")

OPTIONS = Options(device="cpu", warmup=1, active=1)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A separate working folder; modules imported from it are unloaded afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


STEPS = {
    "exits": ("import sys\ndef step(): sys.exit(0)", r"ended the program by sys\.exit\(0\)"),
    "quits": ("def step(): raise SystemExit", r"ended the program by sys\.exit\(\)"),
    "own_base": ("class End(BaseException): pass\ndef step(): raise End('so')", "End: so"),
    "fails": (
        "def step(): raise RuntimeError('no\\nway')",
        "failed while it ran: RuntimeError: no",
    ),
    "closes": ("def step(): raise GeneratorExit", "failed while it ran: GeneratorExit"),
    "awaited": ("async def step(): pass", "returns a coroutine and does not run it"),
    "yields": ("def step(): yield", "returns a generator and does not run it"),
    "async_yields": ("async def step(): yield", "returns an async generator and does not run it"),
    "hidden": (
        "async def f(): pass\nstep = lambda: f()",
        "returns a coroutine and does not run it",
    ),
    "hidden_yield": ("step = lambda: (x for x in 'ab')", "returns a generator and does not run it"),
    "called": (
        "class Step:\n    async def __call__(self): pass\nstep = Step()",
        "returns a coroutine and does not run it",
    ),
    "given": ("def step(batch, *, rate): pass", "called without arguments: .*'batch'"),
    "exits_at_import": ("import sys\nsys.exit(0)", r"cannot import exits_at_import: it calls sys"),
    "ends_at_import": ("raise GeneratorExit", "cannot import ends_at_import: GeneratorExit"),
    "defines_nothing": ("", "defines_nothing has no function 'step'"),
    "broken": ("def step(:", "cannot import broken: SyntaxError"),
    "lazy": ("def __getattr__(name): raise ValueError(name)", "cannot import lazy: ValueError"),
    "idle": ("def step(): pass", "no PyTorch operator ran"),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_step_that_records_nothing_is_refused_in_one_line(name, here):
    code, said = STEPS[name]
    (here / f"{name}.py").write_text(code)
    with pytest.raises(TracekitError, match=f"^{name}:step: .*{said}") as refused:
        capture(f"{name}:step", "t.json.gz", OPTIONS)
    assert "\n" not in str(refused.value)
    assert [each.name for each in here.iterdir()] == [f"{name}.py"]


UNRECORDED = [
    (b"", "no PyTorch operator ran"),
    (b"x = (", "failed: SyntaxError"),
    (b"x = '\xff'", "failed: SyntaxError"),
    (b"x = '\0'", "failed: (SyntaxError|ValueError)"),
    (b"import sys; sys.exit('no\\nway')", "ended with no"),
    (b"raise GeneratorExit", "failed: GeneratorExit"),
    (b"import asyncio; raise asyncio.CancelledError", "failed: CancelledError"),
]


def test_a_script_that_cannot_be_recorded_is_refused_by_name(here):
    for code, said in UNRECORDED:
        (here / "s.py").write_bytes(code)
        with pytest.raises(TracekitError, match=f"^s.py: {said}"):
            profile_script("s.py", (), "t.json.gz")
        assert [each.name for each in here.iterdir()] == ["s.py"]


def test_an_interrupt_by_the_code_stays_an_interrupt(here):
    (here / "s.py").write_text("raise KeyboardInterrupt")
    (here / "stopped.py").write_text("def step(): raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        profile_script("s.py", (), "t.json.gz")
    with pytest.raises(KeyboardInterrupt):
        capture("stopped:step", "t.json.gz", OPTIONS)
    assert sorted(each.name for each in here.iterdir()) == ["s.py", "stopped.py"]


WORK = "import os, sys, shutil, torch\ntorch.ones(2).sin()\n"


def test_a_script_that_changes_folders_is_still_written_to_the_requested_path(here):
    for code in (
        "sys.exit(0)", "sys.exit()", "os.chdir('/')", "shutil.rmtree('out')",
        "shutil.rmtree('out'); os.mkdir('out')",
    ):  # fmt: skip
        shutil.rmtree(here / "out", ignore_errors=True)
        (here / "out").mkdir()
        (here / "s.py").write_text(WORK + code)
        os.chdir(here)
        assert profile_script("s.py", (), "out/t.json.gz") == Path("out/t.json.gz")
        assert [each.name for each in (here / "out").iterdir()] == ["t.json.gz"]


def test_a_step_that_changes_folders_is_still_written_to_the_requested_path(here):
    (here / "out").mkdir()
    code = "def step(): torch.ones(2).sin(); os.chdir('/'); shutil.rmtree(out, True)\n"
    (here / "moves.py").write_text(f"{WORK}out = {str(here / 'out')!r}\n{code}")
    assert capture("moves:step", "out/t.json.gz", OPTIONS).path == "out/t.json.gz"
    assert [each.name for each in (here / "out").iterdir()] == ["t.json.gz"]


RECORDERS = {
    "script": lambda output: profile_script("s.py", (), output),
    "step": lambda output: capture("works:step", output, OPTIONS),
}


@pytest.fixture(params=RECORDERS)
def record(request, here):
    """Records a script, or the step of a module."""
    (here / "beside.py").write_text("import torch\ndef work(): torch.ones(2).sin()\n")
    (here / "s.py").write_text("import beside\nbeside.work()\n")
    (here / "works.py").write_text("import beside\nstep = beside.work\n")
    return RECORDERS[request.param]


@pytest.mark.sampled(2)
def test_a_recording_is_written_as_its_name_ends(record, here):
    outputs = {
        "t.json": b'{"tracekit"', "t.json.gz": b"\x1f\x8b", "t.json.zst": b"\x28\xb5\x2f\xfd",
        "t.duckdb": b"",
    }  # fmt: skip
    for output, begins in outputs.items():
        record(output)
        assert (here / output).read_bytes().startswith(begins)
    with tracekit.load([here / output for output in outputs]) as run:
        counted = "SELECT count(DISTINCT trace_id) FROM cpu_ops WHERE name = 'aten::sin'"
        assert run.fetch(counted)[1] == [(4,)]


@pytest.mark.thorough
def test_a_recording_replaces_neither_its_program_nor_a_loaded_database(record, here):
    record("t.json.gz"), record("recorded.duckdb")
    tracekit.load("t.json.gz", "loaded.duckdb", verdicts=False).close()
    (here / "script.json").symlink_to("s.py"), (here / "module.json").hardlink_to("works.py")
    (here / "module.duckdb").hardlink_to("beside.py")
    (here / "link.json").symlink_to("t.txt"), (here / "base.json").hardlink_to("loaded.duckdb")
    before = {each.name: each.read_bytes() for each in here.iterdir() if each.is_file()}
    used = "script.json" if record is RECORDERS["script"] else "module.json"
    for output, said in (
        ("s.py", "must end in .json, .json.gz, .json.zst or .duckdb"),
        ("t.txt", "must end in"),
        ("t.gz", "must end in"),
        ("-", "must end in"),
        ("link.json", "must end in"),
        ("script.json", "is also an input" if used == "script.json" else "must end in"),
        (used, "is also an input"),
        ("module.duckdb", "is also an input"),
        ("loaded.duckdb", "is a database that tracekit did not record"),
        ("base.json", "is a database that tracekit did not record"),
    ):
        with pytest.raises(TracekitError, match=said):
            record(output)
    after = {each.name: each.read_bytes() for each in here.iterdir() if each.is_file()}
    assert after == before
    record("recorded.duckdb")


def test_an_unwritable_output_is_an_error_before_the_code_runs(here):
    (here / "s.py").write_text("open('ran', 'w')")
    (here / "runs.py").write_text("open('ran', 'w')\ndef step(): pass")
    for output in ("no/t.json.gz", "x" * 300 + ".json.gz"):
        with pytest.raises(TracekitError, match="cannot be written"):
            profile_script("s.py", (), output)
        with pytest.raises(TracekitError, match="cannot be written"):
            capture("runs:step", output, OPTIONS)
    assert not (here / "ran").exists()


def test_streams_that_the_code_replaces_or_closes_are_back_afterwards(here, monkeypatch):
    for number, name in ((1, "stdout"), (2, "stderr")):
        monkeypatch.setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
    (here / "s.py").write_text(
        WORK + "import io\nsys.stdout = io.StringIO()\nsys.stderr.close(); os.close(2)\n"
    )
    before = sys.stdout
    profile_script("s.py", (), "t.json.gz")
    assert sys.stdout is before
    assert not sys.stderr.closed
    assert os.fstat(2)
    sys.stderr.write("")
    assert not isinstance(sys.stdout, io.StringIO)


def test_sys_exit_within_a_block_keeps_the_trace_only_with_status_0(tmp_path):
    for code in (None, 0, 3, "no"):
        with pytest.raises(SystemExit), profile(tmp_path / f"{code}.json.gz"):
            torch.ones(2).sin()
            sys.exit(code)
    assert {each.name for each in tmp_path.iterdir()} == {"None.json.gz", "0.json.gz"}


def test_a_function_that_only_makes_a_coroutine_cannot_be_decorated(tmp_path):
    async def work():
        await asyncio.sleep(0)

    def items():
        yield 1

    for function in (work, items):
        with pytest.raises(TracekitError, match="inside the function"):
            profile(tmp_path / "t.json.gz")(function)


PROGRAM = sys.executable
ENDS = {
    "os._exit": lambda: os._exit(0),
    "os.execv": lambda: os.execlp(PROGRAM, PROGRAM, "-c", ""),
    "os.execve": lambda: os.execle(PROGRAM, PROGRAM, "-c", "", os.environ),
}


@pytest.mark.parametrize("call", ENDS)
def test_code_that_ends_the_process_itself_still_gets_the_refusal(call):
    child = os.fork()
    if child == 0:
        try:
            with refuse_unseen_ends(lambda name: 7 if name == call else 8):
                ENDS[call]()
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_forked_child_may_end_the_process_unseen():
    with refuse_unseen_ends(lambda name: 7):
        child = os.fork()
        if child == 0:
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert os._exit.__module__ == "posix"
