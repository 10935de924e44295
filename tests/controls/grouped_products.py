"""Tokens multiply copies of their experts' weights; in the twin, they need no copies."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "moe.py(12): forward"
EXPERTS, TOKENS, IN, OUT = 8, 64, 1024, 2048
_GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"
_SHAPES = [[TOKENS, 1, IN], [TOKENS, IN, OUT]]


def _program(gather_ns):
    product = Op("math", 400 * US, "nvjet_sm103_tst_512x8_64x3_2x1_v_bz_NNT")
    copy = (Launch(5 * US, (Op("memory-bandwidth", gather_ns, _GATHER),)),) if gather_ns else ()
    experts = line(
        PLACE,
        operator("aten::index", 9 * US, *copy, shapes=[[EXPERTS, IN, OUT], []]),
        operator("aten::bmm", 9 * US, Launch(5 * US, (product,)), shapes=_SHAPES),
    )
    rest = [operator("aten::mm", 9 * US, Launch(4 * US, (("math", 30 * US),)))] * 4
    return [step(n, experts, *rest, Work(5 * US)) for n in range(5)] + [Sync(2 * US)]


FAULTY = _program(500 * US)
FIXED = _program(0)
