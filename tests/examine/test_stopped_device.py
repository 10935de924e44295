"""A device whose recording stops before the host's: whole steps are judged, others are not."""

import json

import pytest

import tracekit
from tests.kit import simulated
from tests.kit.answered import shown
from tests.kit.atoms import US, Launch, Sync, operator, step
from tests.kit.simulator import Machine, Simulation

# The device is the slower side in the first program, the host in the second.
PROGRAMS = {
    "compute-bound": operator("aten::mm", 5 * US, Launch(5 * US, (("math", 900 * US),))),
    "overhead-bound": operator("aten::mm", 400 * US, Launch(5 * US, (("math", 50 * US),))),
}


@pytest.mark.parametrize("regime", PROGRAMS)
def test_steps_that_a_device_did_not_record_are_not_judged(tmp_path, regime):
    steps = [step(number, *[PROGRAMS[regime]] * 20, Sync(2 * US)) for number in range(6)]
    path = simulated.write(tmp_path / "whole.json", Simulation(steps, Machine()))
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    ops = sorted(each["ts"] for each in events if each.get("cat") == "kernel")
    # Three steps and a half.
    stop = ops[70]
    trace["traceEvents"] = [e for e in events if e.get("cat") != "kernel" or e["ts"] < stop]
    (tmp_path / "stopped.json").write_text(json.dumps(trace))
    with tracekit.load(tmp_path / "stopped.json") as run:
        found = run.verdict()
        units = run.query("units").row(0, named=True)
    with tracekit.load(path) as run:
        whole = run.verdict()
    assert (found.regime, whole.regime) == (regime, regime)
    assert found.judged.window.span_ns == pytest.approx(whole.judged.window.span_ns, rel=0.02)
    assert [each.regime == "unknown" for each in found.steps] == [False] * 3 + [True] * 3
    assert (units["count"], units["whole"]) == (6, 3)
    assert units["min_ns"] == pytest.approx(whole.judged.window.span_ns, rel=0.02)
    assert "3 cut off" in shown(found).screen
    assert not found.one_offs
