"""Rules on candidates, and what is said of an event, without a trace."""

from tests.kit.atoms import MS
from tests.kit.evidenced import one_off
from tests.kit.graphs import graph
from tracekit.evidence.collect import events_of
from tracekit.evidence.model import CallSite
from tracekit.replay.one_offs import is_not_the_only_input, takes_longer, waits_for_no_turn
from tracekit.thresholds import Thresholds


def test_an_event_of_usual_length_is_not_a_one_off():
    assert takes_longer(one_off(), None, Thresholds())
    assert not takes_longer(one_off(usual_ns=MS, excess_ns=0), None, Thresholds())


def test_a_thread_that_stands_still_while_another_one_launches_is_not_a_one_off():
    threads = [[("python", 9 * MS)]] * 2
    for thread in (0, 1):
        launching = graph(threads, [(thread, at) for at in range(0, MS, MS // 10)])
        assert waits_for_no_turn(one_off(), launching, Thresholds()) is (thread == 0)


def test_input_that_nothing_is_compared_with_is_not_a_one_off():
    for later in ("python", "input"):
        stretches = [("input", MS), ("dispatch", 2 * MS), (later, 6 * MS)]
        loading = graph([stretches], [(0, 2 * MS)])
        is_one_off = is_not_the_only_input(one_off(cause="input"), loading, Thresholds())
        assert is_one_off is (later == "input")


def test_events_cut_off_by_the_end_of_the_recording_are_not_listed():
    assert events_of([one_off(kind="unended")], {}) == []


def test_the_parts_of_a_step_are_one_event_with_the_excess_of_all_threads():
    step = {"kind": "step", "event_id": None}
    (event,) = events_of([one_off(**step), one_off(**step, begin=MS, end=2 * MS)], {})
    assert (event.excess_ns, event.side, event.place) == (2 * MS, "host", None)


def test_the_parts_of_a_step_on_the_device_are_one_event_for_each_cause():
    step = {"kind": "step", "event_id": None, "ops": frozenset([1])}
    events = events_of([one_off(**step, cause="math"), one_off(**step, cause="copy")], {})
    assert [(each.side, each.cause) for each in events] == [("device", "math"), ("device", "copy")]


def test_an_event_is_listed_with_its_place_and_a_capture_as_one():
    site = {1: CallSite(module="Net_0", python_line="train.py(7): warm")}
    (event,) = events_of([one_off(kind="capture", cause="compilation")], site)
    assert (event.cause, event.place, event.event_id) == ("capture", "train.py(7): warm", 1)
