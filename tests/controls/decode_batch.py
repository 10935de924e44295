"""A server's steps generate for few requests; in the twin, half as many steps generate for twice as
many: products read the same weights, attention takes twice as long."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, operator

PLACE = None
STEPS, LAYERS = 8, 20


def _product(ns):
    return Op("math", ns, "nvjet_sm80_tst_64x8_64x16_1x4_h_bz_TNT")


def _attention(ns):
    return Op("math", ns, "void paged_attention_v1_kernel<__nv_bfloat16>")


def _program(steps, tokens, times):
    name = f"execute_{tokens}_context_0(sq0sk0)_generation_{tokens}(sq{tokens}sk900)"
    kernels = (_product(60 * US), _attention(20 * US * times)) * LAYERS
    graph = operator("graph", 12 * US, Launch(9 * US, kernels, name="cudaGraphLaunch"))
    waits = [Sync(2 * US), Work(5 * US)]
    return [
        each for _ in range(steps) for each in (Slice(name, "user_annotation", (graph,)), *waits)
    ]


FAULTY = _program(STEPS, 8, 1)
FIXED = _program(STEPS // 2, 40, 2)
