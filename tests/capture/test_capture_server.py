"""A server is profiled through its endpoints; a stand-in behaves like vLLM and SGLang."""

import gzip
import shutil
import time

import pytest
from werkzeug import Request, Response

from tests.conftest import OWN_TRACES
from tests.kit.serving import started
from tracekit.capture import server as library
from tracekit.capture.server import CAPTURES, Server
from tracekit.errors import TracekitError

RANKS = [OWN_TRACES / f"simulated-2-ranks-rank{rank}.json.gz" for rank in (0, 1)]


class Engine:
    """Writes the traces of its ranks piece by piece, `lasts_s` after the stop or the last step."""

    def __init__(self, folder, counts_steps=False, lasts_s=0.2, fault=""):
        self.folder, self.counts_steps, self.lasts_s = folder, counts_steps, lasts_s
        self.fault, self.asked, self.is_running = fault, [], False
        self.server = started(self)
        self.url = self.server.url

    def __call__(self, environ, start_response):
        request = Request(environ)
        answer = self.answer(request) if request.method == "POST" else Response()
        return answer(environ, start_response)

    def answer(self, request):
        self.asked.append((request.path, request.json))
        if self.fault == "no profiler":
            return Response(status=404)
        if self.fault == "not enabled":
            return Response("Profiling is not enabled. Please set --profiler-config", 500)
        if request.path == "/start_profile":
            if self.fault == "busy":
                return Response("Profiling is already in progress. Call /stop_profile first.", 400)
            self.is_running = not self.counts_steps
            answer = Response("Start profiling.\n" if self.counts_steps else "")
            if self.counts_steps:
                answer.call_on_close(self.write)
            return answer
        if not self.is_running:
            return Response("Profiling is not in progress. Call /start_profile first.", 500)
        self.is_running = False
        if self.fault != "writes nothing":
            self.write()
        if self.fault == "hangs":
            time.sleep(600)
        return Response()

    def write(self):
        time.sleep(0 if self.fault == "halts" else self.lasts_s / 4)
        for rank, trace in enumerate(RANKS):
            data = trace.read_bytes()
            with (self.folder / f"host-TP-{rank}.trace.json.gz").open("wb") as file:
                file.write(data[: len(data) // 2])
                file.flush()
                if self.fault == "dies":
                    self.end()
                    return
                time.sleep(600 if self.fault == "halts" else self.lasts_s / 2)
                file.write(data[len(data) // 2 :])

    def end(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(library, "_SETTLED_S", 0.4)
    monkeypatch.setattr(library, "_UNANSWERED_S", 1)
    monkeypatch.setattr(library, "_POLL_S", 0.05)


def captured(engine, seconds=0.2, timeout_s=120):
    found = Server(url=engine.url, folder=engine.folder).capture(
        3, seconds, timeout_s, stacks=False, shapes=True
    )
    engine.end()
    return found


@pytest.mark.parametrize("counts_steps", [False, True], ids=["vLLM", "SGLang"])
def test_the_traces_of_all_ranks_are_whole(tmp_path, counts_steps):
    old = tmp_path / "old.trace.json.gz"
    shutil.copy(RANKS[0], old)
    (tmp_path / CAPTURES).mkdir()
    shutil.copy(RANKS[0], tmp_path / CAPTURES / "capture.json.gz")
    engine = Engine(tmp_path, counts_steps, lasts_s=1)
    *found, of_graphs = captured(engine)
    assert of_graphs.relative_to(tmp_path).as_posix() == "capture_traces/capture.json.gz"
    assert [each.name for each in found] == [f"host-TP-{rank}.trace.json.gz" for rank in (0, 1)]
    assert [each.read_bytes() for each in found] == [each.read_bytes() for each in RANKS]
    path, body = engine.asked[0]
    assert path == "/start_profile"
    assert (body["num_steps"], body["with_stack"]) == (3, False)
    assert body["output_dir"] == str(tmp_path)


def test_a_stop_that_never_answers_is_not_waited_for(tmp_path):
    begun = time.monotonic()
    assert len(captured(Engine(tmp_path, fault="hangs"))) == 2
    assert time.monotonic() - begun < 120


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no profiler", "was started without its profiler: start vLLM with --profiler-config"),
        ("not enabled", "was started without its profiler"),
        ("busy", "cannot start its profiler: 400 Profiling is already in progress"),
        ("writes nothing", "wrote no trace into "),
        ("dies", r"ended before it had written host-TP-0\.trace\.json\.gz: "),
    ],
)
def test_failures_of_the_server_are_reported(tmp_path, fault, said):
    engine = Engine(tmp_path, fault=fault)
    with pytest.raises(TracekitError, match=said) as raised:
        captured(engine, timeout_s=1 if fault == "writes nothing" else 120)
    assert "\n" not in str(raised.value)


def test_a_trace_that_is_not_finished_in_time_is_reported(tmp_path):
    with pytest.raises(TracekitError, match="has not finished writing host-TP-0"):
        captured(Engine(tmp_path, fault="halts"), timeout_s=4)


def test_the_command_names_the_traces(run, refused, tmp_path):
    (tmp_path / "traces").mkdir()
    engine = Engine(tmp_path / "traces")
    done = run("capture", "--server", engine.url, "--steps", "3", "-o", "traces")
    assert done.returncode == 0, done.stderr
    *listed, then = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in listed] == then.split()[3:]
    assert then.startswith("next: tracekit analyze traces/host-TP-") and len(listed) == 2
    engine.end()
    for given, said in [
        (["--server", engine.url, "-o", "traces"], f"{engine.url}: cannot be reached: "),
        (["--server", engine.url], "--server needs the folder"),
        (["--server", engine.url, "--label", "a=b"], "pass --label to `lake add`"),
        ([], "Missing argument 'WORKLOAD' (or --server URL)."),
    ]:
        assert said in refused("capture", *given)


def test_whole_means_up_to_the_last_bracket(tmp_path):
    text = gzip.decompress(RANKS[0].read_bytes())
    for name, data, is_whole in [
        ("a.json", text, True), ("b.json", text[:-2], False), ("c.json", b"", False),
        ("d.json.gz", RANKS[0].read_bytes()[:-20], False), ("e.json", text + b"\n\n", True),
    ]:  # fmt: skip
        (tmp_path / name).write_bytes(data)
        assert library._is_whole(tmp_path / name) == is_whole, name
