"""Products of fp32 on an A100 by FFMA kernels; in the twin the same in TF32, which is faster."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "train.py(12): train_step"
# An A100 multiplies fp32 at 19.5 TFLOP/s and TF32 at 156.
SHAPES = [[1024, 1024], [1024, 1024]]
FP32_NS = 144 * US


def _program(kernel):
    product = operator("aten::mm", 12 * US, Launch(5 * US, (kernel,)), shapes=SHAPES)
    other = operator("aten::relu", 10 * US, Launch(5 * US, (("memory-bandwidth", 30 * US),)))
    atoms = [product, other] * 10
    return [step(n, line(PLACE, *atoms), Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(Op("math", FP32_NS, "ampere_sgemm_128x64_nn"))
FIXED = _program(Op("math", FP32_NS // 8, "ampere_sgemm_tf32_128x64_nn"))
