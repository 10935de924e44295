"""AdamW steps parameter by parameter; in the twin, one fused kernel steps all."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, operator, step

PLACE = "Optimizer.step#AdamW.step"
STEPS, PARAMETERS = 4, 30
METADATA = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
WEIGHT = [512, 256]
PASSES = ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div_", "addcdiv_")
# Seven of 512 KiB for each parameter, at 2,039 GB/s.
FLOOR_NS = PARAMETERS * 7 * 512 * 1024 // 2039


def _program(optimizer):
    model = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 20 * US),)))
    optimize = Slice(PLACE, "user_annotation", optimizer)
    return [step(n, *[model] * 20, optimize, Work(500 * US), Sync(2 * US)) for n in range(STEPS)]


KERNEL = ("memory-bandwidth", 2 * US)
OPS = [
    operator(f"aten::{name}", 6 * US, Launch(4 * US, (KERNEL,)), shapes=[WEIGHT, WEIGHT])
    for name in PASSES
]
FAULTY = _program(tuple(OPS * PARAMETERS))
FUSED = Op("memory-bandwidth", FLOOR_NS, "void at::native::multi_tensor_apply_kernel<Adam>")
FIXED = _program((operator("aten::_fused_adamw_", 6 * US, Launch(4 * US, (FUSED,))),))
