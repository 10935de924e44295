"""Keys are transposed and made contiguous before a product, which could read them as they are."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(41): attend"
SHAPE = [64, 16, 64, 512]
COPY = Op(
    "memory-bandwidth", 50 * US, "void at::native::elementwise_kernel<128, 4, direct_copy_kernel>"
)


def _copy():
    types = ["c10::Half", "c10::Half", "Scalar"]
    copy = operator(
        "aten::copy_", 6 * US, Launch(5 * US, (COPY,)), shapes=[SHAPE, SHAPE, []], types=types
    )
    return operator("aten::contiguous", US, operator("aten::clone", 6 * US, copy))


def _program(*copies):
    product = operator("aten::bmm", 12 * US, Launch(5 * US, (("math", 80 * US),)))
    atoms = line(PLACE, *[*copies, product] * 12)
    return [step(n, atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(_copy())
FIXED = _program()
