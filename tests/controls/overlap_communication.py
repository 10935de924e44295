"""Gradients are reduced in one bucket after the backward pass; in the twin, in four during it."""

from tests.kit.atoms import NAMES, US, HandOver, Launch, Op, StreamWait, Sync, Work, operator, step
from tests.kit.simulator import Machine

PLACE = "allreduce, group 0"
STEPS, BUCKETS = 4, 4
MACHINE = Machine(records_waits=True)
GRADIENT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def _reduce(mib, ns):
    elements = mib * 1024 * 1024 // 4
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    launch = Launch(6 * US, (Op("communication", ns, NAMES["communication"], told),), stream=20)
    called = operator("record_param_comms", 4 * US, operator("nccl:all_reduce", 4 * US, launch))
    return operator(GRADIENT, 4 * US, StreamWait(2 * US, 7, 20), called)


def _layers(name, count):
    return [operator(name, 8 * US, Launch(4 * US, (("math", 60 * US),)))] * count


def _program(*backward):
    backward = HandOver((*backward, StreamWait(2 * US, 20, 7)))
    optimizer = operator("aten::add_", 6 * US, Launch(4 * US, (("memory-bandwidth", 8 * US),)))
    return [
        step(n, *_layers("aten::mm", 10), backward, optimizer, Sync(2 * US), Work(10 * US))
        for n in range(STEPS)
    ]


FAULTY = _program(*_layers("MmBackward0", 20), _reduce(100, 1_000 * US))
BUCKET = [
    *_layers("MmBackward0", 20 // BUCKETS),
    _reduce(100 // BUCKETS, 1_000 * US // BUCKETS),
]
FIXED = _program(*BUCKET * BUCKETS)
