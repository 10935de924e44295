"""Many short kernels, launched one by one; in the twin, their launches are free, as in a graph."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = None
STEPS, KERNELS = 4, 60
OPS = [Op("memory-bandwidth", 3 * US, f"add_{n}") for n in range(KERNELS)]


def _program(*launches):
    return [step(n, *launches, Work(10 * US), Sync(2 * US)) for n in range(STEPS)]


FAULTY = _program(*[operator("aten::add", 12 * US, Launch(5 * US, (op,))) for op in OPS])
GRAPH = Launch(5 * US, tuple(OPS), name="cudaGraphLaunch")
FIXED = _program(operator("graph", 12 * US, GRAPH))
