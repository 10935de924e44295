"""Questions that compare the traces of several ranks."""

import json

import tracekit
from tests.kit.traces import gpu_op, launch, operator, step

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def collective(start_us, dur_us, correlation, *, nelems=1000, n=4, sequence=None, name=ALLREDUCE):
    event = gpu_op(start_us, dur_us, correlation, name=name, stream=9)
    event["args"] |= {
        "Collective name": "allreduce", "In msg nelems": nelems, "Out msg nelems": nelems,
        "Group size": n, "dtype": "Float", "Process Group Name": "0",
        "Process Group Ranks": str(list(range(n))),
    }  # fmt: skip
    if sequence is not None:
        event["args"]["Seq"] = sequence
    return event


def rank_trace(folder, rank, events, base=0):
    path = folder / f"rank{rank}.json"
    text = {
        "traceEvents": events, "baseTimeNanoseconds": base,
        "distributedInfo": {"rank": rank, "world_size": 2},
    }  # fmt: skip
    path.write_text(json.dumps(text))
    return path


def late_in_turns(folder):
    """The traces of two ranks: rank 1 is late for the first collective, rank 0 for the second; each
    ends on both at once."""
    return [
        rank_trace(folder, rank, [
            step(1, 0, 100), launch(1, 1, 1), collective(*first, 1, sequence=5),
            launch(50, 1, 2), collective(*second, 2, sequence=6),
        ])
        for rank, (first, second) in enumerate([((10, 30), (75, 5)), ((34, 6), (60, 20))])
    ]  # fmt: skip


def test_traces_of_different_jobs_are_not_matched(tmp_path):
    one = rank_trace(tmp_path, 0, [collective(10, 5, 1)])
    other = rank_trace(tmp_path, 1, [collective(10, 9, 1)], base=3600 * 10**9)
    with tracekit.load([one, other]) as run:
        assert run.ask("collective_skew") == run.ask("stragglers") == []
        assert "one_rank" in [row["code"] for row in run.doubts("stragglers")]


def test_ranks_wait_for_the_one_that_comes_last(tmp_path):
    with tracekit.load(late_in_turns(tmp_path)) as run:
        skew = {row["place"]: row for row in run.ask("collective_skew")}
        ranks = {row["rank"]: row for row in run.ask("stragglers")}
        named = run.ask("waiting_for_a_rank")
    assert (skew[5]["late_rank"], skew[5]["wire_ns"], skew[5]["wait_ns"]) == (1, 6_000, 24_000)
    assert (skew[6]["late_rank"], skew[6]["wire_ns"], skew[6]["wait_ns"]) == (0, 5_000, 15_000)
    assert (skew[5]["start_skew_ns"], skew[5]["matched_by"]) == (24_000, "sequence number")
    assert (ranks[0]["waited_ns"], ranks[0]["held_up_ns"], ranks[0]["times_last"]) == (
        24_000, 15_000, 1,
    )  # fmt: skip
    assert (ranks[1]["waited_ns"], ranks[1]["held_up_ns"]) == (15_000, 24_000)
    assert [(row["trace_id"], row["place"], row["factor"]) for row in named] == [
        (1, "rank 1", 6 / 30), (2, "rank 0", 5 / 20),
    ]  # fmt: skip


def test_without_sequence_numbers_collectives_match_by_their_place_in_the_step(tmp_path):
    # The recording of rank 0 begins one collective earlier.
    first = rank_trace(tmp_path, 0, [
        launch(1, 1, 9), collective(3, 1, 9),
        step(1, 10, 90), launch(11, 1, 1), collective(20, 30, 1),
    ])  # fmt: skip
    second = rank_trace(tmp_path, 1, [step(1, 10, 90), launch(11, 1, 1), collective(40, 10, 1)])
    with tracekit.load([first, second]) as run:
        (row,) = run.ask("collective_skew")
    assert (row["matched_by"], row["step"], row["place"]) == ("place in step", 1, 1)
    assert (row["wire_ns"], row["wait_ns"], row["late_rank"]) == (10_000, 20_000, 1)


def test_a_call_stops_where_it_takes_far_longer_than_calls_of_its_name_on_all_ranks(tmp_path):
    for rank in range(2):
        events = [operator("aten::mm", at, 20) for at in range(0, 600, 30)]
        # The first call of a name loads code; a call that has others in it waits for them.
        events += [operator("aten::add", 1000, 5000), operator("aten::add", 7000, 30)]
        if rank:
            events += [operator("aten::mm", 10_000, 4000), operator("aten::mm", 20_000, 4000)]
            events.append(operator("aten::empty", 20_100, 3500))
        rank_trace(tmp_path, rank, [*events, step(1, 0, 30_000), launch(30_100, 1, 1),
                                    collective(30_200, 5, 1)])  # fmt: skip
    with tracekit.load([tmp_path / f"rank{rank}.json" for rank in range(2)]) as run:
        (row,) = run.ask("rank_stops")
    assert (row["rank"], row["name"], row["dur_ns"], row["usual_ns"]) == (
        1, "aten::mm", 4_000_000, 20_000,
    )  # fmt: skip
