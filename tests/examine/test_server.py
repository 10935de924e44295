"""Verdicts on simulated servers: their engines, and the front end beside them."""

from dataclasses import replace

import pytest

import tracekit
from tests.kit.atoms import MS, US
from tests.kit.servers_simulated import Server, ServerRun, write_server

SLOW_FRONT_END = Server(handling_ns=900 * US, request_ns=0, in_rounds=True)
SLOW_SCHEDULER = Server(scheduling_ns=2 * MS)
UNEVEN = Server(requests=(8, 16), per_request_ns=200 * US)
# What a server is, what holds it up, and the server without the fault.
FAULTS = {
    "a saturated front end": (
        SLOW_FRONT_END,
        "front-end",
        "The front end holds the server up: an engine waits 77.7 of 233 ms for it",
        replace(SLOW_FRONT_END, handling_ns=0),
    ),
    "a scheduler between decodes": (
        SLOW_SCHEDULER,
        "scheduling",
        "The scheduler holds the server up: the device waits 76 of 233 ms for it",
        replace(SLOW_SCHEDULER, is_overlapped=True),
    ),
    "engines that share requests unevenly": (
        UNEVEN,
        "imbalance",
        "2 engines share the requests unevenly: rank 1 has 14.8 of 22.2 at once",
        replace(UNEVEN, requests=(12, 12)),
    ),
}
# Servers that look like these, and have no fault.
ALIKE = {
    "a busy front end beside the engine": Server(handling_ns=400 * US, scheduling_ns=100 * US),
    "a slow scheduler beside the device": replace(SLOW_SCHEDULER, is_overlapped=True),
    "engines that share requests evenly": replace(
        UNEVEN, requests=(12, 12), scheduling_ns=100 * US
    ),
}


def judged(folder, server):
    recorded = write_server(folder, server)
    with tracekit.load(folder) as run:
        return recorded, run.together()


@pytest.mark.parametrize("name", FAULTS)
def test_what_holds_a_server_up_is_named_and_priced(name, tmp_path):
    server, fault, headline, mended = FAULTS[name]
    recorded, verdict = judged(tmp_path / "server", server)
    assert verdict.headline == headline
    best = verdict.savings[0]
    assert best.remove == fault
    left_ns = recorded.span_ns * (1 - best.share)
    assert left_ns == pytest.approx(ServerRun(mended).span_ns, rel=0.05)


@pytest.mark.parametrize("name", ALIKE)
def test_a_server_without_a_fault_is_told_nothing_to_mend(name, tmp_path):
    _, verdict = judged(tmp_path / "server", ALIKE[name])
    assert verdict.headline.startswith(("The device works ", "2 ranks: all are compute-bound"))
    assert not verdict.savings


def test_where_the_time_of_a_decode_goes(tmp_path):
    _, verdict = judged(tmp_path / "server", Server())
    assert verdict.why[0] == (
        "A decode takes 4.32 ms (mean of 39): 4 ms on the device, 292 us scheduling, 25 us other "
        "work of the host; beside it the front end works 471 us, mostly detokenizing."
    )


def test_without_stacks_of_the_engine_its_waits_are_unknown(tmp_path):
    _, verdict = judged(tmp_path / "server", replace(SLOW_FRONT_END, has_stacks=False))
    assert "waiting for requests" not in verdict.why[0]
    assert not verdict.savings
    assert verdict.headline == (
        "The front end holds the server up: it works 95.2 % of its time, and requests queue"
    )


@pytest.mark.parametrize(
    ("server", "regime", "headline"),
    [
        (Server(), "unknown",
         "This is a server's front end: it works 19.2 of 169 ms, mostly detokenizing (10.1 ms)."),
        (SLOW_FRONT_END, "overhead-bound",
         "The front end of this server holds it up: it works 259 of 272 ms, mostly detokenizing "
         "(181 ms)."),
    ],
)  # fmt: skip
def test_a_front_end_alone_says_what_it_is_and_how_busy(server, regime, headline, tmp_path):
    write_server(tmp_path, server)
    with tracekit.load(next(tmp_path.glob("*.async_llm.*"))) as run:
        verdict = run.verdict()
        assert (verdict.verdict.regime, verdict.verdict.headline) == (regime, headline)
        remedies = [each.remedy for each in verdict.advice]
        assert remedies == ["more-front-ends"] * (regime == "overhead-bound")
