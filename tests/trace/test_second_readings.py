"""Perfetto traces and XLA profiles at random have the rows that a second reader reads in them, by
protobuf's own decoder."""

import json
from collections import Counter

import pytest

import tracekit
from tests.kit import perfetto_any, perfetto_reference, traces, xplane_any
from tests.kit.sampling import sample

ROWS = """
SELECT phase, category, name, pid, tid, ts_ns, dur_ns, flow_id, flow_bind, args,
    -- A counter's name is no argument.
    CASE phase WHEN 'C' THEN [] ELSE [correlation, external_id, device_id, stream] END
FROM event WHERE trace_id = {} AND ({} OR phase <> 'M')
"""
READERS = {
    "pftrace": (perfetto_any.trace, perfetto_reference.events),
    "xplane.pb": (xplane_any.profile, xplane_any.events),
}


def rows(run, trace_id, ending):
    """The events of a trace with their numbers; arguments are decoded, since order and escapes may
    differ, and so may the numbers of processes that are called by a text with blanks."""

    def plain(at, value):
        if at in (3, 4) and value is not None and value < -1_000_000:
            return "text"
        return json.dumps(json.loads(value or "null"), sort_keys=True) if at == 9 else value

    found = run.fetch(ROWS.format(trace_id, ending == "pftrace"))[1]
    return Counter(repr([plain(at, value) for at, value in enumerate(row)]) for row in found)


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize("first", sample("first seeds of ten traces at random", range(40), [0, 1]))
def test_any_trace_has_the_rows_of_a_second_reader(first, ending, tmp_path):
    paths = []
    made, read = READERS[ending]
    for seed in range(10 * first, 10 * first + 10):
        text = made(seed)
        events = read(text)
        if not events:
            continue
        paths += [tmp_path / f"{seed}.{ending}", tmp_path / f"{seed}.json"]
        paths[-2].write_bytes(text)
        traces.write(paths[-1], events)
    with tracekit.load(paths, verdicts=False) as run:
        ids = run.trace_ids()
        for ours, theirs in zip(ids[::2], ids[1::2], strict=True):
            found, expected = rows(run, ours, ending), rows(run, theirs, ending)
            assert found - expected == expected - found == Counter(), paths[ours - 1]
