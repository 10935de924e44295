"""Noise is made and converted on the CPU and copied; in the twin, a kernel makes it there."""

from tests.kit.atoms import US, BlockingCopy, Launch, Sync, Work, line, operator, step

PLACE = "train.py(12): train_step"


def _program(*noise):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20
    atoms = [line(PLACE, *noise), line("train.py(20): forward", *ops)]
    return [step(n, *atoms, Work(10 * US), Sync(2 * US)) for n in range(5)]


COPY = BlockingCopy(100 * US, 400 * US, bytes=8_000_000)
FAULTY = _program(
    operator("aten::randn", 900 * US, operator("aten::normal_", 800 * US)),
    operator("aten::to", 2 * US, operator("aten::_to_copy", 300 * US)),
    operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, COPY)),
)
MADE = Launch(4 * US, (("memory-bandwidth", 3 * US),))
FIXED = _program(operator("aten::randn", 4 * US, MADE))
