"""Rates of many parts with few distinct values: they behave as if each part had its own rate."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.replay.graph.arrays import Rates

PARTS, CAUSES = 12, 3
factors = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])
flags = st.lists(st.booleans(), min_size=PARTS, max_size=PARTS).map(np.array)
changes = st.one_of(
    st.tuples(st.just("all"), factors, st.none()),
    st.tuples(st.just("cause"), factors, st.integers(0, CAUSES - 1)),
    st.tuples(st.just("where"), factors, flags),
    st.tuples(
        st.just("each"), st.lists(factors, min_size=4, max_size=4), st.permutations(range(PARTS))
    ),
)


@given(st.lists(changes, max_size=8), st.lists(st.integers(0, 10**6), min_size=12, max_size=12))
def test_any_changes_are_those_of_each_part(asked, lengths):
    cause = np.arange(PARTS, dtype=np.int8) % CAUSES
    ns = np.array(lengths, np.int64)
    rates, expected = Rates.of(cause), np.ones(PARTS)
    for what, factor, which in asked:
        if what == "all":
            rates.scale(factor)
            expected *= factor
        elif what == "cause":
            rates.scale_cause(which, factor)
            expected[cause == which] *= factor
        elif what == "where":
            rates.scale(factor, which)
            expected[which] *= factor
        else:
            some = np.array(which[: len(factor)])
            rates.scale_each(np.array(factor), some)
            expected[some] *= factor
    whole = rates.times(ns)
    assert whole.dtype == np.int64
    assert np.array_equal(whole, np.rint(ns * expected))
    assert np.array_equal(rates.times(ns[3:7], slice(3, 7)), whole[3:7])
    few = np.array([8, 2, 2])
    assert np.array_equal(rates.times(ns[few], few), whole[few])
    # The parts' causes are the recording's own: no change may touch them.
    assert np.array_equal(cause, np.arange(PARTS) % CAUSES)


def test_unscaled_times_are_exact_at_any_length():
    rates = Rates.of(np.zeros(2, np.int8))
    long = np.array([2**62 + 1, 3], np.int64)
    assert rates.times(long).tolist() == long.tolist()
    rates.scale(0.5, np.array([False, True]))
    assert rates.times(long).tolist() == [2**62 + 1, 2]
