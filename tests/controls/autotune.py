"""A product that Inductor generated takes most of the time; in the twin, its tuned form."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = "triton_tem_fused_addmm"
# An A100 multiplies bf16 at 312 TFLOP/s: 220 us.
SHAPES = [[4096, 2048], [2048, 4096]]
TYPES = ["c10::BFloat16"] * 2


def _program(ns):
    product = Op("math", ns, "triton_tem_fused_addmm_3")
    atoms = [
        operator("aten::mm", 9 * US, Launch(5 * US, (product,)), shapes=SHAPES, types=TYPES),
        operator("aten::relu", 9 * US, Launch(5 * US, (("memory-bandwidth", 50 * US),))),
    ] * 10
    return [step(n, *atoms, Work(10 * US)) for n in range(5)] + [Sync(2 * US)]


FAULTY = _program(600 * US)
FIXED = _program(220 * US * 10 // 6)
