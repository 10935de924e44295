"""Each remedy is found where it is planted, at the price that its twin confirms, and only there."""

import re
from functools import partial

import pytest

from tests.answers import compact, differing
from tests.controls import CONTROLS
from tests.kit.atoms import US, Launch, Sync, operator, step
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tests.kit.traces import Together
from tracekit.causes import CAUSES
from tracekit.database.catalog import queries
from tracekit.database.remedies import CLAIMS, EFFORTS, all_remedies, query_of
from tracekit.examine import examine
from tracekit.replay.changes import COLUMNS, TARGETS

QUERIES = {name for name, each in queries().items() if each.topic == "remedies"}
# Prices may differ from the twin's gain by this share.
CLOSE = 0.05


def growing(kernel_us, batch):
    """Steps of small kernels, at a batch size."""
    kernel = ("memory-bandwidth", kernel_us * batch * US)
    ops = [operator("aten::add", 15 * US, Launch(5 * US, (kernel,)))] * 40
    return [step(n, *ops) for n in range(4)] + [Sync(2 * US)]


BATCHES = {2: 8, 4: 4, 40: None}


@pytest.fixture(scope="module")
def fixes(tmp_path_factory):
    """Tells what is advised on a run of a program, the trace's number and the length of its
    device's span, or of its work without a device; and the database of all."""
    together, simulations = Together(), {}
    for name in sorted(QUERIES):
        known = CONTROLS[name]
        for key, program in (("faulty", known.faulty), ("fixed", known.fixed)):
            simulations[name, key] = Simulation(program, known.machine)
            together.add(partial(write, simulation=simulations[name, key], **known.metadata))
    for kernel_us in BATCHES:
        simulations["batch", kernel_us] = Simulation(growing(kernel_us, 1))
        together.add(partial(write, simulation=simulations["batch", kernel_us]))
    traces = {key: n for n, key in enumerate(simulations, start=1)}

    with together.load(tmp_path_factory.mktemp("controls")) as run, run.session.sharing():

        def told(*key):
            span_ns = simulations[key].span_ns
            found = examine(run, traces[key], "gpu_active" if span_ns else None)
            assert found.fixes is not None
            return found.fixes.advice, traces[key], span_ns or simulations[key].worked_ns

        yield told, run


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_planted_fault_is_found_at_its_place_and_priced(name, fixes):
    told, run = fixes
    advice, trace, faulty_ns = told(name, "faulty")
    others, _, fixed_ns = told(name, "fixed")
    mine = next(each for each in advice if query_of(each.remedy) == name)
    # Advice on throughput, and advice outside the step, have their own lists.
    alike = [each for each in advice if _list_of(each) == _list_of(mine)]
    assert mine in alike[:2], (
        f"{name} is not among the first two of its list, so its control has a larger fault: "
        f"{[(each.remedy, each.saves_ns) for each in alike]}"
    )
    assert mine.where == CONTROLS[name].place
    real_ns = faulty_ns - fixed_ns
    assert abs(mine.saves_ns - real_ns) <= CLOSE * real_ns, (mine.saves_ns, real_ns)
    assert name not in {query_of(each.remedy) for each in others if not each.once}
    differences = differing(f"fault {name}", compact(examine(run, trace).analysis))
    assert differences == [], f"to commit its new answer: make answers NAMES={name} ACCEPT=1"


def _list_of(advice) -> tuple[bool, bool]:
    remedy = all_remedies()[advice.remedy]
    return remedy.is_apart, remedy.is_batch


def test_each_query_has_words_and_each_remedy_of_what_recurs_has_a_query():
    recurring = {query_of(name) for name, each in all_remedies().items() if each.has_query}
    assert recurring == QUERIES


def test_words_are_whole():
    for name, remedy in all_remedies().items():
        assert remedy.effort in EFFORTS and remedy.claims in CLAIMS, name
        assert remedy.causes and set(remedy.causes) <= set(CAUSES), name
        assert set(remedy.once) <= {*CAUSES, "capture", "late-rank", "new-shape"}, name
        titles = [remedy.title, *(e.partition(": ")[2] for e in remedy.titled.split("; ") if e)]
        assert all(each and len(each) <= 60 and not each.endswith(".") for each in titles), name
        assert remedy.needs.endswith("."), name
        assert not remedy.caveat or remedy.caveat.endswith("."), name
        assert remedy.before and remedy.after and remedy.risks.endswith("."), name
        assert remedy.check and remedy.sources, name
        assert all(each.startswith("https://") for each in remedy.sources), name


def test_a_query_returns_parts():
    for name in QUERIES:
        columns = {each.name for each in queries()[name].columns}
        assert {"trace_id", "place", "detail", *COLUMNS} <= columns, name
        assert re.search(rf"'({'|'.join(TARGETS)})'\)? AS target", queries()[name].sql), name


@pytest.mark.parametrize(("kernel_us", "times"), BATCHES.items())
def test_a_larger_batch_is_advised_where_the_host_leaves_time_for_it(kernel_us, times, fixes):
    advice, _, span_ns = fixes[0]("batch", kernel_us)
    found = [each for each in advice if each.remedy == "larger-batch"]
    assert [each.change for each in found] == ([f"batch*{times}"] if times else [])
    if times:
        larger = Simulation(growing(kernel_us, times))
        list(larger.events())
        assert larger.span_ns < 1.05 * span_ns
        saved_ns = span_ns - larger.span_ns / times
        assert found[0].saves_ns == pytest.approx(saved_ns, rel=CLOSE)
