"""Inputs come from pageable memory, labels from pinned memory; in the twin, both from pinned."""

from tests.kit.atoms import US, BlockingCopy, Launch, Op, Sync, Work, line, operator, step

PLACE = "train.py(12): train_step"
STEPS, BYTES = 4, 8_000_000


def _pinned(size, ns):
    return Launch(5 * US, (Op("copy", ns, "Memcpy HtoD (Pinned -> Device)", {"bytes": size}),))


def _program(copy):
    images = operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, copy))
    labels = operator("aten::copy_", 3 * US, _pinned(2 * BYTES, 640 * US))
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 40 * US),)))] * 40
    atoms = [line("data.py(7): labels", labels), line(PLACE, *ops, images, *ops)]
    return [step(n, *atoms, Work(10 * US)) for n in range(STEPS)] + [Sync(2 * US)]


FAULTY = _program(BlockingCopy(300 * US, 900 * US, bytes=BYTES))
FIXED = _program(_pinned(BYTES, 320 * US))
