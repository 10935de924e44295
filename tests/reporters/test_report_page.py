"""The pages of reports in a real browser: they draw, they answer, and they load nothing."""

import json
import re
from dataclasses import asdict

import pytest
from playwright.sync_api import expect

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.browser import browser, executable, open_page
from tests.kit.sampling import sample
from tests.reporters.test_report_sweep import found_sweep
from tracekit.reporters.html.page import page
from tracekit.reporters.html.reports import write_any, write_diff
from tracekit.reporters.html.sweep import sweep_view
from tracekit.run import load

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

TRACES = (
    "a100-nccl", "a100-triton", "cpu-only", "h100-bert-small", "mi250-minitoy",
    "mi300x-vllm-decode", "v100-compiled-ddp", "v100-dlrm-rank4",
)  # fmt: skip
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
LOOKS = sample("widths and colours of a report", LOOKS, LOOKS[::3])
MOST_BYTES = 3_000_000
# What no sentence, heading, axis or legend says; commands and names from the trace may.
_NO_WORDS = re.compile(
    r"\b(?:null|NaN|undefined|unnamed device|host_late|launch_latency|is metadata)\b|\.\.\.(?= |$)"
)
_TEXT = """() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const around = walker.currentNode.parentElement;
    if (!around.closest("code, pre, td, details, .mark-text")) found.push(walker.currentNode.data);
  }
  return found.join(" ");
}"""
# A busy machine takes its time.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def chromium():
    executable()
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def report(shared_database, tmp_path_factory):
    """Writes the report of a shared trace, once; returns its path and the verdict."""
    folder = tmp_path_factory.mktemp("reports")
    made = {}

    def of(name):
        if name not in made:
            trace_file(f"{name}.json.gz")
            path = folder / f"{name}.html"
            (analysis,) = write_any(shared_database(f"{name}.json.gz"), path)
            made[name] = path, analysis
        return made[name]

    return of


@pytest.mark.sampled(8, of=8)
@pytest.mark.parametrize("name", TRACES)
def test_a_report_draws_all_its_figures_and_loads_nothing(name, report, chromium):
    path, _ = report(name)
    assert path.stat().st_size < MOST_BYTES
    for width, scheme in LOOKS:
        size = {"width": width, "height": 800}
        with open_page(chromium, path, viewport=size, color_scheme=scheme) as view:
            view.scroll_through()
            assert not view.overflows, (width, scheme)
            assert view.said == []
            assert view.requested == []
            assert _NO_WORDS.findall(view.page.evaluate(_TEXT)) == []


@pytest.mark.sampled(8, of=8)
@pytest.mark.parametrize("name", TRACES)
def test_the_numbers_on_the_first_screen_are_those_of_analyze(name, report, chromium):
    path, analysis = report(name)
    found = json.loads(json.dumps(asdict(analysis), default=str))
    with open_page(chromium, path) as view:
        numbers = view.page.eval_on_selector_all(
            "data", "all => all.map(each => [{...each.dataset}, Number(each.value)])"
        )
    assert numbers
    parts = 0
    for names, value in numbers:
        if key := names.get("key"):
            expected = found
            for word in key.split("."):
                expected = expected[word]
            assert value == pytest.approx(expected, abs=0)
        elif "part" in names:
            parts += value
        else:
            assert [names["advice"], value] in [
                [each["remedy"], each["saves_ns"]] for each in found["advice"]
            ]
    assert parts in (0, found["judged"]["window"]["span_ns"])


def test_the_sliders_show_what_a_replay_predicts(report, chromium, shared_database):
    path, _ = report("a100-nccl")
    database = shared_database("a100-nccl.json.gz")
    with open_page(chromium, path) as view:
        view.scroll_through()
        figure = view.page.locator("[data-figure$='-faster']")
        figure.get_by_role("slider", name="host speed").press("ArrowRight")
        figure.get_by_role("slider", name="device speed").press("ArrowRight")
        told = figure.locator("output.result").inner_text()
        command = figure.locator(".source").inner_text()
    assert command.endswith("steady 'host*0.5' 'device*0.5' 'communication*2'")
    predicted = database.whatif("steady", "host*0.5", "device*0.5", "communication*2")
    assert f"{predicted.predicted_ns / 1e6:.3g} ms" == told.split(" (")[0]


