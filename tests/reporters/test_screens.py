"""The screens that `analyze` prints: what misleads comes first, and nothing is cut off; up to three
traces are side by side, more have a row each."""

import json
from itertools import pairwise

import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import judged_together, trace_names
from tests.kit import ranks_simulated
from tests.kit.answered import shown
from tests.kit.atoms import MS, US, BlockingCopy, Call, Launch, Sync, Work, operator, step
from tests.kit.impossible import require_possible
from tests.kit.processes import invoke
from tests.kit.ranks_simulated import Job
from tests.kit.simulated import Programs
from tracekit.database.remedies import all_remedies
from tracekit.evidence.model import Finding
from tracekit.reporters import several
from tracekit.reporters.first_screen import LINES, render
from tracekit.reporters.parts import devices_of
from tracekit.verdict.once import once_share
from tracekit.verdict.parts import parts_of


def screen(analysis, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    render(analysis)
    return capsys.readouterr().out.splitlines()


def test_a_narrow_terminal_gets_every_word(shared_verdict, capsys, monkeypatch):
    analysis = shared_verdict("h100-bert-small")
    whole = screen(analysis, capsys, monkeypatch)
    monkeypatch.setenv("COLUMNS", "50")
    render(analysis)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) == 50
    words = {word for line in whole for word in line.split() if "█" not in word}
    assert words <= set(narrow.split())


TRACES = Programs()
ADD = operator("aten::add", 20 * US, Launch(4 * US, (("memory-bandwidth", 3 * US),)))


@pytest.mark.thorough
@TRACES.running(
    [*[ADD] * 60, operator("aten::mm", 10 * US, Work(90 * MS)), *[ADD] * 300, Sync(2 * US)]
)
def test_shares_name_what_is_left_without_one_offs(trace, analyses, capsys, monkeypatch):
    analysis = analyses[trace]
    lines = screen(analysis, capsys, monkeypatch)
    left = tracekit.text.duration(analysis.judged.gains.window_ns)
    assert analysis.judged.gains.one_offs_ns > 80 * MS
    # What begins after the last op is not listed, and not counted.
    last_ns = analysis.judged.window.end_ns
    late = [replace(each, start_ns=last_ns) for each in analysis.one_offs]
    shares = [once_share(replace(analysis, one_offs=found))
              for found in (analysis.one_offs, late)]  # fmt: skip
    assert shares[0] > 0 and shares[1] == 0
    assert any(each.endswith(f"of the other {left}") for each in lines)
    once = next(at for at, each in enumerate(lines) if each.startswith("What happened once"))
    assert once < next(at for at, each in enumerate(lines) if each.startswith("What to change"))


@pytest.mark.thorough
def test_a_threshold_that_is_set_decides_which_parts_have_a_line(judged):
    usual = invoke("analyze", judged).stdout
    fewer = invoke("analyze", judged, "--threshold", "named_gain=0.5").stdout
    assert "waits for dispatch " in usual and "waits for dispatch " not in fewer
    whole = json.loads(invoke("analyze", judged, "--threshold", "named_gain=0.5", "--json").stdout)
    assert whole["thresholds"] == {"named_gain": 0.5}
    parts_ns = sum(each["dur_ns"] for each in whole["parts"])
    assert parts_ns == whole["judged"]["window"]["span_ns"]


SAVED = BlockingCopy(2 * US, 5 * MS, name="Memcpy DtoH (Device -> Pageable)")
MALLOC = operator("aten::empty", 3 * US, Call("cudaMalloc", 30 * MS, "allocation"))


def steps_with(*once, each=()):
    """Nine steps, with atoms that only the fifth has, and those that each has."""
    work = [operator("aten::mm", 20 * US, Launch(6 * US, (("math", 400 * US),)))] * 10
    atoms = [step(n, *work, *each, *(once if n == 4 else ())) for n in range(9)]
    return [*atoms, Sync(2 * US)]


