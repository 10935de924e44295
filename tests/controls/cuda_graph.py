"""Many short kernels, launched one by one; in the twin, their launches are free, as in a graph."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = None
STEPS, KERNELS = 4, 60


def _ops():
    return [Op("memory-bandwidth", 3 * US, f"add_{n}") for n in range(KERNELS)]


def faulty():
    ops = [operator("aten::add", 12 * US, Launch(5 * US, (op,))) for op in _ops()]
    steps = [[*ops, Work(10 * US), Sync(2 * US)] for _ in range(STEPS)]
    return [step(n, *atoms) for n, atoms in enumerate(steps)]


def fixed():
    graph = operator("graph", 12 * US, Launch(5 * US, tuple(_ops()), name="cudaGraphLaunch"))
    return [step(n, graph, Work(10 * US), Sync(2 * US)) for n in range(STEPS)]
