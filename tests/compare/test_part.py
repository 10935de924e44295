"""A part of a trace is a valid trace, and agrees with the whole trace on its events."""

import json

import pytest

import tracekit
from tests.conftest import OWN_TRACES, shared_trace_names
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.perfetto.part import PartChoice

# For each trace, a step with others before and after it.
STEPS = {
    "a100-nccl.json.gz": 5,
    "mi300x-resnet-checkpoint.json.gz": 16,
    "a100-diff-control.json.gz": 1011,
    "v100-ns-resolution.json.gz": 103,
    "v100-compiled-ddp.json.gz": 4,
}
NAMES = list(STEPS) if len(shared_trace_names()) > 1 else shared_trace_names()
OVERHEAD = "simulated-overhead-bound.json.gz"


def said(run, window):
    found = run.verdict(window=window)
    verdict = found.verdict
    return found.judged.window, found.gpu, verdict.regime, verdict.bottleneck


def events(path):
    return json.loads(path.read_text())["traceEvents"]


@pytest.mark.sampled(3, of=5)
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_on_a_step_is_that_of_the_whole_trace(name, shared_database, tmp_path):
    whole = shared_database(name)
    count = PartChoice(step=STEPS[name]).write(whole.session, tmp_path / "part.json")
    with tracekit.load(tmp_path / "part.json") as part:
        assert part.traces()[0]["events"] == count < whole.traces()[0]["events"]
        window = f"ProfilerStep#{STEPS[name]}"
        assert said(part, window) == said(whole, window)
        assert [row["name"] for row in part.ask("replay_steps")] == [window]
        # Its events equal those of the whole trace, and do not refer to missing events.
        unlinked = "SELECT count(*) FROM gpu_ops ANTI JOIN gpu_op_launch USING (trace_id, event_id)"
        assert part.fetch(unlinked)[1] <= whole.fetch(unlinked)[1]
        loose = "SELECT flow_id FROM flows GROUP BY flow_id, category HAVING count(*) = 1"
        assert set(part.fetch(loose)[1]) <= set(whole.fetch(loose)[1])
        assert part.fetch("SELECT count(*) > 100 FROM flows")[1] == [(True,)]


def test_an_interval_has_all_that_overlaps_it_with_its_launches(run, tmp_path):
    done = run("export", str(OWN_TRACES / OVERHEAD), "-o", "part.json", "--from", "1", "--to", "2")
    assert done.returncode == 0, done.stderr
    with (
        tracekit.load(OWN_TRACES / OVERHEAD) as whole,
        tracekit.load(tmp_path / "part.json") as part,
    ):
        start = whole.traces()[0]["start_ns"]
        expected = whole.fetch(
            f"SELECT count(*) FROM kernels WHERE start_ns <= {start + 2_000_000} "
            f"AND end_ns >= {start + 1_000_000}"
        )[1]
        inside = (
            f"SELECT count(*) FROM gpu_op_launch JOIN kernels USING (trace_id, event_id) "
            f"WHERE start_ns <= {start + 2_000_000} AND end_ns >= {start + 1_000_000}"
        )
        assert part.fetch(inside)[1] == expected
        assert expected[0][0] > 0


def test_a_part_is_no_larger_than_allowed(tmp_path):
    path = tmp_path / "part.json"
    with tracekit.load(OWN_TRACES / OVERHEAD) as whole:
        sizes = []
        for max_mb in (0.004, 0.008, 0.012):
            PartChoice(max_mb=max_mb).write(whole.session, path)
            sizes.append(len(path.read_bytes()) / 1e6)
            assert max_mb / 2 < sizes[-1] <= max_mb
        with pytest.raises(TracekitError, match="no part of it is that small"):
            PartChoice(max_mb=0.0001).write(whole.session, path)


def test_a_range_is_a_part_by_its_name_and_number(tmp_path):
    text = [{"ph": "X", "cat": "user_annotation", "name": "eval", "pid": 5, "tid": 5, "ts": ts,
             "dur": 50} for ts in (0, 100, 200)]  # fmt: skip
    text += [{"ph": "X", "cat": "cpu_op", "name": f"aten::mm{ts}", "pid": 5, "tid": 5, "ts": ts,
              "dur": 20} for ts in (10, 110, 210)]  # fmt: skip
    for number, ts in enumerate((15, 115, 215)):
        args = {"correlation": number}
        text += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5,
             "ts": ts, "dur": 4, "args": args},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts + 10,
             "dur": 9, "args": args | {"device": 0, "stream": 7}},
        ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": text}))
    with tracekit.load(tmp_path / "t.json") as run:
        run.export(tmp_path / "part.json", window="eval@2")
    assert sorted(each["ts"] for each in events(tmp_path / "part.json")) == [100, 110, 115, 125]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--step", "77"], "has no step 77; its steps: "),
        (["--window", "nope"], "no window or range is named 'nope'"),
        (["--rank", "9"], "has no rank 9; its ranks are None"),
        (["--from", "99999"], "nothing is there: it lasts "),
        (["--step", "1", "--window", "trace"], "choose one of --step, --window, and --from"),
        (["--step", "1", "--format", "speedscope"], "a part is written as a trace"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(given, message, run, tmp_path):
    done = run("export", str(OWN_TRACES / OVERHEAD), "-o", "part.json", *given)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "part.json").exists()


def test_a_rank_is_chosen_out_of_several(run, tmp_path):
    ranks = [str(OWN_TRACES / f"simulated-2-ranks-rank{rank}.json.gz") for rank in (0, 1)]
    assert run("load", *ranks, "-o", "run.duckdb").returncode == 0
    assert run("export", "run.duckdb", "-o", "one.json", "--rank", "1").returncode == 0
    assert json.loads((tmp_path / "one.json").read_text())["distributedInfo"]["rank"] == 1


def test_open_shows_a_part(run, monkeypatch):
    from click.testing import CliRunner

    from tracekit.perfetto import serving

    served = []
    monkeypatch.setattr(serving.TraceServer, "__init__", lambda self, file: served.append(file))
    monkeypatch.setattr(serving.TraceServer, "__enter__", lambda self: self)
    monkeypatch.setattr(serving.TraceServer, "__exit__", lambda self, *_: None)
    monkeypatch.setattr(serving.TraceServer, "url", "http://here")
    kept = []

    def read(self, timeout_s):
        with tracekit.load(served[0]) as run:
            kept.extend(row["name"] for row in run.ask("replay_steps"))

    monkeypatch.setattr(serving.TraceServer, "serve_once", read)
    with tracekit.load(OWN_TRACES / OVERHEAD) as whole:
        step = whole.ask("replay_steps")[1]["name"]
    path = str(OWN_TRACES / OVERHEAD)
    done = CliRunner().invoke(cli, ["open", path, "--window", step, "--print-url"])
    assert done.exit_code == 0, done.output
    assert kept == [step]
