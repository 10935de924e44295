"""Advice on new shapes is given only where the recorded shapes go on changing."""

import pytest

from tests.controls.planting import SYNC, launched
from tests.kit.atoms import MS, US, step
from tests.kit.simulated import Programs

NAMES = "aten::conv2d", "aten::scaled_dot_product_attention"
# Each layer has inputs of its own size: the large ones take milliseconds in every step.
WIDTHS = (512, 512, 512, 64, 64, 32, 8)
LENGTHS = range(512, 512 + 8 * 8, 8)


def call(name, width, ns, is_shaped=True):
    shapes = {"shapes": [[8, 16, width, 64]] * 3} if is_shaped else {}
    return launched(name, ns, ("math", 40 * US), 4 * US, **shapes)


def layers(name):
    return [call(name, width, 10 * MS if width == 512 else width * US) for width in WIDTHS]


def preparing(name, widths, is_shaped=True):
    """The first call of each step takes long; the others, of the same shape, do not."""
    return [
        step(n, *(call(name, width, ns, is_shaped) for ns in (5 * MS, *[20 * US] * 6)))
        for n, width in enumerate(widths)
    ]


PROGRAMS = {
    f"{name}: {title}": (program, count)
    for name in NAMES
    for title, program, count in (
        ("shapes that change", preparing(name, LENGTHS), 8),
        ("shapes that change, not recorded", preparing(name, LENGTHS, is_shaped=False), 0),
        ("long calls of one shape", preparing(name, [512] * 8), 0),
        ("layers of several sizes", [step(n, *layers(name)) for n in range(8)], 0),
        ("layers of several sizes in a single pass", [step(0, *layers(name) * 4)], 0),
        ("shapes that change, with no step marked", [
            call(name, each, ns) for each in LENGTHS for ns in (5 * MS, 20 * US)
        ], 0),
    )
}  # fmt: skip
TRACES = Programs()
TRACE = {title: TRACES.program([*atoms, SYNC]) for title, (atoms, _) in PROGRAMS.items()}


@pytest.mark.parametrize("title", PROGRAMS)
def test_shapes_are_new_only_where_recorded_ones_go_on_changing(title, loaded):
    found = loaded.ask("few_shapes", trace=TRACE[title])
    assert len(found) == PROGRAMS[title][1]
    assert all(row["dur_ns"] >= 5 * MS for row in found)


def test_a_trace_without_shapes_says_that_new_ones_were_not_looked_for(loaded):
    fixes = loaded.advise(trace=TRACE[f"{NAMES[0]}: shapes that change, not recorded"])
    assert any("few-shapes" in each.remedies for each in fixes.unlooked)