def test_a_chosen_step_is_shown_everywhere(report, chromium):
    path, _ = report("a100-nccl")
    with open_page(chromium, path) as view:
        view.scroll_through()
        choice = view.page.locator("select.step").first
        choice.select_option("ProfilerStep#4")
        bars = "[data-figure$='-steps'] path[aria-roledescription=bar]"
        faint = view.page.locator(f"{bars}[opacity='0.35']")
        expect(faint).to_have_count(8)
        choice.select_option("")
        expect(faint).to_have_count(0)
        assert view.said == []


def test_the_timeline_zooms_by_its_buttons_and_shows_all_again(report, chromium):
    path, _ = report("a100-nccl")
    with open_page(chromium, path) as view:
        figure = view.page.locator("[data-figure$='-timeline']")
        figure.scroll_into_view_if_needed()
        figure.locator(".drawing svg").wait_for()
        start = figure.locator(".drawing .role-axis-label text").filter(
            has_text=re.compile("^0 ns$")
        )
        expect(start).to_have_count(1)
        figure.get_by_role("button", name="Zoom in").click()
        expect(start).to_have_count(0)
        figure.get_by_role("button", name="All", exact=True).click()
        expect(start).to_have_count(1)
        assert view.said == []


def test_a_table_sorts_and_searches(report, chromium):
    path, _ = report("a100-nccl")
    with open_page(chromium, path) as view:
        figure = view.page.locator("[data-figure$='-kernels']")
        figure.scroll_into_view_if_needed()
        # The page's script has made it a table that sorts.
        figure.locator("th.dt-orderable-asc").first.wait_for()
        counts = figure.locator("tbody tr td:nth-child(3)")
        figure.get_by_role("button", name="count").or_(
            figure.get_by_role("columnheader", name="count")
        ).first.click()
        expect(figure.locator("th[aria-sort=ascending]")).to_contain_text("count")
        rising = [int(each.replace(",", "")) for each in counts.all_inner_texts()]
        assert rising == sorted(rising)
        figure.get_by_role("searchbox").fill("nccl")
        rows = figure.locator("tbody tr")
        expect(rows).not_to_have_count(len(rising))
        names = figure.locator("tbody tr td:first-child").all_inner_texts()
        assert names
        assert all("nccl" in name.lower() for name in names)


def test_a_flame_graph_is_searched_inverted_and_looked_into_and_its_address_keeps_it(
    report, chromium
):
    path, _ = report("h100-bert-small")
    with open_page(chromium, path) as view:
        figure = view.page.locator("#trace1-flame")
        frames = figure.locator(".drawing .mark-rect path")

        def labels():
            return set(filter(None, figure.locator(".mark-text text").all_inner_texts()))

        figure.scroll_into_view_if_needed()
        frames.first.wait_for()
        figure.locator(".mark-text text", has_text="BertModel_0").wait_for()
        assert not any("_call_impl" in each for each in labels())
        figure.get_by_label("Library frames").check()
        figure.locator(".mark-text text", has_text="_call_impl").first.wait_for()
        figure.get_by_label("Library frames").uncheck()
        figure.get_by_label("Find").fill("BertLayer")
        expect(figure.locator(".controls output")).to_contain_text("4 found: ")
        figure.get_by_label("Find").fill("")
        figure.get_by_role("combobox").select_option("GPU time launched")
        figure.get_by_label("Inverted").check()
        # Kernels have no callees: by GPU time they are the roots.
        figure.locator(".mark-text text", has_text="cutlass_80").first.wait_for()
        before = frames.count()
        frames.first.click(force=True)
        expect(frames).not_to_have_count(before)
        inside, address = frames.count(), view.page.url
        view.page.go_back()
        expect(frames).to_have_count(before)
        view.page.goto("about:blank")
        view.page.goto(address)
        figure.scroll_into_view_if_needed()
        expect(frames).to_have_count(inside)
        expect(figure.get_by_label("Inverted")).to_be_checked()
        figure.get_by_role("button", name="Show all").click()
        expect(frames).to_have_count(before)
        assert view.said == []


def test_the_address_keeps_the_view_the_step_and_the_zoom(report, chromium):
    path, _ = report("a100-nccl")
    with open_page(chromium, path) as view:
        view.scroll_through()
        view.page.locator("select.step").first.select_option("ProfilerStep#4")
        timeline = view.page.locator("#trace1-timeline")
        timeline.get_by_role("button", name="Zoom in").click()
        view.page.wait_for_url("**zoom=*")
        shown = timeline.locator(".here code").inner_text()
        address = view.page.url
    with open_page(chromium, path) as view:
        view.page.goto(address)
        view.scroll_through()
        assert view.page.locator("select.step").first.input_value() == "ProfilerStep#4"
        expect(timeline_of(view).locator(".here code")).to_have_text(shown)
        view.page.locator("nav.contents a", has_text="Kernels").click()
        assert "ProfilerStep%234" in view.page.url
        assert view.said == []


