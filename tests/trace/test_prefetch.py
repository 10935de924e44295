"""Prefetching: items in order, the next one made early, errors at their place."""

import threading

import pytest

from tracekit.trace.prefetch import prefetched


def test_items_come_in_order_each_made_by_another_thread_while_the_last_is_in_use():
    made_by, second_is_made, before = [], threading.Event(), threading.enumerate()

    def items():
        made_by.append(threading.current_thread())
        yield "first"
        second_is_made.set()
        yield "second"

    with prefetched(items()) as made:
        assert next(made) == "first"
        assert second_is_made.wait(10)
        assert list(made) == ["second"]
    assert threading.current_thread() not in made_by
    # Also a thread with items left ends with the block.
    with prefetched(iter(range(5))) as made:
        assert next(made) == 0
        assert threading.enumerate() != before
    assert threading.enumerate() == before


def test_an_error_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("broken")

    with prefetched(items()) as made:
        assert next(made) == 1
        with pytest.raises(ValueError, match="broken"):
            next(made)