LISTED = {
    TRACES.program(steps_with(*once)): row
    for once, row in (
        ([MALLOC], "cudaMalloc in aten::empty"),
        ([operator("aten::copy_", 3 * US, SAVED)] * 12, f"ProfilerStep#4: {SAVED.name}"),
        ([Work(40 * MS)], "ProfilerStep#4: nothing recorded"),
        ([Work(MS)], None),
    )
}


@pytest.mark.parametrize(("trace", "row"), LISTED.items())
def test_one_offs_are_listed_if_they_are_much_of_the_trace(
    trace, row, analyses, capsys, monkeypatch
):
    lines = screen(analyses[trace], capsys, monkeypatch)
    at = [number for number, each in enumerate(lines) if each.startswith("What happened once")]
    assert [lines[number + 1].partition("  ")[0] for number in at] == [row] * (row is not None)


LOGGED = operator("aten::item", 2 * US, operator("aten::_local_scalar_dense", 2 * US, SAVED))


@TRACES.running(steps_with(*[MALLOC] * 9, each=[LOGGED]))
def test_the_first_change_has_its_lines_beside_one_offs(trace, analyses, capsys, monkeypatch):
    analysis = analyses[trace]
    for words in range(80):
        verdict = replace(analysis.verdict, headline="A long sentence. " * words)
        lines = screen(replace(analysis, verdict=verdict), capsys, monkeypatch)
        headings = [at for at, each in enumerate(lines) if each.startswith("What ")]
        assert all(lines[at + 1].strip() for at in headings)
        # A list takes three lines or more.
        if len(lines) <= LINES - 3:
            assert any(each.startswith("1 ") for each in lines)


@pytest.mark.parametrize(
    ("ns", "said"),
    [(999_499, "999 us"), (999_600, "1 ms"), (999_700_000, "1 s"), (1_234e9, "1,234 s")],
)
def test_a_length_is_in_the_unit_that_its_three_digits_fit(ns, said):
    assert tracekit.text.duration(ns) == said


@pytest.fixture
def advised(shared_verdict):
    """A verdict with these remedies as its advice, each with a place of one line."""
    analysis = shared_verdict("simulated-overhead-bound.json.gz")
    (first, *_) = (each for each in analysis.advice if not each.once)

    def made(*names):
        known = all_remedies()
        advice = [
            replace(first, remedy=name, title=known[name].title, where=f"at_{at}", detail=None)
            for at, name in enumerate(names)
        ]
        return replace(analysis, advice=advice)

    return made


def test_throughput_has_a_list_of_its_own(advised, capsys, monkeypatch):
    lines = screen(advised("cuda-graph", "larger-batch"), capsys, monkeypatch)
    (change, throughput) = (
        next(at for at, line in enumerate(lines) if line.startswith(heading))
        for heading in ("What to change", "For throughput")
    )
    titles = [all_remedies()[name].title for name in ("cuda-graph", "larger-batch")]
    assert [lines[change + 1][2:48].strip(), lines[throughput + 1][2:48].strip()] == titles
    assert throughput > change + 1


def test_throughput_does_not_stand_in_for_a_change_without_room(advised, capsys, monkeypatch):
    analysis = advised("cuda-graph", "larger-batch")
    first, second = analysis.advice
    advice = [replace(first, title="A change in very many words, " * 4), second]
    left_out = 0
    for words in range(80):
        verdict = replace(analysis.verdict, headline="A long sentence. " * words)
        lines = screen(replace(analysis, advice=advice, verdict=verdict), capsys, monkeypatch)
        has_change, has_throughput = (
            any(line.startswith(heading) for line in lines)
            for heading in ("What to change", "For throughput")
        )
        assert has_change or not has_throughput
        left_out += not has_change
    assert left_out


