"""A server's steps generate for few requests with 16-bit weights; in the twin, with 8-bit ones."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, operator

PLACE = None
STEPS, LAYERS = 6, 20
NAME = "execute_8_context_0(sq0sk0)_generation_8(sq8sk900)"


def _program(name, ns):
    products = (Op("math", ns, name), Op("math", 9 * US, "void paged_attention_v1_kernel<bf16>"))
    graph = operator("graph", 12 * US, Launch(9 * US, products * LAYERS, name="cudaGraphLaunch"))
    waits = [Sync(2 * US), Work(5 * US)]
    return [
        each for _ in range(STEPS) for each in (Slice(NAME, "user_annotation", (graph,)), *waits)
    ]


FAULTY = _program("nvjet_sm80_tst_64x8_64x16_1x4_h_bz_TNT", 60 * US)
FIXED = _program("nvjet_fp8_e4m3_tst_64x8_64x16_1x4_h_bz_TNT", 30 * US)
