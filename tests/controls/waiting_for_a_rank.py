"""Every second all-reduce waits for another rank; in the twin, that rank comes in time."""

from tests.kit.atoms import NAMES, US, Launch, Op, Sync, Work, operator, step

PLACE = "allreduce, group 0"
STEPS, WIRE, LATE = 4, 120 * US, 700 * US


def _reduce(ns):
    told = {
        "Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    launch = Launch(6 * US, (Op("communication", ns, NAMES["communication"], told),))
    return operator("record_param_comms", 5 * US, operator("nccl:all_reduce", 4 * US, launch))


def _program(*reductions):
    model = [operator("aten::mm", 12 * US, Launch(5 * US, (("math", 40 * US),)))] * 10
    layers = [atom for each in reductions for atom in (*model, each)]
    return [step(n, *layers, Sync(2 * US), Work(10 * US)) for n in range(STEPS)]


FAULTY = _program(_reduce(WIRE), _reduce(LATE))
FIXED = _program(_reduce(WIRE), _reduce(WIRE))
