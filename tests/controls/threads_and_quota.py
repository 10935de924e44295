"""The thread loses its core again and again, in whatever call it is; in the twin, it keeps it."""

from tests.atoms import MS, US, Launch, Sync, Work, operator, step

PLACE = None
STEPS = 6
NAMES = ("aten::mm", "aten::add", "aten::relu", "aten::view")


def _program(stalled):
    steps = []
    for number in range(STEPS):
        ops = []
        for turn in range(40):
            name = NAMES[turn % 4]
            # Each step, one of its operators is stopped.
            lost = (4 * MS,) if stalled and turn == 7 * number % 40 and number else ()
            work = [Work(each, "dispatch") for each in lost]
            if name == "aten::view":
                ops.append(operator(name, 15 * US, *work))
            else:
                ops.append(operator(name, 15 * US, operator("aten::empty", 6 * US, *work)))
                ops.append(operator("aten::copy_", 9 * US, Launch(4 * US, (("math", 9 * US),))))
        steps.append(step(number, *ops, Work(10 * US)))
    return [*steps, Sync(2 * US)]


def faulty():
    return _program(True)


def fixed():
    return _program(False)
