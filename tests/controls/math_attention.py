"""Attention of fp32 inputs with a mask, by the math backend; the twin runs one fused kernel."""

from tests.controls.fused_attention import (
    FUSED_NS,
    GEMM,
    KEY,
    PLACE,
    PRODUCT_NS,
    QUERY,
    SCORES,
    SOFTMAX,
    VALUE,
    _operator,
)
from tests.kit.atoms import US, Sync, Work, line, operator, step

HEADS = [64, 1, 1024, 64]


def _program(*parts, name, shapes, types):
    inner = operator(name, 5 * US, *parts)
    whole = operator(
        "aten::scaled_dot_product_attention", 3 * US, inner, shapes=shapes, types=types
    )
    return [step(n, line(PLACE, *[whole] * 10), Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(
    _operator("aten::bmm", [QUERY, KEY], "math", PRODUCT_NS, GEMM),
    _operator("aten::_softmax", [SCORES], "memory-bandwidth", 180 * US, SOFTMAX),
    _operator("aten::bmm", [SCORES, VALUE], "math", PRODUCT_NS, GEMM),
    name="aten::_scaled_dot_product_attention_math",
    shapes=[HEADS, HEADS, HEADS, [1024, 1024]],
    types=["float", "float", "float", "float"],
)
KERNEL = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>"
NAME = "aten::_scaled_dot_product_flash_attention"
FIXED = _program(
    _operator("aten::_flash_attention_forward", [HEADS] * 3, "math", FUSED_NS, KERNEL),
    name=NAME,
    shapes=[HEADS, HEADS, HEADS, []],
    types=["c10::Half"] * 4,
)
