"""The source of test traces, and the environment of tests."""

import os
from pathlib import Path

# The device for tests of kernels: compiled on `cuda`, in Triton's interpreter on `cpu`.
os.environ.setdefault("TRACEKIT_TEST_DEVICE", "cpu")
# The user's cache is not for tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / "build" / "cache")
# Nor are plugins that are installed here.
os.environ["TRACEKIT_NO_PLUGINS"] = "1"
# Before anything imports triton.
os.environ["TRITON_INTERPRET"] = "1" if os.environ["TRACEKIT_TEST_DEVICE"] == "cpu" else "0"

import gc
import hashlib
import json
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.resources import files
from typing import Any

import duckdb
import pytest
from filelock import FileLock
from hypothesis import settings

import tracekit
from tests.kit import cases
from tests.kit.forking import IMPORTED, LIMIT_S, TRACEKIT, WITH_TORCH, CommandServer
from tests.kit.impossible import require_possible, require_possible_output
from tests.kit.sampling import IS_ALL, LEFT_OUT, Sampling
from tracekit.verdict.model import Analysis

# readline writes the terminal's size here when it is loaded, and tables would follow it.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Whether a property holds does not depend on how fast the machine is.
settings.register_profile("tracekit", deadline=None)
settings.load_profile("tracekit")

# Variables that pytest, libraries and the kernels' tests set in this process for themselves.
_NOT_INHERITED = {
    "KINETO_LOG_LEVEL", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_PLUGINS",
    "TRITON_INTERPRET", "_RJEM_MALLOC_CONF",
}  # fmt: skip

TEST_DEVICE = os.environ["TRACEKIT_TEST_DEVICE"]
SHARED_TRACES = Path(__file__).parents[2] / "shared" / "traces"
OWN_TRACES = Path(__file__).parent / "data"
# Captured on an NVIDIA H100.
GPU_TRACES = OWN_TRACES / "h100"
# Give a file, or a database, that a function makes at a path, by a name and what it is made of.
MadeFile = Callable[[str, bytes, Callable[[Path], object]], Path]
MadeOnce = Callable[[str, bytes, Callable[[Path], object]], tracekit.Database]
# Databases by the names of traces; a database of several traces, and their trace_ids by name.
Databases = Callable[[str], tracekit.Database]
Together = tuple[tracekit.Database, dict[str, int]]
# Compressed traces up to this size are loaded together.
SMALL_BYTES = 1_300_000


def expected_numbers() -> dict[str, dict[str, int]]:
    """The exact numbers of the shared real traces; empty if the traces are missing."""
    file = SHARED_TRACES / "expected.json"
    return json.loads(file.read_text()) if file.exists() else {}


def shared_trace_names() -> list:
    """Parameters for tests over all shared traces, small ones first: one skipped test if they are
    missing."""
    sizes = {name: (SHARED_TRACES / name).stat().st_size for name in expected_numbers()}
    return sorted(sizes, key=lambda name: sizes[name]) or [
        pytest.param("", marks=pytest.mark.skip(f"no real traces at {SHARED_TRACES}"))
    ]


def own_trace_names() -> list[str]:
    """The traces of tests/data."""
    return sorted(path.name for path in OWN_TRACES.glob("*.json.gz"))


def trace_names() -> list:
    """Parameters for tests over all traces: those of tests/data, and the shared ones."""
    return own_trace_names() + shared_trace_names()


def trace_file(name: str) -> Path:
    """The path of the trace with that name; skips the test if it is missing."""
    path = OWN_TRACES / name
    if not path.exists():
        path = SHARED_TRACES / name
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    return path


