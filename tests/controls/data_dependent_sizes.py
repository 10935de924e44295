"""The host waits for the size of a mask's selection; in the twin, the losses are masked in
place."""

from tests.kit.atoms import US, BlockingCopy, Launch, Op, Sync, Work, line, operator, step

PLACE = "losses.py(31): masked_loss"


def _half():
    return [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20


def _reduce(name):
    return Launch(4 * US, (Op("memory-bandwidth", 3 * US, name),))


def _program(*between):
    atoms = [line("train.py(12): train_step", *_half(), line(PLACE, *between), *_half())]
    return [step(n, *atoms, Work(10 * US)) for n in range(4)] + [Sync(2 * US)]


SIZE = BlockingCopy(4 * US, 2 * US, name="Memcpy DtoH (Device -> Pageable)", bytes=8)
COUNT = _reduce("void at::native::reduce_kernel<512, 1, ReduceOp<bool, func_wrapper_t<long>>>")
FAULTY = _program(
    operator("aten::index", 6 * US, operator("aten::nonzero", 8 * US, COUNT, SIZE, Sync(3 * US, 7)))
)
WHERE = _reduce("void at::native::elementwise_kernel<128, 2, where_kernel_impl>")
FIXED = _program(operator("aten::where", 10 * US, WHERE))
