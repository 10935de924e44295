"""Prefetching: items in order, the next one made early, errors at their place."""

import threading

import pytest

from tracekit.trace.prefetch import prefetched


def test_items_come_in_order_and_from_another_thread():
    made_by = []

    def items():
        for item in range(5):
            made_by.append(threading.current_thread())
            yield item

    with prefetched(items()) as made:
        assert list(made) == list(range(5))
    assert threading.current_thread() not in made_by


def test_the_next_item_is_made_while_the_last_is_in_use():
    second_is_made = threading.Event()

    def items():
        yield "first"
        second_is_made.set()
        yield "second"

    with prefetched(items()) as made:
        assert next(made) == "first"
        assert second_is_made.wait(10)
        assert list(made) == ["second"]


def test_an_error_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("broken")

    with prefetched(items()) as made:
        assert next(made) == 1
        with pytest.raises(ValueError, match="broken"):
            next(made)


def test_the_thread_ends_with_the_block():
    before = threading.enumerate()
    with prefetched(iter(range(5))) as made:
        assert next(made) == 0
        assert threading.enumerate() != before
    assert threading.enumerate() == before