def test_a_change_is_shown_if_its_place_does_not_fit(advised, capsys, monkeypatch):
    names = ["cuda-graph", "torch-compile", "fused-optimizer", "in-place", "allocator"]
    analysis, without_place = advised(*names), 0
    for words in range(60):
        verdict = replace(analysis.verdict, headline="A long sentence. " * words)
        lines = screen(replace(analysis, verdict=verdict), capsys, monkeypatch)
        shown = [
            name for name in names if any(all_remedies()[name].title in each for each in lines)
        ]
        places = [line for line in lines if line.startswith("    at_")]
        without_place += 0 < len(places) < len(shown)
    assert without_place


def test_changes_that_save_much_come_before_details(advised, capsys, monkeypatch):
    analysis = advised("torch-compile", "fused-attention", "in-place")
    verdict = replace(analysis.verdict, headline="A long sentence. " * 44)
    lines = screen(replace(analysis, verdict=verdict), capsys, monkeypatch)
    assert len(lines) <= LINES and any(line.startswith("3 ") for line in lines)
    assert not any(line.startswith("    at_0") for line in lines)


def test_what_to_try_next_is_said_beside_changes_that_miss_the_bottleneck_or_save_little(
    advised, capsys, monkeypatch
):
    for name, share, is_said in (
        ("fused-norms", 0.2, True), ("cuda-graph", 0.2, False), ("cuda-graph", 0.02, True),
    ):  # fmt: skip
        analysis = advised(name)
        (only,) = analysis.advice
        shown = replace(analysis, advice=[replace(only, share=share)])
        assert ("What to try next" in screen(shown, capsys, monkeypatch)) == is_said


def test_a_window_that_shares_are_of_is_named_without_its_few_one_offs(
    advised, capsys, monkeypatch
):
    analysis = advised("cuda-graph")
    for part, is_said in ((0.03, True), (0.2, False)):
        ns = round(part * analysis.judged.window.span_ns)
        gains = replace(analysis.judged.gains, one_offs_ns=ns, recorder_ns=None).without(ns)
        shown = replace(analysis, judged=replace(analysis.judged, gains=gains))
        said = " ".join(screen(shown, capsys, monkeypatch))
        assert (f", {tracekit.text.duration(gains.window_ns)} without one-offs" in said) == is_said


def test_a_file_without_most_of_its_events_has_no_list_of_changes(advised, capsys, monkeypatch):
    analysis = advised("cuda-graph")
    trace = analysis.trace
    thinned = Finding(
        code="thinned_file", severity="error", message="only few events are in this file", count=1
    )
    lines = screen(replace(analysis, trace=replace(trace, health=[thinned])), capsys, monkeypatch)
    assert "What to try next" in lines
    assert not any(line.startswith("What to change") for line in lines)


@pytest.mark.parametrize(
    ("spans", "said"),
    [((3, 1, 2), "a usual one"), ((1, 3, 0), "median"), ((1, 0), "the longer")],
)
def test_the_median_step_is_only_called_so_if_it_is(spans, said, advised, capsys, monkeypatch):
    analysis = advised("cuda-graph")
    window = replace(analysis.judged.window, kind="step", span_ns=1_000_000)
    steps = [
        replace(analysis.judged, window=replace(window, span_ns=span * 1_000_000)) for span in spans
    ]
    judged = replace(analysis.judged, window=window)
    shown = replace(analysis, judged=judged, steps=steps, units=[])
    lines = " ".join(screen(shown, capsys, monkeypatch))
    assert f"{len(spans)} steps of " in lines and f", {said} 1 ms" in lines


@pytest.mark.parametrize(("cause", "name"), [("dispatch", "nothing recorded"), (None, "loading")])
def test_waits_are_named_by_what_was_recorded_meanwhile_if_the_verdict_is(cause, name, advised):
    analysis = advised("cuda-graph")
    idle = replace(analysis.judged.idle, causes={"untraced": MS})
    shown = replace(
        analysis, idle=idle, judged=replace(analysis.judged, idle=idle),
        verdict=replace(analysis.verdict, bottleneck=cause),
        meanwhile=[{"name": "loading", "idle_ns": MS}],
    )  # fmt: skip
    assert any(part.name.endswith(name) for part in parts_of(shown))


