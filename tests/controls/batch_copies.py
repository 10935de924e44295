"""Many small tensors are copied to the device one by one; in the twin, they are packed into one
copy."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(31): prepare"
STEPS, COPIES = 4, 40


def _copy(count):
    copy = Op("copy", 1_400, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4096 * count})
    moved = operator("aten::copy_", 4 * US, Launch(5 * US, (copy,), name="cudaMemcpyAsync"))
    return operator("aten::to", 2 * US, operator("aten::_to_copy", 4 * US, moved))


def _program(*copies):
    model = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 10 * US),)))
    steps = [[line(PLACE, *copies), *[model] * 20, Work(10 * US)] for _ in range(STEPS)]
    return [step(n, *atoms, Sync(2 * US)) for n, atoms in enumerate(steps)]


FAULTY = _program(*[_copy(1)] * COPIES)
FIXED = _program(_copy(COPIES))
