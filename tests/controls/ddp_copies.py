"""DistributedDataParallel broadcasts buffers in each step; in the twin, ranks keep their own."""

from tests.kit.atoms import US, Launch, Op, StreamWait, Sync, Work, operator, step

PLACE = "DistributedDataParallel, buffers"
STEPS, BUFFERS = 4, 60


def _copy(name):
    copied = Op("copy", 2 * US, "Memcpy DtoD (Device -> Device)", {"bytes": 4096})
    return operator(name, 8 * US, Launch(5 * US, (copied,)))


def _program(*before):
    model = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 20 * US),)))
    steps = [[*before, *[model] * 40, Sync(2 * US), Work(10 * US)]] * STEPS
    return [step(n, *atoms) for n, atoms in enumerate(steps)]


SENT = Launch(6 * US, (("communication", 30 * US),), stream=20)
FAULTY = _program(
    operator("aten::flatten_dense_tensors", 300 * US, _copy("aten::cat")),
    operator("c10d::broadcast_", 20 * US, StreamWait(2 * US, 7, 20), SENT),
    operator("record_param_comms", 4 * US, StreamWait(2 * US, 20, 7)),
    operator("aten::unflatten_dense_tensors", 400 * US),
    *[_copy("aten::copy_")] * BUFFERS,
)
FIXED = _program()