# Small traces are judged together, large ones take seconds.
@pytest.mark.parametrize(
    "name",
    [name if name in judged_together() else pytest.param(name, marks=pytest.mark.thorough)
     for name in trace_names()],
)  # fmt: skip
def test_the_screen_of_a_real_trace_is_whole(name, shared_verdict, capsys, monkeypatch):
    analysis = shared_verdict(name)
    lines = screen(analysis, capsys, monkeypatch)
    assert len(lines) <= LINES and max(map(len, lines)) <= 80
    # Only kernels and places of changes may be shortened; `--full` and `advise` have them whole.
    at = next((n for n, each in enumerate(lines) if each.startswith("Top kernels")), len(lines))
    whole = [each for each in [*lines[:at], *lines[at + 4 :]] if not each.startswith("    ")]
    assert not any("..." in each or "…" in each for each in whole)
    told = " ".join(lines)
    headings = ("What ", "Where ", "For ")
    assert not any(a.startswith(headings) and not b.strip() for a, b in pairwise(lines))
    # Steps ran before the recording, and were timed without the profiler.
    is_warm = any(each.code == "warmed_up" for each in analysis.trace.health)
    starts = ("Warm up", "warm up", "ProfilerStep#1", "without a profiler")
    assert not is_warm or not any(each in told for each in starts)
    assert tracekit.text.duration(analysis.judged.window.span_ns) in told
    # Lines may also break behind a hyphen.
    headline, shown = (
        " ".join(t.split()).replace("- ", "-") for t in (analysis.verdict.headline, told)
    )
    assert headline in shown


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", trace_names())
def test_a_page_says_what_the_first_screen_says(name, shared_trace, shared_verdict):
    pytest.importorskip("altair", reason="a page needs the extra report")
    database, trace = shared_trace(name)
    page = database.report(trace=trace).html
    require_possible(replace(shown(shared_verdict(name)), page=page))


# -- several traces


SMALL = operator("aten::mm", 20 * US, Launch(5 * US, (("math", 9 * US),)))
RUN = TRACES.program([step(number, *[SMALL] * 20) for number in range(3)])


@pytest.fixture(scope="module")
def analysis(analyses):
    return analyses[RUN]


def like(analysis, path, number=1, rank=None, regime="overhead-bound", cause="dispatch"):
    trace = replace(analysis.trace, path=path, trace_id=number, rank=rank)
    verdict = replace(analysis.verdict, regime=regime, bottleneck=cause)
    return replace(analysis, trace=trace, verdict=verdict)


def printed(analyses, capsys):
    several.render(analyses)
    return capsys.readouterr().out.splitlines()


def test_hundreds_of_traces_have_a_row_each_that_fits(analysis, capsys):
    many = [
        like(
            analysis,
            f"/data/2026-11/{'a_long_name_of_a_host_' * 2}{number}.json.gz",
            number,
            rank=number,
            regime="compute-bound" if number % 3 else "overhead-bound",
            cause="memory-bandwidth" if number % 3 else "dispatch",
        )
        for number in range(300)
    ]
    heading, *_ = lines = printed(many, capsys)
    assert heading.split() == ["trace", "rank", "window", "busy", "verdict", "worth", "most"]
    assert max(map(len, lines)) <= 100
    table = lines[1:301]
    assert [row.split()[1] for row in table] == [str(number) for number in range(300)]
    assert all("memory-bandwidth" in row for row in table[1:3])
    told = " ".join(lines[301:])
    assert told.startswith("300 traces: 200 compute-bound by memory-bandwidth; 100 over")


