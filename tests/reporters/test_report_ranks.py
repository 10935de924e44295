"""The page of several ranks: who waits for whom, by one clock, and a page for each that fits."""

import pytest
from msgspec.structs import replace

import tracekit
from tests.kit import ranks_simulated, traces
from tests.kit.atoms import US
from tests.kit.ranks_simulated import LOGGING, Job
from tests.kit.traces import gpu_op, launch
from tests.kit.traces import step as marked
from tests.questions.test_ranks import collective
from tests.reporters.test_report_sweep import found_sweep
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.reporters import colors
from tracekit.reporters.html import rank_figures, reports, trace
from tracekit.reporters.html.page import page
from tracekit.reporters.html.rank_figures import ranks_view
from tracekit.reporters.html.ranks import Ranks, in_order_of_interest
from tracekit.reporters.html.subject import Replayed, Subject

RANKS, LATE, STEPS = 3, 1, 3
LATE_NS = 1_200 * US
# How far the clock of each rank is ahead.
AHEAD_NS = [0, 5_000_000, -123_456]
HOSTILE = "</script><img src=x onerror=alert(1)>\u202etxt"


def judged(run):
    with run.session.sharing():
        return [run.verdict(each) for each in run.trace_ids()]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The database, in a file, of ranks one of which has a slow host; their clocks differ."""
    folder = tmp_path_factory.mktemp("ranks")
    clocks = dict(enumerate(AHEAD_NS))
    made = Job(RANKS, steps=STEPS, kernel_ns=40 * US, late={LATE: LATE_NS}, clocks=clocks)
    ranks_simulated.write(folder, made, baseTimeNanoseconds=10**18)
    with tracekit.load(folder, folder / "job.duckdb", verdicts=False) as run:
        yield run


@pytest.fixture(scope="module")
def analyses(job):
    return judged(job)


@pytest.fixture(scope="module")
def view(job, analyses):
    return ranks_view(job, analyses)


@pytest.fixture(scope="module")
def figures(view):
    return view.figures


def test_clocks_are_aligned_by_the_ends_of_collectives(job):
    found = {row["rank"]: row for row in job.ask("rank_clocks")}
    assert [found[rank]["offset_ns"] for rank in range(RANKS)] == pytest.approx(AHEAD_NS, abs=3)
    assert max(row["residual_ns"] for row in found.values()) <= 3
    assert [found[rank]["compared"] for rank in range(RANKS)] == [0] + [STEPS] * (RANKS - 1)
    assert max(abs(row["begins_ns"]) for row in found.values()) < 10 * US
    rows = job.ask("collective_times")
    assert len(rows) == STEPS * RANKS
    for number in range(1, STEPS + 1):
        of_step = [row for row in rows if row["step"] == number]
        ends = [row["end_ns"] for row in of_step]
        begun = [row["start_ns"] + row["wait_ns"] for row in of_step]
        assert max(ends) - min(ends) <= 10 and max(begun) - min(begun) <= 10


def test_waits_of_pairs_add_up_to_those_of_each_rank(job):
    waited, held_up = dict.fromkeys(range(RANKS), 0), dict.fromkeys(range(RANKS), 0)
    for row in job.ask("rank_waits"):
        waited[row["waiting_rank"]] += row["wait_ns"]
        held_up[row["awaited_rank"]] += row["wait_ns"]
    for row in job.ask("stragglers", top=10**6):
        waited[row["rank"]] -= row["waited_ns"]
        held_up[row["rank"]] -= row["held_up_ns"]
    assert not any(waited.values())
    assert not any(held_up.values())


@pytest.mark.thorough
def test_the_late_rank_is_named_with_its_own_cause_and_place(job, analyses, view, figures):
    found = view.facts["ranks"]
    assert found.headline == f"{RANKS} ranks: the others wait most for rank {LATE}"
    told = " ".join(found.reasons)
    assert f"for rank {LATE}, which comes last in {STEPS} of {STEPS} collectives" in told
    said = "more on python in the average step than the median of the ranks that do the same"
    assert f"{said}, most of it in {LOGGING}" in told
    assert "recording begins" not in told
    worst = figures["excess"].rows.row(0, named=True)
    assert (worst["name"], worst["part"]) == (f"rank {LATE}", "waits for Python")
    assert LATE_NS / 2 < worst["excess_ns"] <= LATE_NS
    assert found.first[0].trace.rank == LATE
    assert in_order_of_interest(job)[:2] == [1, LATE + 1]


def test_sentences_on_ranks_are_in_the_order_of_what_they_cost(job, analyses):
    found = Ranks(job, analyses)
    costs = {0: 5, 1: 9, 2: 0}
    for analysis in found.analyses:
        held_up = found.waits[analysis.trace.trace_id]
        held_up["held_up_ns"] = costs[analysis.trace.rank]
    said = ["All wait.", "13 % of it is for rank 2.", "Another 10 % is for rank 0.", "For rank 1."]
    told = found._by_cost([*said, "rank 1 and rank 2 differ."])
    moved = ["13 % of all waiting is for rank 2.", "rank 1 and rank 2 differ."]
    assert told == [said[0], said[3], said[2], *moved]
    assert found._by_cost(said[:2]) == said[:2]


def test_each_cause_has_one_color_and_starts_are_not_negative(job, analyses, view, figures):
    assert min(figures["clocks"].rows["begins_ns"]) == 0
    shades = {each["color"] for each in figures["regimes"].rows.iter_rows(named=True)}
    assert shades <= {step.bottleneck for each in analyses for step in each.steps}
    told = page("ranks", [view])
    assert "The last to arrive" in told and "The latest" not in told
    bottleneck = analyses[LATE].verdict.bottleneck
    assert f'style="--shade: {colors.of(bottleneck)}">{bottleneck}</span>' in told


def test_parts_under_one_percent_are_one_part(job, analyses):
    first = analyses[0]
    sizes = {"compute": 980, "python": 8, "dispatch": 7, "launch": 5}
    some = [replace(first.parts[0], name=name, kind=name, dur_ns=ns) for name, ns in sizes.items()]
    found = Ranks(job, analyses)
    found.analyses = [replace(first, parts=some)]
    rows = rank_figures.parts(found).rows
    assert rows["part"].to_list() == ["compute", "each under 1 %"]
    assert sum(rows["part_ns"]) == 1000


def test_a_map_of_one_column_is_not_drawn(tmp_path):
    ranks_simulated.write(tmp_path, Job(2, steps=1, late={1: LATE_NS}))
    with tracekit.load(tmp_path, verdicts=False) as run:
        figures = ranks_view(run, judged(run)).figures
    assert "matrix" not in figures and "regimes" not in figures
    assert figures["who"].chart is None and len(figures["who"].rows) == 1


def test_the_table_has_the_numbers_of_the_verdicts_and_of_stragglers(job, analyses, figures):
    rows = figures["table"].rows
    assert rows["name"].to_list() == [f"rank {rank}" for rank in range(RANKS)]
    for row, analysis in zip(rows.iter_rows(named=True), analyses, strict=True):
        assert row["verdict"].endswith(f" by {analysis.verdict.bottleneck}")
        assert row["window_ns"] == analysis.judged.window.span_ns
        best = next(each for each in analysis.advice if each.share is not None)
        assert (row["best_remedy"], row["saves_share"]) == (best.title, best.share)
    asked = job.ask("stragglers", top=10**6)
    late = sum(row["held_up_ns"] for row in asked if row["rank"] == LATE)
    assert rows.filter(name=f"rank {LATE}")["late_ns"].item() == late > 0
    assert sum(rows["late_ns"]) == sum(rows["waits_ns"]) == late


def test_each_step_of_each_rank_is_a_cell(figures, analyses):
    rows = figures["matrix"].rows
    assert len(rows) == RANKS * STEPS == len(figures["regimes"].rows)
    late = rows.filter(rank=f"rank {LATE}")
    assert set(late["waited_ns"]) == {0}
    assert min(late["held_up_ns"]) > (RANKS - 1) * LATE_NS / 2
    lengths = [each.window.span_ns for each in analyses[LATE].steps]
    assert late.sort("number")["step_ns"].to_list() == lengths


def test_parts_of_each_rank_add_up_and_times_fit_javascript(figures):
    for _, rows in figures["parts"].rows.group_by("rank"):
        assert sum(rows["part_ns"]) == rows["window_ns"][0]
    rows = figures["collectives"].rows
    # Beyond 2**53, JavaScript does not count exactly.
    assert min(rows["start_ns"]) == 0
    assert max(rows["end_ns"]) < 2**53


def test_the_database_of_a_sweep_becomes_the_page_of_the_sweep(job, tmp_path, monkeypatch):
    monkeypatch.setattr("tracekit.reporters.html.reports.sweep_in", lambda database: found_sweep())
    output = tmp_path / "report.html"
    output.touch()
    given = ["report", job.name, "-o", str(output)]
    cli.main(given, standalone_mode=False)
    assert "<h1>Sweep of mlp-eager" in output.read_text()
    with pytest.raises(TracekitError, match="--window does not apply to the page of a sweep"):
        cli.main([*given, "--window", "trace"], standalone_mode=False)


def test_pages_that_do_not_fit_are_left_out_and_the_page_says_so(job, analyses, monkeypatch):
    monkeypatch.setattr(trace, "SECTIONS", ())
    subjects = [Subject(job, each) for each in in_order_of_interest(job)]
    for subject in subjects:
        subject.judgement = Replayed(
            analysis=analyses[subject.trace_id - 1], notes=[], interval=None, speeds=[], path=[]
        )
    shown = ranks_view(job, analyses)
    text = reports.with_pages(shown, subjects[:2])
    assert f"2 of {RANKS} have a page of their own in this file" in text
    assert [name for name in ("trace1", "trace2", "trace3") if f'<main id="{name}"' in text] == [
        "trace1", f"trace{LATE + 1}",
    ]  # fmt: skip
    monkeypatch.setattr(reports, "MOST_BYTES", len(text.encode()) - 1)
    smaller = reports.with_pages(shown, subjects[:2])
    assert f"1 of {RANKS} have a page" in smaller
    assert len(smaller.encode()) < reports.MOST_BYTES


def test_several_traces_that_are_not_ranks_are_shown_without_waits(tmp_path):
    for name, base in (("one", 0), ("other", 3600 * 10**9)):
        events = [launch(0, 1, 1), gpu_op(5, 50, 1)]
        traces.write(tmp_path / f"{name}.json", events, baseTimeNanoseconds=base)
    with tracekit.load(tmp_path, verdicts=False) as run:
        shown = ranks_view(run, judged(run))
    assert shown.facts["ranks"].headline == "2 traces"
    assert shown.facts["ranks"].reasons == []
    assert [*shown.figures] == ["table", "parts"]
    assert "wait" not in page("traces", [shown]).split("</header>")[1].split("<footer")[0]


def rank_file(folder, rank, world, calls, ahead_ns=0):
    """A rank with these collectives: start and end in microseconds, group."""
    events = [marked(1, 0, 10_000)]
    for number, (start, end, group) in enumerate(calls):
        event = collective(start, end - start, number + 1)
        event["args"] |= {"Process Group Name": group, "Process Group Ranks": f"[{group}]"}
        events += [launch(1 + number / 100, 0.005, number + 1), event]
    return traces.write(
        folder / f"rank{rank:04}.json", events, baseTimeNanoseconds=10**18 + ahead_ns,
        distributedInfo={"rank": rank, "world_size": world},
    )  # fmt: skip


def test_a_rank_that_never_meets_the_first_is_aligned_by_others(tmp_path):
    ours, theirs = [(10, 20, "a"), (30, 40, "a")], [(50, 60, "b"), (70, 80, "b")]
    files = [
        rank_file(tmp_path, 0, 4, ours),
        rank_file(tmp_path, 1, 4, ours + theirs, 7_000),
        rank_file(tmp_path, 2, 4, theirs, -9_000),
        rank_file(tmp_path, 3, 4, [(10, 20, "alone")], 1_000),
    ]
    with tracekit.load(files) as run:
        rows = [(row["rank"], row["offset_ns"], row["hops"]) for row in run.ask("rank_clocks")]
        timed = {row["rank"] for row in run.ask("collective_times")}
    assert rows == [(0, 0, 0), (1, 7_000, 1), (2, -9_000, 2)]
    assert timed == {0, 1, 2}


def test_collectives_that_do_not_end_together_make_waits_doubtful(tmp_path):
    mine = [(100 * n, 100 * n + 10, "a") for n in range(1, 9)]
    other = [(100 * n, 100 * n + 10 + 40 * n, "a") for n in range(1, 9)]
    other = [(end - 11, end, group) for _, end, group in other]
    files = [rank_file(tmp_path, 0, 2, mine), rank_file(tmp_path, 1, 2, other)]
    with tracekit.load(files) as run:
        found = Ranks(run, judged(run))
        assert found.headline == "2 ranks"
        assert found.clock_doubt.startswith("the ends of the same collectives differ by")


@pytest.mark.thorough
def test_the_page_of_very_many_ranks_is_small_and_says_what_it_leaves_out(tmp_path):
    count, calls = 200, 40
    files = [
        rank_file(
            tmp_path, rank, count,
            [(100 * n + (rank * 7 + n) % 50, 100 * n + 60, "all") for n in range(1, calls + 1)],
        )
        for rank in range(count)
    ]  # fmt: skip
    with tracekit.load(files) as run:
        one = run.verdict(1)
        analyses = [
            replace(one, trace=replace(one.trace, trace_id=each, rank=each - 1, world_size=count))
            for each in run.trace_ids()
        ]
        shown = ranks_view(run, analyses)
    figures = shown.figures
    assert max(len(figure.rows) for figure in figures.values()) <= 6_000
    assert len(figures["who"].rows) == count * 30 - 30
    assert "ranks that are waited for less are left out" in figures["who"].says
    assert "the 15 collectives with most waiting" in figures["collectives"].says
    assert len(page("ranks", [shown])) - len(page("ranks", [])) < 700_000


def test_names_in_traces_stay_text(job, analyses):
    hostile = [
        replace(
            each,
            trace=replace(each.trace, path=f"/a/{HOSTILE}{each.trace.trace_id}.json", rank=None),
            advice=[replace(advice, where=HOSTILE) for advice in each.advice],
        )
        for each in analyses
    ]
    shown = ranks_view(job, hostile)
    text = page("ranks", [replace(shown, title=HOSTILE, label=HOSTILE)])
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert text.count("</script>") == 4
