"""Gradients are filled with zeros, one kernel each; in the twin, they are set to None."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, line, operator, step

PLACE = "train.py(15): train_step"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"


def _program(*zero):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20
    cleared = [atom for _ in range(30) for atom in (*zero, Work(US))]
    zeroing = Slice("Optimizer.zero_grad#SGD.zero_grad", "user_annotation", tuple(cleared))
    frame = line("torch/optim/optimizer.py(1019): zero_grad", zeroing)
    read = operator("aten::item", US, Sync(3 * US, 7))
    return [step(n, line(PLACE, frame, *ops, read), Work(10 * US)) for n in range(4)]


FILLED = operator("aten::fill_", 4 * US, Launch(4 * US, (Op("latency", 2 * US, FILL),)))
FAULTY = _program(operator("aten::zero_", 2 * US, FILLED))
FIXED = _program()
