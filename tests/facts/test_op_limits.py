"""Lower bounds of the work of kernels whose shapes were not recorded."""

import gzip
import json

import pytest

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES

KNOWN = """
    SELECT event_id, flops, bytes FROM op_limit WHERE source = 'call' AND event_id IN
        (SELECT event_id FROM gpu_ops WHERE class <> 'other')
"""
BOUNDS = "SELECT event_id, source, flops, bytes FROM op_limit WHERE NOT is_exact"


@pytest.mark.parametrize(
    ("path", "sources"),
    [
        (OWN_TRACES / "h100/train-step.json.gz", {"grid"}),
        (OWN_TRACES / "h100/attention-naive.json.gz", {"grid"}),
        (SHARED_TRACES / "b200-vllm-eager.json.gz", {"grid", "tiles"}),
        (SHARED_TRACES / "h100-owlv2.json.gz", {"grid"}),
    ],
    ids=lambda each: getattr(each, "stem", ""),
)
@pytest.mark.sampled(3)
def test_bounds_are_below_the_work_that_shapes_tell(path, sources, tmp_path):
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(path) as run:
        known = {op: (flops, moved) for op, flops, moved in run.fetch(KNOWN)[1]}
    document = json.loads(gzip.decompress(path.read_bytes()))
    for event in document["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document))
    with tracekit.load(bare) as run:
        bounds = run.fetch(BOUNDS)[1]
    # The tile at an edge counts as a whole one.
    above = [
        row
        for row in bounds
        if row[0] in known and any(row[n] > 1.05 * known[row[0]][n - 2] for n in (2, 3))
    ]
    assert above == []
    assert {source for _, source, *_ in bounds} == sources
