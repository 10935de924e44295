"""A module run eagerly; in the twin, compiled: chains fused, dispatch and Python halved."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, line, operator, step

PLACE = "Block_0"
STEPS, REPEATS = 4, 12
SQUARE = [1024, 1024]
MATH, ADD, RELU = 6 * US, 9 * US, 8 * US


def _program(*block):
    module = line(f"nn.Module: {PLACE}", *block)
    return [step(n, module, Work(4 * US), Sync(2 * US)) for n in range(STEPS)]


KERNEL = ("memory-bandwidth", ADD)
EAGER = [
    operator("aten::mm", 12 * US, Launch(5 * US, (("math", MATH),)), shapes=[SQUARE] * 2),
    operator("aten::add", 12 * US, Launch(5 * US, (KERNEL,)), shapes=[SQUARE] * 2),
    Work(6 * US),
    operator("aten::relu", 12 * US, Launch(5 * US, (("memory-bandwidth", RELU),)), shapes=[SQUARE]),
]
FAULTY = _program(*EAGER * REPEATS)
# add keeps two reads of two reads and a write; relu keeps the write of a read and a write.
FUSED = Op("memory-bandwidth", ADD * 2 // 3 + RELU // 2, "triton_poi_fused_add_relu_0")
COMPILED = [
    operator("aten::mm", 6 * US, Launch(5 * US, (("math", MATH),)), shapes=[SQUARE] * 2),
    Work(3 * US),
    operator("triton_poi_fused_add_relu_0", 12 * US, Launch(5 * US, (FUSED,))),
]
FIXED = _program(Slice("Torch-Compiled Region: 0/0", "cpu_op", tuple(COMPILED * REPEATS)))
