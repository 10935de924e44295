"""The pages of reports in a real browser: they draw, they answer, and they load nothing."""

import re

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.browser import browser, executable, expect, open_page
from tests.kit.sampling import sample
from tests.reporters.test_report_sweep import found_sweep
from tracekit.reporters.html.page import page
from tracekit.reporters.html.reports import write_any, write_diff
from tracekit.reporters.html.sweep import sweep_view
from tracekit.run import load

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

# A trace with steps and collectives, and one with Python frames.
STEPS, BERT = "simulated-2-ranks-rank0", "h100-bert-small"
# The first is tried by `make test`.
PAGES = (
    STEPS, BERT, "a100-nccl", "a100-triton", "cpu-only", "mi250-minitoy",
    "sweep", "comparison", "ranks", "mi300x-vllm-decode", "v100-compiled-ddp", "v100-dlrm-rank4",
)  # fmt: skip
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
# axe-core looks at a wide one in light colors.
LOOKS = sample("widths and colors of a report", LOOKS, LOOKS[3:])
MOST_BYTES = 3_000_000
# Words that no sentence, heading, axis or legend may have; commands and names of the trace may.
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


@pytest.fixture(scope="module")
def chromium():
    executable()
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def report(shared_database, tmp_path_factory):
    """Writes a page, once; returns its path, and the verdicts on it."""
    folder = tmp_path_factory.mktemp("reports")
    made = {}

    def write(name, path):
        if name == "sweep":
            path.write_text(page("Sweep", [sweep_view(found_sweep())]), "utf-8")
        elif name in ("comparison", "ranks"):
            names = [f"v100-dlrm-rank{number}" for number in range(8)]
            pair = ["a100-diff-control", "v100-diff-test"]
            files = [f"{each}.json.gz" for each in (names if name == "ranks" else pair)]
            with load([trace_file(each) for each in files], verdicts=False) as database:
                if name == "ranks":
                    return write_any(database, path)
                write_diff(database, 1, 2, path)
        else:
            trace_file(f"{name}.json.gz")
            return write_any(shared_database(f"{name}.json.gz"), path)
        return []

    def of(name):
        if name not in made:
            path = folder / f"{name}.html"
            made[name] = path, write(name, path)
        return made[name]

    return of


@pytest.fixture(scope="module")
def steps(report, chromium):
    """The page of a trace with steps, all of it drawn."""
    permissions = ["clipboard-read", "clipboard-write"]
    with open_page(chromium, report(STEPS)[0], permissions=permissions) as view:
        view.scroll_through()
        yield view


@pytest.fixture(scope="module")
def bert(report, chromium):
    """The page of a trace with Python frames, all of it drawn."""
    size = {"width": 1440, "height": 900}
    with open_page(chromium, report(BERT)[0], viewport=size) as view:
        view.scroll_through()
        yield view


@pytest.mark.sampled(len(PAGES))
@pytest.mark.parametrize("name", PAGES)
def test_a_page_draws_all_its_figures_loads_nothing_and_is_accessible(name, report, chromium):
    path, _ = report(name)
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
            assert _NO_WORDS.findall(view.page.evaluate(_TEXT)) == []
    schemes = ("dark", "light") if name == "sweep" else ("light", "dark")
    for scheme in sample(f"colors of {name} for axe-core", schemes, schemes[:1]):
        with open_page(chromium, path, color_scheme=scheme, bypass_csp=True) as view:
            view.scroll_through()
            assert not view.overflows and view.said == []
            assert serious_faults(view.page) == [], scheme


