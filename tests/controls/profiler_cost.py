"""Each step takes the host twice as long as without the profiler, as measured by capture."""

from tests.kit.atoms import US, Launch, Sync, Work, operator, step

PLACE = None
OPS = 60
METADATA = {
    "tracekit": {
        "profiled_step_ns": 2 * (OPS * 16 + 10) * US,
        "unprofiled_step_ns": (OPS * 16 + 10) * US,
    }
}


def _program(cost):
    launch = Launch(4 * US * cost, (("memory-bandwidth", 3 * US),))
    ops = [operator("aten::add", 12 * US * cost, launch)] * OPS
    # Compiled already, so that compiling is not a remedy.
    whole = operator("Torch-Compiled Region: 0/0", 0, *ops)
    return [step(n, whole, Work(10 * US * cost)) for n in range(4)] + [Sync(2 * US)]


FAULTY = _program(2)
FIXED = _program(1)
