"""Inference under autocast, which casts each weight in each pass; the twin stores weights in
fp16."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "serve.py(30): forward"
INPUT, WEIGHT = [64, 1024], [4096, 1024]
CAST = Op("memory-bandwidth", 45 * US, "void at::native::unrolled_elementwise_kernel<direct_copy>")


def _cast():
    types = ["c10::Half", "float", "Scalar"]
    copy = operator(
        "aten::copy_", 8 * US, Launch(5 * US, (CAST,)), shapes=[WEIGHT, WEIGHT, []], types=types
    )
    return operator("aten::to", 2 * US, operator("aten::_to_copy", 6 * US, copy))


def _program(*casts):
    product = operator("aten::addmm", 12 * US, Launch(5 * US, (("math", 30 * US),)))
    shapes = [INPUT, WEIGHT, [4096]]
    layer = operator("aten::linear", 4 * US, *casts, product, shapes=shapes)
    atoms = line(PLACE, *[layer] * 12)
    return [step(n, atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(_cast())
FIXED = _program()
