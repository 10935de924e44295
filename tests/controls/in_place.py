"""Scores are masked out of place, which copies them; the twin masks them in place."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(52): attend"
SCORES = [64, 1024, 1024]
COPY = Op("memory-bandwidth", 120 * US, "Memcpy DtoD (Device -> Device)")
FILL = Op("memory-bandwidth", 110 * US, "void at::native::masked_fill_kernel<c10::Half>")


def _program(*masking):
    atoms = line(PLACE, *masking * 10)
    return [step(n, atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


def _fill():
    return operator("aten::masked_fill_", 8 * US, Launch(5 * US, (FILL,)), shapes=[SCORES])


COPIED = operator("aten::copy_", 6 * US, Launch(5 * US, (COPY,)), shapes=[SCORES, SCORES])
CLONE = operator("aten::clone", 4 * US, COPIED, shapes=[SCORES])
FAULTY = _program(operator("aten::masked_fill", 4 * US, CLONE, _fill(), shapes=[SCORES]))
FIXED = _program(operator("aten::masked_fill", 4 * US, _fill(), shapes=[SCORES]))
