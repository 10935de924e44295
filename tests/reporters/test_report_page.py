"""The pages of reports in a real browser: they draw, they answer, and they load nothing."""

import json
import re
from dataclasses import asdict

import pytest
from playwright.sync_api import expect

from tests.conftest import trace_file
from tests.kit.browser import browser, executable, open_page
from tests.kit.sampling import sample
from tests.reporters.test_report_sweep import found_sweep
from tracekit.reporters.html.reports import write_diff, write_ranks, write_sweep, write_trace
from tracekit.run import load

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

TRACES = (
    "a100-nccl", "a100-triton", "cpu-only", "h100-bert-small", "mi250-minitoy",
    "mi300x-vllm-decode", "v100-compiled-ddp", "v100-dlrm-rank4",
)  # fmt: skip
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
LOOKS = sample("widths and colours of a report", LOOKS, LOOKS[::3])
MOST_BYTES = 3_000_000
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
            made[name] = path, write_trace(shared_database(f"{name}.json.gz"), path)
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
    path, _ = report("v100-compiled-ddp")
    database = shared_database("v100-compiled-ddp.json.gz")
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
    path, _ = report("v100-compiled-ddp")
    with open_page(chromium, path) as view:
        view.scroll_through()
        choice = view.page.locator("select.step").first
        choice.select_option("ProfilerStep#4")
        bars = "[data-figure$='-steps'] path[aria-roledescription=bar]"
        faint = view.page.locator(f"{bars}[opacity='0.35']")
        expect(faint).to_have_count(16)
        choice.select_option("")
        expect(faint).to_have_count(0)
        assert view.said == []


def test_the_timeline_zooms_by_its_buttons_and_shows_all_again(report, chromium):
    path, _ = report("v100-compiled-ddp")
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
    path, _ = report("v100-compiled-ddp")
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


def test_a_flame_graph_changes_its_measure_and_looks_into_a_frame(report, chromium):
    path, _ = report("v100-compiled-ddp")
    with open_page(chromium, path) as view:
        figure = view.page.locator("[data-figure$='-flame']")
        figure.scroll_into_view_if_needed()
        frames = figure.locator(".drawing .mark-rect path")
        frames.first.wait_for()
        before = frames.count()
        figure.get_by_role("combobox").select_option("gpu")
        expect(frames).not_to_have_count(before)
        of_gpu = frames.count()
        frames.nth(of_gpu - 1).click(force=True)
        expect(frames).not_to_have_count(of_gpu)
        figure.get_by_role("button", name="Show all").click()
        expect(frames).to_have_count(of_gpu)
        assert view.said == []


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
            write_ranks(database, path)
    else:
        write_sweep(found_sweep(), path)
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
        for link in links:
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


def test_long_names_are_short_in_tables_and_whole_after_a_click(report, chromium):
    path, verdict = report("h100-bert-small")
    whole = verdict.top_kernels[0]["name"]
    with open_page(chromium, path) as view:
        view.scroll_through()
        cell = view.page.locator("#trace1-kernels td.long", has_text="cutlass").first
        short = cell.inner_text()
        assert short.startswith("cutlass_80") and whole.startswith("void cutlass::Kernel2<")
        assert cell.locator("span").get_attribute("title").startswith("void cutlass::Kernel2<")
        cell.click()
        expect(cell).to_contain_text("void cutlass::Kernel2<")
        cell.click()
        expect(cell).to_have_text(short)
