"""Convolutions of images in NCHW, which cuDNN converts before and after; the twin needs no
conversion."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(20): forward"
IN = Op("memory-bandwidth", 60 * US, "void cudnn::ops::nchwToNhwcKernel<__half, __half, float>")
OUT = Op("memory-bandwidth", 40 * US, "void cudnn::ops::nhwcToNchwKernel<__half, __half, float>")
CONVOLUTION = Op("math", 90 * US, "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc")


def _program(*kernels):
    launches = [Launch(5 * US, (each,)) for each in kernels]
    layer = operator("aten::conv2d", 8 * US, operator("aten::cudnn_convolution", 8 * US, *launches))
    atoms = line(PLACE, *[layer] * 12)
    return [step(n, atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(IN, CONVOLUTION, OUT)
FIXED = _program(CONVOLUTION)