def test_a_fix_unfolds_how_to_apply_it_and_leads_to_its_place(report, chromium):
    path, verdict = report("h100-bert-small")
    fix = next(each for each in verdict.advice if each.where and ".py(" in each.where)
    with open_page(chromium, path) as view:
        line = view.page.locator("details.how", has_text=fix.where).first
        line.locator("summary").click()
        for heading in ("Before", "After", "Risks", "To check"):
            expect(line.get_by_role("heading", name=heading)).to_be_visible()
        line.get_by_role("button", name="In the flame graph").click()
        output = view.page.locator("#trace1-flame .controls output")
        expect(output).to_contain_text("% of the host time")
        assert view.said == []


def timeline_of(view):
    return view.page.locator("#trace1-timeline")


def test_a_row_leads_to_the_time_line_the_flame_graph_and_perfetto(report, chromium):
    path, _ = report("h100-bert-small")
    with open_page(chromium, path) as view:
        view.scroll_through()
        view.page.locator("#trace1-gaps tbody tr").first.click()
        row = view.page.locator("#trace1-gaps .described")
        assert " --from " in row.locator("code").inner_text()
        row.get_by_role("button", name="In the time line").click()
        view.page.wait_for_url("**zoom=*")
        view.page.locator("#trace1-kernels tbody tr").first.click()
        kernel = view.page.locator("#trace1-kernels .described")
        assert "void cutlass::Kernel2<" in kernel.inner_text()
        expect(kernel.get_by_role("button", name="Launched most by: ")).to_contain_text(".py(")
        kernel.get_by_role("button", name="In the flame graph").first.click()
        output = view.page.locator("#trace1-flame .controls output")
        expect(output).to_contain_text("% of the GPU time launched")
        timeline = timeline_of(view)
        timeline.get_by_role("button", name="All", exact=True).click()
        timeline.locator(".mark-text text").first.wait_for()
        timeline.locator(".mark-rect path").first.click(force=True)
        expect(timeline.locator(".here dl")).to_contain_text("activity")
        timeline.locator(".mark-rect path").first.hover(force=True)
        expect(view.page.locator("#vg-tooltip-element")).to_contain_text("activity")
        expect(view.page.locator("#vg-tooltip-element")).not_to_contain_text("null")
        assert view.said == []


def test_the_page_of_a_small_trace_is_not_too_high(report, chromium):
    path, _ = report("h100-bert-small")
    with open_page(chromium, path, viewport={"width": 1440, "height": 900}) as view:
        view.scroll_through()
        assert view.page.evaluate("document.documentElement.scrollHeight") < 6_000


def made_page(kind, folder, shared_database):
    """The page of a comparison, of a sweep, or of eight ranks."""
    path = folder / f"{kind}.html"
    if kind == "comparison":
        pair = [trace_file("a100-diff-control.json.gz"), trace_file("v100-diff-test.json.gz")]
        with load(pair) as database:
            write_diff(database, 1, 2, path)
    elif kind == "ranks":
        files = [trace_file(f"v100-dlrm-rank{number}.json.gz") for number in range(8)]
        with load(files) as database:
            write_any(database, path)
    else:
        path.write_text(page("Sweep", [sweep_view(found_sweep())]), "utf-8")
    return path


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize("kind", ["sweep", "comparison", "ranks"])
def test_a_page_of_several_runs_draws_all_and_loads_nothing(
    kind, tmp_path, shared_database, chromium
):
    path = made_page(kind, tmp_path, shared_database)
    assert path.stat().st_size < MOST_BYTES
    for width, scheme in LOOKS:
        size = {"width": width, "height": 800}
        with open_page(chromium, path, viewport=size, color_scheme=scheme) as view:
            view.scroll_through()
            for other in view.page.locator("nav.views button").all()[1:2]:
                other.click()
                # The address has the view: Back leads to the first, and again to this one.
                shown, address = view.page.locator("main:not([hidden])"), view.page.url
                assert f"view={shown.get_attribute('id')}" in address
                view.page.go_back()
                expect(shown).to_have_attribute("id", re.compile("^(ranks|diff)$"))
                view.page.go_forward()
                view.scroll_through()
            assert not view.overflows, (width, scheme)
            assert view.said == []
            assert view.requested == []


