"""A function computes in Python between two halves of a step; in the twin, it returns at once."""

from tests.kit.atoms import US, Launch, Sync, Work, line, operator, step

PLACE = "metrics.py(31): summarize"


def _half():
    return [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 10 * US),)))] * 20


def _program(*work):
    read = operator("aten::item", US, Sync(3 * US, 7))
    atoms = [line("train.py(12): train_step", *_half(), read, line(PLACE, *work), *_half())]
    return [step(n, *atoms, Work(10 * US)) for n in range(4)]


BUILT_IN = line("<built-in method sort of list object at 0x7f2f4c0b3a80>", Work(100 * US))
LIBRARY = line("inspect.py(2501): _signature_from_callable", Work(20 * US), BUILT_IN)
FAULTY = _program(Work(100 * US), LIBRARY, operator("aten::add", 5 * US), Work(50 * US))
FIXED = _program(operator("aten::add", 5 * US))
