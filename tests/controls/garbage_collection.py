"""The program collects garbage in each step; its twin does not."""

from tests.kit.atoms import MS, US, Launch, Sync, Work, line, operator, step

PLACE = "train.py(20): train_epoch"


def _program(*collect):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 10 * US),)))] * 20
    train = line("train.py(44): train_step", *ops, operator("aten::item", US, Sync(3 * US, 7)))
    return [step(n, line(PLACE, train, *collect, Work(10 * US))) for n in range(4)]


FAULTY = _program(line("<built-in function collect>", Work(US), line("Python GC", Work(MS))))
FIXED = _program()
