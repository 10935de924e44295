"""The thread repeatedly loses its core, in any call; in the twin, it keeps it."""

from tests.kit.atoms import US, Launch, Sync, Work, operator, step

PLACE = None
STEPS, TURNS = 60, 30
NAMES = ("aten::empty", "aten::resize_", "aten::clone")


def _program(stalled):
    # Two reads per step: it cannot become a graph.
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))
    steps = []
    for number in range(STEPS):
        ops = []
        for turn in range(TURNS):
            # In each step but the first, one operator is stopped.
            is_lost = stalled and number and turn == 7 * number % TURNS
            lost = [Work(1200 * US, "dispatch")] * is_lost
            ops.append(operator(NAMES[turn % 3], 6 * US, *lost))
            ops.append(operator("aten::copy_", 9 * US, Launch(4 * US, (("math", 9 * US),))))
        half = len(ops) // 2
        steps.append(step(number, *ops[:half], read, *ops[half:], read, Work(10 * US)))
    return [*steps, Sync(2 * US)]


FAULTY = _program(True)
FIXED = _program(False)
