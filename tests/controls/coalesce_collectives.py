"""Many small all-reduces in a row; in the twin, one with all their bytes."""

from tests.kit.atoms import NAMES, US, Launch, Op, Sync, Work, line, operator, step

PLACE = "metrics.py(18): reduce_all"
STEPS, COUNT = 4, 24


def _reduce(elements, ns):
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    launch = Launch(6 * US, (Op("communication", ns, NAMES["communication"], told),), stream=20)
    called = operator("record_param_comms", 5 * US, operator("nccl:all_reduce", 4 * US, launch))
    return operator("c10d::allreduce_", 6 * US, called)


def _program(*reductions):
    model = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 20 * US),)))
    steps = [[*[model] * 20, line(PLACE, *reductions), Sync(2 * US), Work(10 * US)]] * STEPS
    return [step(n, *atoms) for n, atoms in enumerate(steps)]


FAULTY = _program(*[_reduce(256, 24 * US)] * COUNT)
FIXED = _program(_reduce(256 * COUNT, 24 * US))