def test_a_source_is_copied_with_one_click(report, chromium):
    path, _ = report("a100-nccl")
    permissions = ["clipboard-read", "clipboard-write"]
    with open_page(chromium, path, permissions=permissions) as view:
        figure = view.page.locator("[data-figure]").nth(1)
        figure.scroll_into_view_if_needed()
        figure.get_by_role("button", name="Copy").click()
        figure.get_by_role("button", name="Copied").wait_for()
        copied = view.page.evaluate("navigator.clipboard.readText()")
        assert copied == figure.locator(".source").inner_text()


@pytest.mark.thorough
def test_each_chart_has_its_rows_as_a_table(report, chromium):
    path, _ = report("a100-nccl")
    with open_page(chromium, path) as view:
        view.scroll_through()
        for details in view.page.locator("details.data").all():
            details.locator("summary").click()
            expect(details.locator("tbody tr").first).to_be_visible()


@pytest.mark.sampled(4, of=4)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["a100-nccl", "v100-compiled-ddp"])
def test_a_report_has_no_serious_accessibility_fault(name, scheme, report, chromium):
    path, _ = report(name)
    with open_page(chromium, path, color_scheme=scheme, bypass_csp=True) as view:
        view.scroll_through()
        assert serious_faults(view.page) == []


@pytest.mark.sampled(3, of=3)
@pytest.mark.parametrize("kind", ["sweep", "comparison", "ranks"])
def test_a_page_of_several_runs_has_no_serious_accessibility_fault(
    kind, tmp_path, shared_database, chromium
):
    path = made_page(kind, tmp_path, shared_database)
    for scheme in ("light", "dark"):
        with open_page(chromium, path, color_scheme=scheme, bypass_csp=True) as view:
            view.scroll_through()
            assert serious_faults(view.page) == [], scheme


def serious_faults(page):
    """What axe-core calls serious or critical, each with the first elements that it is about."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.sampled(4, of=4)
@pytest.mark.parametrize("name", ["h100-bert-small", "cpu-only", "a100-nccl", "mi250-minitoy"])
def test_each_link_of_the_contents_leads_to_its_section(name, report, chromium):
    path, _ = report(name)
    with open_page(chromium, path, viewport={"width": 1440, "height": 900}) as view:
        links = [each.get_attribute("href") for each in view.page.locator("nav.contents a").all()]
        assert len(links) > 3
        for link in sample(f"links of the contents of {name}", links, links[1::5]):
            # Without the charts that other clicks have drawn.
            view.page.goto("about:blank")
            view.page.goto(path.as_uri())
            view.page.locator(f'nav.contents a[href="{link}"]').click()
            top = f"document.querySelector('{link}').getBoundingClientRect().top"
            view.page.wait_for_function(
                "[...document.querySelectorAll('main:not([hidden]) [data-figure] .drawing')]"
                f".every((each) => each.childElementCount) && {top} >= 0 && {top} < 80",
                timeout=60_000,
            )


def test_long_names_are_short_in_tables_and_whole_on_hover(report, chromium):
    path, verdict = report("h100-bert-small")
    whole = verdict.top_kernels[0]["name"]
    with open_page(chromium, path) as view:
        view.scroll_through()
        cell = view.page.locator("#trace1-kernels td.long", has_text="cutlass").first
        assert cell.inner_text().startswith("cutlass_80") and whole.startswith("void cutlass::")
        assert cell.locator("span").get_attribute("title") == whole


def test_threads_that_only_wait_are_hidden_in_the_flame_graph_until_asked_for(tmp_path, chromium):
    waits = [
        traces.frame("threading.py(1): run", 0, 1000),
        traces.frame("threading.py(327): wait", 1, 990),
    ]
    events = [traces.operator("aten::mm", 0, 900), *(each | {"tid": 99} for each in waits)]
    with load(traces.write(tmp_path / "t.json", events)) as run:
        write_any(run.session, tmp_path / "page.html")
    with open_page(chromium, tmp_path / "page.html") as view:
        figure = view.page.locator("#trace1-flame")
        figure.scroll_into_view_if_needed()
        threads = figure.locator(".mark-text text", has_text=re.compile("^thread "))
        expect(threads).to_have_count(1)
        figure.get_by_label("Threads that only wait").check()
        expect(threads).to_have_count(2)
        assert view.said == []
