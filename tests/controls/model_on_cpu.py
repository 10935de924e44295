"""An encoder was left on the CPU; in the twin, it runs on the device."""

from tests.kit.atoms import US, Launch, Sync, Work, line, operator, step

PLACE = "model.py(8): encode"


def _program(encoder):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20
    return [step(n, line(PLACE, *encoder), *ops, Work(10 * US), Sync(2 * US)) for n in range(5)]


FAULTY = _program([operator("aten::linear", 2 * US, operator("aten::addmm", 700 * US))] * 3)
FIXED = _program([operator("aten::addmm", 3 * US, Launch(4 * US, (("math", 4 * US),)))] * 3)
