"""A late clock of a device shows in ops that never start soon, even on an idle device."""

import pytest

from tests.kit import traces
from tests.kit.traces import gpu_op, launch, slice_event

TRACES = traces.Together()
US = 1_000
COUNT, APART, LATE = 30, 100, 5_000


def program(starts, took=20, call=5):
    """A launch each 100 us after an operator of 50, and ops that start then, all in us."""
    return [
        event
        for n, start in enumerate(starts)
        for event in (
            slice_event("cpu_op", "aten::add", APART * n - 60, 50),
            launch(APART * n, call, n + 1), gpu_op(start, took, n + 1),
        )
    ]  # fmt: skip


PROMPT = program([APART * n + 6 for n in range(COUNT)])
EQUALLY_LATE = program([APART * n + 6 + LATE for n in range(COUNT)])
# Look-alikes: work that is queued behind work that was not recorded, ops that wait for another
# device for different times, and calls that prepare their op for long.
QUEUED = program([LATE + 101 * n for n in range(COUNT)], took=101)
WAITING = program([APART * n + 6 + LATE + 37 * (n % 20) for n in range(COUNT)])
PREPARING = program([APART * n + 96 for n in range(COUNT)], took=2, call=95)


def late(database, trace):
    query = f"SELECT late_ns FROM late_clock WHERE trace_id = {trace}"
    return [ns for (ns,) in database.fetch(query)[1]]


@pytest.mark.parametrize("trace", [TRACES.events(EQUALLY_LATE)])
def test_gaps_are_attributed_on_the_clock_of_the_host(trace, loaded):
    assert late(loaded, trace) == [(LATE + 6) * US]
    query = """SELECT idle_class, cause, sum(end_ns - start_ns)::BIGINT AS ns FROM gpu_timeline
        WHERE trace_id = {} AND activity = 'idle' AND op_id IS NOT NULL AND start_ns > {}
        GROUP BY ALL ORDER BY ALL"""
    begin = (LATE + 6) * US
    rows = loaded.fetch(query.format(trace, begin))[1]
    gaps = COUNT - 1
    # An op ends 20 us after its launch began; until the next operator, nothing is recorded.
    expected = {"dispatch": 50, "untraced": 80 - 50}
    assert {(kind, cause): ns for kind, cause, ns in rows} == {
        ("host_late", cause): gaps * us * US for cause, us in expected.items()
    }


@pytest.mark.parametrize(
    "trace", [TRACES.events(each) for each in (PROMPT, QUEUED, WAITING, PREPARING)]
)
def test_a_clock_on_time_is_not_late(trace, loaded):
    assert not late(loaded, trace)


@pytest.mark.parametrize("trace", [TRACES.events(EQUALLY_LATE)])
def test_a_run_with_a_late_clock_is_judged_by_the_host_all_the_same(trace, loaded):
    analysis = loaded.verdict(trace)
    assert analysis.causal.clock_shift_ns == -(LATE + 6) * US
    assert analysis.verdict.regime == "overhead-bound"
    assert analysis.verdict.confidence != "high"
    assert any("clock was set back by 5.01 ms" in why for why in analysis.verdict.why)
    assert analysis.launch.queue_depth_p50 <= 1
