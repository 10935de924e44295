"""Queries run in threads of their own, which are used again."""

import os
import threading

import pytest

import tracekit
from tests.kit import traces
from tracekit.database.interrupt import interruptible
from tracekit.errors import TracekitError


def test_work_runs_in_one_thread_again_and_again():
    threads = {interruptible(threading.get_ident, int) for _ in range(5)}
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_work_that_runs_at_the_same_time_has_threads_of_its_own():
    met = threading.Barrier(2, timeout=10)

    def outer() -> int:
        other = threading.Thread(target=lambda: interruptible(met.wait, int))
        other.start()
        place = met.wait()
        other.join()
        return place

    assert interruptible(outer, int) in (0, 1)


def test_after_work_that_fails_or_takes_too_long_the_next_is_done():
    stopped = threading.Event()
    with pytest.raises(TracekitError, match=r"took longer than 0\.01 s"):
        interruptible(lambda: stopped.wait(10), stopped.set, timeout_s=0.01)
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, int)
    assert interruptible(lambda: 1, int) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(tmp_path):
    traces.write(tmp_path / "t.json", [traces.slice_event("cpu_op", "op", 1, 1)])
    with tracekit.load(tmp_path / "t.json", tmp_path / "run.duckdb") as run:
        assert len(run.traces()) == 1
    child = os.fork()
    if not child:
        with tracekit.open_database(tmp_path / "run.duckdb") as own:
            os._exit(0 if len(own.traces()) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
