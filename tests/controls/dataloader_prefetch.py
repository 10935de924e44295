"""One worker takes longer to load a batch than a step takes; in the twin, there are enough."""

from tests.kit.atoms import US, Fetch, Launch, Sync, Work, line, operator, step

PLACE = "train.py(21): train_epoch"
STEPS = 6


def _program(load_ns):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 30
    train = line("train.py(44): train_step", *ops, operator("aten::item", US, Sync(3 * US, 7)))
    fetch = Fetch(60 * US, load_ns)
    return [step(n, line(PLACE, fetch, train, Work(10 * US))) for n in range(STEPS)]


FAULTY = _program(2_000 * US)
FIXED = _program(300 * US)
