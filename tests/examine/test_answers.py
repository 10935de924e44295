"""The committed answers: the traces that they cover, and the words for changes."""

from tests.answers import FILE, changes, committed, controls
from tests.conftest import own_trace_names

OLD = {
    "verdict": {"regime": "compute-bound", "margin": 0.473},
    "advice": [{"remedy": "cuda-graph", "saves_ns": 5_000_000}],
    "gpu": {"busy_ns": 1_000_000_001},
    "why": ["The GPU was busy.", "It stays."],
    "rest": {"links": "ab"},
}


def test_every_trace_of_the_project_has_a_committed_answer():
    own = {name.removesuffix(".json.gz") for name in own_trace_names()}
    assert own | controls().keys() <= committed().keys()
    assert FILE.stat().st_size < 2_600 * len(committed())


def test_a_change_is_described_in_words():
    new = OLD | {
        "verdict": {"regime": "compute-bound", "margin": 0.451},
        "advice": [{"remedy": "dataloader-workers", "saves_ns": 4_000_000}],
        "gpu": {"busy_ns": 1_000_000_002},
        "why": ["The GPU was idle.", "It stays."],
        "rest": {"links": "cd"},
    }
    assert changes("h100", OLD, new) == [
        "h100: margin 47.3 % -> 45.1 %, advice 1 cuda-graph -> dataloader-workers, "
        "advice 1 saves 5 ms -> 4 ms, gpu busy 1000000001 -> 1000000002, also other links",
        "  was: The GPU was busy.",
        "  now: The GPU was idle.",
    ]
    assert changes("h100", OLD, OLD) == []
    assert changes("h100", None, OLD) == ["h100: new"]
    assert changes("h100", OLD, OLD | {"why": ["It stays."]}) == [
        "h100: other sentences",
        "  was: The GPU was busy.",
    ]
