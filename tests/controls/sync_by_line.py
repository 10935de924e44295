"""The loss is read on the host after each forward pass, before the backward pass is launched."""

from tests.kit.atoms import US, Launch, Sync, Work, line, operator, step

PLACE = "train.py(12): train_step"


def _half():
    return [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20


def _program(*between):
    atoms = [line(PLACE, *_half(), *between, *_half())]
    return [step(n, *atoms, Work(10 * US)) for n in range(4)] + [Sync(2 * US)]


READ = operator("aten::_local_scalar_dense", 2 * US, Sync(3 * US, 7))
FAULTY = _program(operator("aten::item", US, READ))
FIXED = _program()
