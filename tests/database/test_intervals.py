"""Interval arithmetic, compared with slow and simple references."""

import itertools
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import traces
from tests.kit.sampling import sample

# A load costs more than its traces.
AT_ONCE = 8
FAST = settings(max_examples=sample("random timelines of each property, eight at once", 12, 1))

times = st.integers(0, 60)
lengths = st.integers(0, 12)
gpu_ops = st.lists(
    st.tuples(
        times,
        lengths,
        st.sampled_from([("kernel", "sgemm"), ("kernel", "ncclDevKernel"), ("gpu_memcpy", "copy")]),
        st.sampled_from([7, 20]),
        # The time from the launch's start to the op, or None without a launch.
        st.one_of(st.none(), st.integers(0, 40)),
    ),
    min_size=1,
    max_size=12,
)


def events_of(ops) -> list[dict]:
    events = []
    for correlation, (start, length, (category, name), stream, lead) in enumerate(ops, start=1):
        if lead is not None:
            events.append(traces.launch(start - lead, 1, correlation))
        events.append(
            traces.gpu_op(start, length, correlation, category=category, name=name, stream=stream)
        )
    return events


def several(timeline):
    return st.lists(timeline, min_size=AT_ONCE, max_size=AT_ONCE)


def rows_of(timelines, query: str) -> list[list[tuple]]:
    """The rows of each timeline; the query's first column is the trace_id."""
    together = traces.Together()
    for events in timelines:
        together.events(events)
    with tempfile.TemporaryDirectory() as folder, together.load(Path(folder)) as database:
        found = database.fetch(query)[1]
    return [[row[1:] for row in found if row[0] == n] for n in range(1, len(timelines) + 1)]


@FAST
@given(several(gpu_ops))
def test_the_partition_equals_a_count_and_each_gap_is_charged_by_the_op_that_ends_it(timelines):
    found = rows_of(
        [events_of(ops) for ops in timelines],
        "SELECT trace_id, activity, idle_class, sum(ns) FROM window_timeline_parts"
        " WHERE kind = 'gpu_active' GROUP BY ALL",
    )
    for ops, rows in zip(timelines, found, strict=True):
        assert {row[:2]: row[2] for row in rows} == partition(ops)


def partition(ops) -> dict:
    classes = {"sgemm": "compute", "ncclDevKernel": "communication", "copy": "copy"}
    start, end = min(op[0] for op in ops), max(op[0] + op[1] for op in ops)
    expected = Counter()
    for now in range(start, end):
        running = {classes[op[2][1]] for op in ops if op[0] <= now < op[0] + op[1]}
        if first := next((each for each in classes.values() if each in running), None):
            expected[first, None] += 1000
    covered_to = start
    for at, length, _, _, lead in sorted(ops, key=lambda op: op[0]):
        if at > covered_to:
            if lead is None:
                charged = "unlinked"
            else:
                charged = "host_late" if at - lead > covered_to else "device"
            expected["idle", charged] += (at - covered_to) * 1000
        covered_to = max(covered_to, at + length)
    return dict(expected)


@st.composite
def nested_slices(draw, start=0, end=64, depth=0):
    """Properly nested (start, end) intervals; siblings may touch, children may fill parents."""
    found = []
    at = start
    while at < end and draw(st.booleans()):
        low = draw(st.integers(at, end))
        high = draw(st.integers(low, end))
        if high > low:
            found.append((low, high))
            if depth < 3:
                found += draw(nested_slices(start=low, end=high, depth=depth + 1))
        at = max(high, at + 1)
    return found


class Slice(NamedTuple):
    """A host slice of any length, including 0. Slices need not nest."""

    at: int
    length: int
    category: str
    tid: int

    def is_open(self, at: int) -> bool:
        """Whether the slice ends after this time, or is empty and at this time."""
        return self.at <= at and (self.at + self.length > at or (self.at, self.length) == (at, 0))

    def event(self) -> dict:
        name = ("slice", "nn.Module: A", "train.py(1): step", "nn.Module: A")[self.at % 4]
        return traces.slice_event(self.category, name, self.at, self.length, tid=self.tid)


CATEGORIES = ["user_annotation", "python_function", "cpu_op"]
overlapping = st.lists(
    st.builds(
        Slice,
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from(CATEGORIES),
        st.sampled_from([1, 2]),
    ),
    max_size=14,
)


def begun(slices: list[Slice]) -> list[int]:
    """The slices' indices ordered by start; for equal intervals, the outer category first."""
    return sorted(
        range(len(slices)),
        key=lambda i: (slices[i].at, -slices[i].length, CATEGORIES.index(slices[i].category), i),
    )


nested = nested_slices().map(
    lambda found: [Slice(low, high - low, "cpu_op", 1) for low, high in found]
)


RANDOM = Random(7)
HUNDREDS = [
    Slice(RANDOM.randrange(400), RANDOM.randrange(400), RANDOM.choice(CATEGORIES), 1)
    for _ in range(600)
]


@FAST
@given(several(overlapping | nested))
def test_a_slice_is_nested_in_the_slice_that_was_open_at_its_start_and_keeps_its_length(timelines):
    timelines = [*timelines, HUNDREDS]
    found = rows_of(
        [[*(each.event() for each in slices), traces.gpu_op(0, 1)] for slices in timelines],
        "SELECT trace_id, event_id, depth, parent_id, self_ns, cpu_op_id, outer_op_id, python_id, "
        "line_id, module_id FROM host_slice JOIN host_site USING (trace_id, event_id) ORDER BY ALL",
    )
    for slices, rows in zip(timelines, found, strict=True):
        assert_nested(slices, rows)


