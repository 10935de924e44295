"""A layer with 1705 outputs in an unaligned kernel, beside one with 2048; the twin pads to 1712."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(33): head"
OTHER = "model.py(20): body"
KERNEL = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align{}>(Params)"
FLOP_PER_NS = 100_000
UNALIGNED_NS = 360 * US


def _product(columns, align, ns):
    launch = Launch(5 * US, (Op("math", ns, KERNEL.format(align)),))
    shapes, types = [[4096, 1024], [1024, columns]], ["c10::BFloat16"] * 2
    return operator("aten::mm", 12 * US, launch, shapes=shapes, types=types)


def _time_ns(columns):
    return round(2 * 4096 * 1024 * columns / FLOP_PER_NS)


def _program(head):
    body = _product(2048, 8, _time_ns(2048))
    atoms = [line(OTHER, body), line(PLACE, head)] * 10
    return [step(n, *atoms, Work(10 * US), Sync(2 * US)) for n in range(4)]


FAULTY = _program(_product(1705, 1, UNALIGNED_NS))
FIXED = _program(_product(1712, 8, _time_ns(1712)))
