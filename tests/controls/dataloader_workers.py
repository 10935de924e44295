"""Each batch is loaded in the main process; in the twin, workers have it ready."""

from tests.kit.atoms import US, Fetch, Launch, Slice, Sync, Work, line, operator, step

PLACE = "train.py(21): train_epoch"
STEPS = 4
ITERATOR = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def _program(fetch):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 30
    train = line("train.py(44): train_step", *ops, operator("aten::item", US, Sync(3 * US, 7)))
    return [step(n, line(PLACE, fetch, train, Work(10 * US))) for n in range(STEPS)]


COLLATE = operator("aten::stack", 300 * US, operator("aten::cat", 200 * US))
FAULTY = _program(Slice(ITERATOR, "user_annotation", (Work(900 * US, "input"), COLLATE)))
FIXED = _program(Fetch(100 * US, 500 * US, ahead=4))