def test_the_end_of_a_long_name_is_what_is_shown(analysis, capsys):
    many = [like(analysis, f"/runs/{'x' * 60}/rank{number}.json", number) for number in range(4)]
    assert [row.split()[0][-5:] for row in printed(many, capsys)[1:5]] == [
        "rank0", "rank1", "rank2", "rank3",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_two_or_three_stand_side_by_side(analysis, count, capsys):
    few = [like(analysis, f"/runs/{number}/trace.json", number) for number in range(count)]
    lines = printed(few, capsys)
    assert lines[0].split() == [f"{number}/trace" for number in range(count)]
    assert lines[1].split()[:2] == ["verdict", "overhead-bound"]
    assert " ".join(lines[1:3]).count("overhead-bound") == count


def test_names_keep_only_what_differs(analysis):
    given = ["/a/b/one/rank0.json.gz", "/a/b/two/rank0.json.zst", "/a/b/two/rank1.pt.trace.json"]
    assert several.titles([like(analysis, path) for path in given]) == [
        "one/rank0", "two/rank0", "two/rank1",
    ]  # fmt: skip
    twice = [like(analysis, "/a/rank0.json", number) for number in (1, 2)]
    assert several.titles(twice) == ["rank0 (1)", "rank0 (2)"]


def test_hostile_names_and_unknown_verdicts_do_no_harm(analysis, capsys):
    many = [
        like(analysis, "/a/\x1b[31mred\u202e.json", number, regime="unknown", cause=None)
        for number in range(4)
    ]
    lines = printed(many, capsys)
    assert not set("\x1b\u202e") & set("\n".join(lines))
    assert lines[-1].startswith("4 traces: 4 unknown; windows of")


def test_a_device_without_a_name_is_not_taken_for_none(analysis):
    def of(devices, **other):
        return devices_of(
            replace(analysis, trace=replace(analysis.trace, devices=devices), **other)
        )

    assert of(["A", "A", "B"]) == "2 x A, B"
    assert of([""], top_kernels=[]) == of([], top_kernels=[]) == "unnamed device"
    assert of([], gpu=None, host=object()) == "CPU only"

    def of_kernels(*names):
        return of([], top_kernels=[{"name": name} for name in names])

    assert of_kernels("ampere_sgemm_128x64_nn", "volta_sgemm_32x32") == (
        "unnamed device (by its kernels, perhaps NVIDIA Ampere or newer)"
    )
    assert "Hopper" in of_kernels("sm80_xmma_gemm", "nvjet_sm90_tst_128x64")
    assert "CDNA 3" in of_kernels("Cijk_Ailk_Bljk_MT128x64x16_ISA942_IU1", "gfx942_conv")
    assert of_kernels("vectorized_elementwise_kernel") == "unnamed device"
    assert of([], gpu=None) == "no device"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The database of five ranks, of which one is late."""
    folder = tmp_path_factory.mktemp("job")
    ranks_simulated.write(folder, Job(data=5, steps=2, late={2: 3 * MS}))
    tracekit.load(folder, folder / "run.duckdb").close()
    return str(folder / "run.duckdb")


@pytest.mark.thorough
def test_ranks_that_agree_take_one_line(job):
    lines = invoke("analyze", job).stdout.splitlines()
    shown = [line.split()[:4] for line in lines if line.startswith(("4 like", "rank"))]
    assert [each[:3] for each in shown] == [["4", "like", "rank0"], ["rank2", "2", "3.31"]]


@pytest.mark.thorough
def test_advice_on_a_run_is_on_the_rank_that_sets_its_pace(job):
    done = invoke("advise", job, "--json")
    assert "advice on rank 2, which sets the pace" in done.stderr
    assert json.loads(done.stdout)["advice"][0]["remedy"] == "python-lines"


def test_stragglers_begin_with_the_rank_to_blame(job):
    rows = json.loads(invoke("query", job, "stragglers", "--json").stdout)
    assert [each["rank"] for each in rows[:2]] == [2] * 2
    assert {each["rank"] for each in rows} == set(range(5))
