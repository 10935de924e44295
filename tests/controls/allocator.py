"""Each step empties the cache at its end, so the next one allocates again; the twin keeps its
memory."""

from tests.kit.atoms import US, Call, Launch, Sync, Work, line, operator, step

PLACE = "train.py(18): train_epoch"
STEPS = 5


def _program(empty, allocate):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 15
    first = operator("aten::empty", 3 * US, *allocate)
    train = line("train.py(44): train_step", first, *ops, operator("aten::item", US, Sync(US, 7)))
    return [step(n, line(PLACE, train, *empty, Work(10 * US))) for n in range(STEPS)]


FREES = [Call("cudaFree", 180 * US, "allocation")] * 4
EMPTY = line("torch/cuda/memory.py(160): empty_cache", Work(2 * US), *FREES)
FAULTY = _program([EMPTY], [Call("cudaMalloc", 120 * US, "allocation")] * 4)
FIXED = _program([], [])
