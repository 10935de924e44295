"""A step classifies its items one by one; in the twin, it classifies them all at once."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "Classifier_0"
STEPS, ITEMS = 4, 8


def _program(calls):
    short = Op("latency", 4 * US, "void gemmSN_NN_kernel<float, 128, 2>")
    wide = Op("math", 12 * US, "ampere_sgemm_32x32_sliced1x4_tn")
    kernels = [short, short, wide] * 4
    model = line(
        "nn.Module: Classifier_0",
        *[operator("aten::mm", 14 * US, Launch(4 * US, (each,))) for each in kernels],
    )
    loop = line("serve.py(31): classify", *[model] * calls)
    if calls == 1:
        # One kernel does the work of all items.
        full = Op("math", 12 * US * ITEMS, wide.name)
        each = [short, short, full] * 4
        ops = [operator("aten::mm", 14 * US, Launch(4 * US, (kernel,))) for kernel in each]
        loop = line("serve.py(31): classify", line("nn.Module: Classifier_0", *ops))
    return [step(n, loop, Work(10 * US), Sync(2 * US)) for n in range(STEPS)]


FAULTY = _program(ITEMS)
FIXED = _program(1)