def assert_nested(slices: list[Slice], found: list[tuple]) -> None:
    order = begun(slices)
    tree, sites = [], []
    for turn, place in enumerate(order):
        own = slices[place]
        around = [i for i in order[:turn] if slices[i].tid == own.tid and slices[i].is_open(own.at)]
        tree.append((place, len(around) + 1, around[-1] if around else None))
        ops = [i for i in (*around, place) if slices[i].category == "cpu_op"]
        frames = [i for i in (*around, place) if slices[i].category == "python_function"]
        lines = [i for i in frames if slices[i].at % 4 == 2]
        modules = [i for i in frames if slices[i].at % 2 and i != place]
        ends = (ops[-1:], ops[:1], frames[-1:], lines[-1:], modules[-1:])
        sites.append((place, *(each[0] if each else None for each in ends)))
    self_ns = dict.fromkeys(order, 0)
    end = max((each.at + each.length for each in slices), default=0)
    for now, tid in itertools.product(range(end), (1, 2)):
        running = [
            i for i in order if slices[i].tid == tid and 0 <= now - slices[i].at < slices[i].length
        ]
        if running:
            self_ns[running[-1]] += 1000
    assert [row[:3] for row in found] == sorted(tree)
    assert {row[0]: row[3] for row in found} == self_ns
    assert [(row[0], *row[4:]) for row in found] == sorted(sites)


@FAST
@given(
    several(
        st.tuples(overlapping, st.lists(st.integers(0, 44), min_size=1, max_size=4, unique=True))
    )
)
def test_a_launch_belongs_to_the_innermost_open_slice_of_each_kind(timelines):
    given_events, expected = zip(*(launched(*each) for each in timelines), strict=True)
    found = rows_of(
        given_events,
        "SELECT trace_id, event_id, cpu_op_id, python_id, module_id FROM host_site "
        "WHERE (trace_id, event_id) IN (SELECT (trace_id, launch_id) FROM launch_call) "
        "ORDER BY ALL",
    )
    assert found == list(expected)


def launched(slices: list[Slice], launches: list[int]) -> tuple[list[dict], list[tuple]]:
    """The events, and for each launch its slices."""
    events = [each.event() for each in slices]
    expected = []
    for correlation, at in enumerate(launches, start=1):
        around = [i for i in begun(slices) if slices[i].tid == 1 and slices[i].is_open(at)]
        ops = [i for i in around if slices[i].category == "cpu_op"]
        frames = [i for i in around if slices[i].category == "python_function"]
        modules = [i for i in frames if slices[i].at % 2]
        innermost = (each[-1] if each else None for each in (ops, frames, modules))
        expected.append((len(events), *innermost))
        # The launch is empty, so it is the innermost of all slices that begin at its time.
        events.append(traces.launch(at, 0, correlation) | {"tid": 1})
        events.append(traces.gpu_op(50, 1, correlation))
    return events, expected


intervals = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 30), st.integers(0, 9)), max_size=12
)


def relation(name: str, rows) -> str:
    """A CTE of intervals with one key."""
    values = [f"(1, '{label}', {i}, {at}, {at + n})" for i, (label, at, n) in enumerate(rows)]
    # A row that is filtered out gives the columns their types.
    listed = ", ".join([*values, "(2, 'none', 0, 0, 0)"])
    columns = "(key, label, event_id, start_ns, end_ns)"
    return f"{name} AS (FROM (VALUES {listed}) AS v{columns} WHERE key = 1)"


def running(rows, now: int) -> list[str]:
    return [label for label, at, n in rows if at <= now < at + n]


@settings(max_examples=sample("random intervals", 40, 6))
@given(rows=intervals, cover=intervals)
def test_unions_depths_labels_and_covered_times_are_counts_at_each_point_in_time(
    rows, cover, cases_database
):
    def ask(query: str) -> list[tuple]:
        given = f"{relation('i', rows)}, {relation('c', cover)}"
        return cases_database.fetch(f"WITH {given} SELECT {query}")[1]

    at_work = {now: running(rows, now) for now in range(40)}
    union = ask("start_ns, end_ns FROM interval_union('i') ORDER BY 1")
    assert all(a[1] < b[0] for a, b in itertools.pairwise(union))
    covered = {now for start, end in union for now in range(start, end)}
    assert covered == {now for now in at_work if at_work[now]}
    depth = {
        now: n
        for start, end, n in ask("start_ns, end_ns, depth FROM interval_depth('i')")
        for now in range(start, end)
    }
    assert depth == {now: len(at_work[now]) for now in depth}
    assert covered <= depth.keys()
    labels = {
        now: names
        for start, end, names in ask("start_ns, end_ns, labels FROM interval_labels('i')")
        for now in range(start, end)
    }
    assert labels == {now: sorted(set(at_work[now])) for now in covered}
    beside = {event: ns for _, event, ns in ask("* FROM interval_covered('i', 'c')")}
    assert beside == {
        i: sum(1 for now in range(at, at + n) if running(cover, now))
        for i, (_, at, n) in enumerate(rows)
    }