def _loaded_traces() -> Path:
    """The folder of databases that this version of the package has made: a later run of `make test`
    finds them there. Folders of versions before the last one are removed."""
    package = Path(tracekit.__file__).parent
    digest = hashlib.sha256(duckdb.__version__.encode())
    for folder in (package, Path(str(files("tracekit.queries")))):
        for file in sorted(folder.rglob("*.*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.read_bytes())
    versions = Path(os.environ["XDG_CACHE_HOME"]) / "traces"
    made = versions / digest.hexdigest()[:16]
    made.mkdir(parents=True, exist_ok=True)
    made.touch()
    for old in sorted(versions.iterdir(), key=lambda each: -each.stat().st_mtime)[2:]:
        shutil.rmtree(old, ignore_errors=True)
    return made


@pytest.fixture(scope="session")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> MadeFile:
    """The path of a file that a function makes, by a name and what it is made of.

    Each is made once, for all workers and for later runs; in `make test-all`, in each run.
    """
    if IS_ALL:
        own = tmp_path_factory.getbasetemp()
        folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    else:
        folder = _loaded_traces()

    def get(name: str, content: bytes, make: Callable[[Path], object]) -> Path:
        made = folder / f"{hashlib.sha256(content).hexdigest()[:16]}-{name}"
        with FileLock(f"{made}.lock"):
            if not made.exists():
                make(made)
        return made

    return get


@pytest.fixture(scope="session")
def made_once(made_file: MadeFile) -> Iterator[MadeOnce]:
    """Opens the database that a function makes at a path, by a name and what it is made of."""
    opened: list[tracekit.Database] = []

    def get(name: str, content: bytes, make: Callable[[Path], object]) -> tracekit.Database:
        opened.append(tracekit.open_database(made_file(f"{name}.duckdb", content, make)))
        return opened[-1]

    yield get
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def shared_database(made_once: MadeOnce) -> Databases:
    """Opens a trace of tests/data or a shared one by its file name."""

    def get(name: str) -> tracekit.Database:
        path = trace_file(name)
        return made_once(name, path.read_bytes(), partial(_load, path))

    return cache(get)


@pytest.fixture(scope="session")
def judged(made_file: MadeFile) -> Path:
    """A database of a trace of tests/data, with its verdict. Tests that change it copy it."""
    path = OWN_TRACES / "simulated-overhead-bound.json.gz"

    def load(made: Path) -> None:
        tracekit.load(path, made).close()

    return made_file("judged.duckdb", path.read_bytes(), load)


@pytest.fixture(scope="session")
def small_traces(made_once: MadeOnce) -> Together:
    """One database of all small traces, and their trace_ids by file name. One load of all is faster
    than a load for each. It has only the first rank of each run, which is judged as if alone."""
    paths = _small_traces()
    numbers = {path.name: n for n, path in enumerate(paths, start=1)}
    return made_once("small", _content(paths), partial(_load, paths)), numbers


def _load(paths: Path | list[Path], made: Path) -> None:
    tracekit.load(paths, made, verdicts=False).close()


def _small_traces() -> list[Path]:
    paths = [*sorted(OWN_TRACES.glob("*.json.gz")), *sorted(SHARED_TRACES.glob("*.json.gz"))]
    return [each for each in paths if each.stat().st_size < SMALL_BYTES and not is_later_rank(each)]


def judged_together() -> set[str]:
    """The file names of the traces that one database holds and that are judged at once."""
    return {path.name for path in _small_traces()}


def is_later_rank(path: Path) -> bool:
    """Whether the trace is of a rank other than the first of its run."""
    return re.search(r"-rank[1-9]", path.name) is not None


def _content(paths: list[Path]) -> bytes:
    return b"".join(path.read_bytes() for path in paths)


@pytest.fixture(scope="session")
def shared_trace(
    shared_database: Databases, small_traces: Together
) -> Callable[[str], tuple[tracekit.Database, int]]:
    """The database of a trace of tests/data or a shared one, and its trace_id, by its file name:
    that of all small traces if it is one."""
    small, numbers = small_traces

    def get(name: str) -> tuple[tracekit.Database, int]:
        trace_file(name)
        return (small, numbers[name]) if name in numbers else (shared_database(name), 1)

    return get


@pytest.fixture(scope="session")
def shared_ask(shared_trace: Callable[[str], Any]) -> Callable[..., list[dict[str, Any]]]:
    """Asks a question about a trace of tests/data or a shared one, by its file name."""

    def ask(name: str, question: str, **given: Any) -> list[dict[str, Any]]:
        database, trace = shared_trace(name)
        return database.ask(question, trace=trace, **given)

    return ask


@pytest.fixture(scope="session")
def cases_database(
    made_once: MadeOnce, tmp_path_factory: pytest.TempPathFactory
) -> tracekit.Database:
    """The database of all cases of tests/questions/cases."""
    folder = tmp_path_factory.mktemp("cases")
    return made_once("cases", cases.content(), lambda made: cases.load(folder, made))


@pytest.fixture(scope="session")
def shared_verdict(
    made_file: MadeFile, shared_database: Databases, request: pytest.FixtureRequest
) -> Callable[[str], Analysis]:
    """The analysis of a trace by its file name. Small traces are judged together."""

    def judge_small(made: Path) -> None:
        database, numbers = request.getfixturevalue("small_traces")
        with database.session.sharing():
            analyses = {name: database.verdict(number) for name, number in numbers.items()}
        made.write_bytes(pickle.dumps(analyses))

    def judge(name: str, made: Path) -> None:
        made.write_bytes(pickle.dumps(shared_database(name).verdict()))

    @cache
    def small() -> dict[str, Analysis]:
        made = made_file("small.pickle", _content(_small_traces()), judge_small)
        return pickle.loads(made.read_bytes())

    @cache
    def get(name: str) -> Analysis:
        path = trace_file(name)
        if path in _small_traces():
            return small()[name]
        made = made_file(f"{name}.pickle", path.read_bytes(), partial(judge, name))
        return pickle.loads(made.read_bytes())

    return get


@pytest.fixture(scope="module")
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tracekit.Database]:
    """The database of a module's small traces, `TRACES`: questions are asked of all at once."""
    with (
        request.module.TRACES.load(tmp_path_factory.mktemp("traces")) as run,
        run.session.sharing(),
    ):
        yield run


@pytest.fixture(scope="module")
def analyses(loaded: tracekit.Database) -> dict[int, Analysis]:
    """The analysis of each of the module's small traces; none says anything impossible."""
    found = {each.trace.trace_id: each for each in loaded.verdicts()}
    for each in found.values():
        require_possible(each)
    return found


@pytest.fixture(scope="session")
def command_servers() -> Iterator[dict[bool, CommandServer]]:
    """One without PyTorch and one with it; each is started on first use."""
    servers: dict[bool, CommandServer] = {}
    yield servers
    for server in servers.values():
        server.stop()


@pytest.fixture
def run(
    tmp_path: Path, command_servers: dict[bool, CommandServer]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `tracekit ...`, or another program of `forking.MAIN`, as a user would, in an empty
    directory: in a fork, or in a new process in `make test-all`. No verdict, price or comparison
    that it prints may say anything impossible."""

    def guarded(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        done = command(*arguments, **more)
        if not done.returncode:
            require_possible_output(arguments, done.stdout)
        return done

    def command(
        *arguments: str, stdin: bytes = b"", program: str = "tracekit", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
        path = TRACEKIT.with_name(program)
        records = arguments[:1] in [("capture",), ("sweep",), ("probe",)]
        by_another = {"--with", "--server"} & {*arguments}
        has_torch = program == "pytest" or (records and not by_another)
        if not IS_ALL and sys.platform == "linux":
            if has_torch not in command_servers:
                modules = WITH_TORCH if has_torch else IMPORTED
                command_servers[has_torch] = CommandServer(modules, inherited)
            server = command_servers[has_torch]
            changes = server.changes(inherited | environment)
            if changes is not None:
                return _decoded(server.run(path, arguments, tmp_path, stdin, changes))
        return _decoded(
            subprocess.run(
                [path, *arguments], input=stdin, capture_output=True, cwd=tmp_path,
                env=inherited | environment, timeout=LIMIT_S, check=False,
            )
        )  # fmt: skip

    return guarded


@pytest.fixture
def refused(run: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """Runs a command that has to be refused, with status 2 and nothing but one line, which it
    returns."""

    def command(*arguments: str, **environment: str) -> str:
        done = run(*arguments, **environment)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
        return done.stderr

    return command


def _decoded(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


# -- the run ---------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    # A shell lets what it runs in the background ignore interrupts, and so would all commands here.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Sampling())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests without collecting garbage: what is imported here lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests build large documents and few cycles.
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs slow tests and groups first, so that none is left alone at the end; tests that share a
    fixture of their module are a group."""
    for item in items:
        if not item.get_closest_marker("xdist_group") and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(Path(item.location[0]).stem))
    items.sort(
        key=lambda item: [item.get_closest_marker(m) is None for m in ("slow", "xdist_group")]
    )


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether the test uses a fixture of its module."""
    made = item._fixtureinfo.name2fixturedefs
    return any(each[-1].scope == "module" for each in made.values())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker reports the cases that it left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = sorted(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    LEFT_OUT.update(getattr(node, "workeroutput", {}).get("left_out", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LEFT_OUT:
        terminalreporter.section("left to `make test-all`", sep="-")
        for each in sorted(LEFT_OUT):
            terminalreporter.line(each)
