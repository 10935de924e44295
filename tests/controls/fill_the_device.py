"""A product in 27 blocks on 108 SMs; the twin splits its sum, so that each SM has a block."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(33): project"
KERNEL = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
OTHER = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>"


def _launched(cause, ns, name, blocks):
    args = {
        "grid": [blocks, 1, 1], "block": [128, 1, 1], "blocks per SM": blocks / 108,
        "registers per thread": 128, "shared memory": 0,
    }  # fmt: skip
    return Launch(5 * US, (Op(cause, ns, name, args),))


def _program(ns, blocks):
    product = operator("aten::mm", 12 * US, _launched("math", ns, KERNEL, blocks))
    other = operator("aten::add", 10 * US, _launched("memory-bandwidth", 60 * US, OTHER, 8640))
    atoms = [product, other] * 10
    return [step(n, line(PLACE, *atoms), Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(200 * US, 27)
FIXED = _program(50 * US, 108)
