"""The program synchronizes between the forward and the backward pass; its twin does not."""

from tests.kit.atoms import US, Launch, Sync, Work, line, operator, step

PLACE = "train.py(18): timed"


def _half():
    return [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20


def _program(*between):
    atoms = [*_half(), line(PLACE, *between, Work(5 * US)), *_half()]
    return [step(n, *atoms, Work(10 * US)) for n in range(4)] + [Sync(2 * US)]


FAULTY = _program(line("<built-in function _cuda_synchronize>", Sync(3 * US)))
FIXED = _program()
