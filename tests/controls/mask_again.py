"""Each call builds its causal mask again; the twin has it already."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(12): forward"
MASK = [2048, 2048]
FILL = Op("memory-bandwidth", 10 * US, "void at::native::vectorized_elementwise_kernel<fill>")
TRIANGLE = Op("memory-bandwidth", 20 * US, "void at::native::triu_tril_kernel<float>")


def _program(*mask):
    product = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 25 * US),)))
    atoms = line(PLACE, *(*mask, product) * 10)
    return [step(n, atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


FILLED = operator("aten::fill_", 6 * US, Launch(5 * US, (FILL,)), shapes=[MASK])
ONES = operator("aten::ones", 8 * US, FILLED, shapes=[MASK])
LOWER = operator("aten::tril", 10 * US, Launch(5 * US, (TRIANGLE,)), shapes=[MASK])
NOT = operator("aten::logical_not", 6 * US, Launch(5 * US, (FILL,)), shapes=[MASK])
FAULTY = _program(ONES, LOWER, NOT)
FIXED = _program()
