"""Inference runs convolutions and their batch norms; in the twin, weights contain the norms."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "resnet.py(88): forward"
_NORM = "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>"


def _program(*norm):
    convolution = operator("aten::conv2d", 9 * US, Launch(5 * US, (("math", 40 * US),)))
    relu = operator("aten::relu_", 9 * US, Launch(5 * US, (("memory-bandwidth", 9 * US),)))
    block = line(PLACE, convolution, *norm, relu)
    return [step(n, *[block] * 10, Work(10 * US), Sync(2 * US)) for n in range(5)]


KERNEL = Op("memory-bandwidth", 20 * US, _NORM)
FAULTY = _program(operator("aten::batch_norm", 9 * US, Launch(5 * US, (KERNEL,))))
FIXED = _program()
