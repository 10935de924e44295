"""A server prepares each step after the last one; in the twin, it does so while the device
works."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, operator

PLACE = None
STEPS, LAYERS = 6, 20
NAME = "step[DECODE bs=32]"


def _program(before, after):
    kernels = (Op("math", 30 * US, "void paged_attention_v1_kernel<bf16>"),) * LAYERS
    graph = operator("graph", US, Launch(9 * US, kernels, name="cudaGraphLaunch"))
    turn = (*before, Slice(NAME, "user_annotation", (graph, *after)), Sync(2 * US))
    return turn * STEPS


FAULTY = _program([Work(300 * US)], [])
FIXED = _program([], [Work(300 * US)])
