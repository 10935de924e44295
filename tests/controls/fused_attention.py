"""Attention as two products with a softmax between; the twin runs one kernel instead."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(41): attend"
QUERY, KEY, VALUE = [64, 1024, 64], [64, 64, 1024], [64, 1024, 64]
SCORES = [64, 1024, 1024]
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 10>"
# A product takes 100 us: 74 % of the memory roof, which the scores make. Its math takes 27.5 us.
PRODUCT_NS, FUSED_NS = 100 * US, 74_350


def _operator(name, shapes, cause, ns, kernel):
    types = ["c10::Half"] * len(shapes)
    launch = Launch(5 * US, (Op(cause, ns, kernel),))
    return operator(name, 10 * US, launch, shapes=shapes, types=types)


def _program(*atoms):
    steps = line(PLACE, *atoms * 10)
    return [step(n, steps, Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(
    _operator("aten::bmm", [QUERY, KEY], "math", PRODUCT_NS, GEMM),
    _operator("aten::_softmax", [SCORES], "memory-bandwidth", 180 * US, SOFTMAX),
    _operator("aten::bmm", [SCORES, VALUE], "math", PRODUCT_NS, GEMM),
)
NAME = "aten::_scaled_dot_product_flash_attention"
KERNEL = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>"
SHAPES = [[64, 1, 1024, 64]] * 3
FIXED = _program(_operator(NAME, SHAPES, "math", FUSED_NS, KERNEL))
