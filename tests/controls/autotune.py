"""A product that Inductor generated takes most of the time, and a library's reaches less of its
peak than a smaller one; in the twin, both are tuned."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = "triton_tem_fused_addmm"
# An A100 multiplies bf16 at 312 TFLOP/s.
FLOP_PER_NS = 312_000
TYPES = ["c10::BFloat16"] * 2


def _product(kernel, m, k, n, reached):
    op = Op("math", round(2 * m * k * n / FLOP_PER_NS / reached), kernel)
    shapes = [[m, k], [k, n]]
    return operator("aten::mm", 9 * US, Launch(5 * US, (op,)), shapes=shapes, types=TYPES)


def _program(generated, large):
    atoms = [
        _product("triton_tem_fused_addmm_3", 4096, 2048, 4096, generated),
        _product("ampere_bf16_s16816gemm_bf16_128x128", 4096, 1024, 2048, 0.6),
        _product("ampere_bf16_s16816gemm_bf16_64x64", 4096, 2048, 2048, large),
        operator("aten::relu", 9 * US, Launch(5 * US, (("memory-bandwidth", 50 * US),))),
    ] * 10
    return [step(n, *atoms, Work(10 * US)) for n in range(5)] + [Sync(2 * US)]


FAULTY = _program(generated=0.36, large=0.4)
FIXED = _program(generated=0.6, large=0.6)
