"""Each layer's parameters are copied from the host before it runs; in the twin, they stay."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, operator, step

PLACE = None
COPY = Op("copy", 300 * US, "Memcpy HtoD (Pinned -> Device)", {"bytes": 16_000_000})


def _program(*copies):
    brought = [operator("aten::copy_", 3 * US, Launch(4 * US, (each,))) for each in copies]
    layer = [
        Slice("FSDP::pre_forward (layer)", "user_annotation", (Work(5 * US), *brought)),
        *[operator("aten::mm", 12 * US, Launch(4 * US, (("math", 40 * US),)))] * 5,
    ]
    return [step(n, *layer * 6, Work(10 * US)) for n in range(4)] + [Sync(2 * US)]


FAULTY = _program(COPY)
FIXED = _program()
