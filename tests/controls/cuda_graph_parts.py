"""Two stretches end in waits; the longer one, of many launches, is a single graph in the twin."""

from tests.atoms import US, Launch, Op, Sync, line, operator, step

PLACE = "train.py(31): log_loss"
KERNELS = 60


def _read(place):
    wait = operator("aten::_local_scalar_dense", 2 * US, Sync(3 * US, 7))
    return line(place, operator("aten::item", US, wait))


def _program(*stretch):
    norm = [operator("aten::norm", 10 * US, Launch(5 * US, (("math", 300 * US),)))] * 3
    atoms = [*stretch, _read(PLACE), *norm, _read("train.py(44): clip_gradients")]
    return [step(n, *atoms) for n in range(5)] + [Sync(2 * US)]


def _ops():
    return [Op("memory-bandwidth", 3 * US, f"add_{n}") for n in range(KERNELS)]


def faulty():
    return _program(*(operator("aten::add", 12 * US, Launch(5 * US, (op,))) for op in _ops()))


def fixed():
    launch = Launch(5 * US, tuple(_ops()), name="cudaGraphLaunch")
    return _program(operator("graph", 12 * US, launch))