def serious_faults(page):
    """axe-core's serious and critical findings, each with its first elements."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


# -- the page of a trace with steps ----------------------------------------------------------------


@pytest.mark.thorough
def test_the_sliders_show_what_a_replay_predicts(steps, shared_database):
    figure = steps.page.locator("[data-figure$='-faster']")
    figure.get_by_role("slider", name="host speed").press("ArrowRight")
    figure.get_by_role("slider", name="device speed").press("ArrowRight")
    told = figure.locator("output.result").inner_text()
    command = figure.locator(".source").inner_text()
    changes = ("host*0.5", "device*0.5", "communication*2")
    assert command.endswith("steady 'host*0.5' 'device*0.5' 'communication*2'")
    predicted = shared_database(f"{STEPS}.json.gz").whatif("steady", *changes)
    assert f"{predicted.predicted_ns / 1e6:.3g} ms" == told.split(" (")[0]


@pytest.mark.thorough
def test_a_chosen_step_and_the_zoom_are_shown_everywhere_and_kept_in_the_address(steps):
    timeline = steps.page.locator("#trace1-timeline")
    start = timeline.locator(".drawing .role-axis-label text").filter(has_text=re.compile("^0 ns$"))
    bars = steps.page.locator("[data-figure$='-steps'] path[aria-roledescription=bar]")
    faint = steps.page.locator(
        "[data-figure$='-steps'] path[aria-roledescription=bar][opacity='0.35']"
    )
    choice = steps.page.locator("select.step").first
    name = choice.locator("option").nth(1).get_attribute("value")
    expect(start).to_have_count(1)
    choice.select_option(name)
    # The bars of two of three steps.
    expect(faint).to_have_count(bars.count() * 2 // 3)
    timeline.get_by_role("button", name="Zoom in").click()
    steps.page.wait_for_url("**zoom=*")
    expect(start).to_have_count(0)
    shown, address = timeline.locator(".here code").inner_text(), steps.page.url
    steps.page.goto("about:blank")
    steps.page.goto(address)
    steps.scroll_through()
    assert choice.input_value() == name
    expect(timeline.locator(".here code")).to_have_text(shown)
    steps.page.locator("nav.contents a", has_text="Kernels").click()
    assert name.replace("#", "%23") in steps.page.url
    timeline.get_by_role("button", name="All", exact=True).click()
    expect(start).to_have_count(1)
    choice.select_option("")
    expect(faint).to_have_count(0)
    assert steps.said == []


def test_a_source_is_copied_with_one_click(steps):
    figure = steps.page.locator("[data-figure]").nth(1)
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="Copy").click()
    figure.get_by_role("button", name="Copied").wait_for()
    copied = steps.page.evaluate("navigator.clipboard.readText()")
    assert copied == figure.locator(".source").inner_text()


@pytest.mark.thorough
def test_each_chart_has_its_rows_as_a_table(steps):
    for details in steps.page.locator("details.data").all():
        details.locator("summary").click()
        expect(details.locator("tbody tr").first).to_be_visible()


# -- the page of a trace with Python frames --------------------------------------------------------


@pytest.mark.thorough
def test_the_page_of_a_small_trace_is_not_too_high(bert):
    assert bert.page.evaluate("document.documentElement.scrollHeight") < 6_000


def test_long_names_are_short_in_tables_and_whole_on_hover(report, bert):
    whole = report(BERT)[1][0].top_kernels[0]["name"]
    cell = bert.page.locator("#trace1-kernels td.long", has_text="cutlass").first
    assert cell.inner_text().startswith("cutlass_80") and whole.startswith("void cutlass::")
    assert cell.locator("span.cut").get_attribute("title") == whole


def test_a_fix_unfolds_how_to_apply_it_and_leads_to_its_place(report, bert):
    advice = report(BERT)[1][0].advice
    fix = next(each for each in advice if each.where and ".py(" in each.where)
    line = bert.page.locator("details.how", has_text=fix.where).first
    line.locator("summary").click()
    for heading in ("Before", "After", "Risks", "To check"):
        expect(line.get_by_role("heading", name=heading)).to_be_visible()
    line.get_by_role("button", name="In the flame graph").click()
    output = bert.page.locator("#trace1-flame .controls output")
    expect(output).to_contain_text("% of the host time")
    assert bert.said == []


@pytest.mark.thorough
def test_a_row_leads_to_the_time_line_the_flame_graph_and_perfetto(bert):
    timeline = bert.page.locator("#trace1-timeline")
    for name in ("gaps", "kernels"):
        table = bert.page.locator(f"#trace1-{name}")
        table.scroll_into_view_if_needed()
        # The page's script has made it a table whose rows open.
        table.locator("th.dt-orderable-asc").first.wait_for()
    bert.page.locator("#trace1-gaps tbody tr").first.click()
    row = bert.page.locator("#trace1-gaps .described")
    assert " --from " in row.locator("code").inner_text()
    row.get_by_role("button", name="In the time line").click()
    bert.page.wait_for_url("**zoom=*")
    bert.page.locator("#trace1-kernels tbody tr").first.click()
    kernel = bert.page.locator("#trace1-kernels .described")
    assert "void cutlass::Kernel2<" in kernel.inner_text()
    expect(kernel.get_by_role("button", name="Launched most by: ")).to_contain_text(".py(")
    kernel.get_by_role("button", name="In the flame graph").first.click()
    output = bert.page.locator("#trace1-flame .controls output")
    expect(output).to_contain_text("% of the GPU time launched")
    timeline.get_by_role("button", name="All", exact=True).click()
    # Then the drawing is replaced.
    bert.page.wait_for_url(lambda url: "zoom=" not in url)
    timeline.locator(".mark-text text").first.wait_for()
    timeline.locator(".mark-rect path").first.click(force=True)
    expect(timeline.locator(".here dl")).to_contain_text("activity")
    timeline.locator(".mark-rect path").first.hover(force=True)
    expect(bert.page.locator("#vg-tooltip-element")).to_contain_text("activity")
    expect(bert.page.locator("#vg-tooltip-element")).not_to_contain_text("null")
    assert bert.said == []


def test_a_table_sorts_and_searches(bert):
    figure = bert.page.locator("#trace1-kernels")
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
    figure.get_by_role("searchbox").fill("cutlass")
    expect(figure.locator("tbody tr")).not_to_have_count(len(rising))
    names = figure.locator("tbody tr td:first-child").all_inner_texts()
    assert names and all("cutlass" in name for name in names)


def test_a_flame_graph_is_searched_inverted_and_looked_into_and_its_address_keeps_it(
    report, chromium
):
    path, _ = report(BERT)
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


# -- other pages -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", [BERT, "cpu-only", "a100-nccl", "mi250-minitoy"])
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


@pytest.mark.thorough
def test_threads_that_only_wait_are_hidden_in_the_flame_graph_until_asked_for(tmp_path, chromium):
    waits = [
        traces.frame("threading.py(1): run", 0, 1000),
        traces.frame("threading.py(327): wait", 1, 990),
    ]
    events = [traces.operator("aten::mm", 0, 900), *(each | {"tid": 99} for each in waits)]
    with load(traces.write(tmp_path / "t.json", events), verdicts=False) as run:
        write_any(run.session, tmp_path / "page.html")
    with open_page(chromium, tmp_path / "page.html") as view:
        figure = view.page.locator("#trace1-flame")
        figure.scroll_into_view_if_needed()
        threads = figure.locator(".mark-text text", has_text=re.compile("^thread "))
        expect(threads).to_have_count(1)
        figure.get_by_label("Threads that only wait").check()
        expect(threads).to_have_count(2)
        assert view.said == []
