"""Gradients are filled with zeros, one kernel each, and added to; in the twin, they are set to None
and then set."""

from tests.kit.atoms import US, Launch, Op, Slice, Sync, Work, line, operator, step

PLACE = "train.py(15): train_step"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def _program(zero, add):
    ops = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 20 * US),)))] * 20
    cleared = [atom for _ in range(30) for atom in (*zero, Work(US))]
    grown = [operator("torch::autograd::AccumulateGrad", 2 * US, *add)] * 30
    zeroing = Slice("Optimizer.zero_grad#SGD.zero_grad", "user_annotation", tuple(cleared))
    frame = line("torch/optim/optimizer.py(1019): zero_grad", zeroing)
    read = operator("aten::item", US, Sync(3 * US, 7))
    return [step(n, line(PLACE, frame, *ops, *grown, read), Work(10 * US)) for n in range(4)]


FILLED = operator("aten::fill_", 4 * US, Launch(4 * US, (Op("latency", 2 * US, FILL),)))
ADDED = operator("aten::add_", 4 * US, Launch(4 * US, (Op("latency", 2 * US, ADD),)))
FAULTY = _program([operator("aten::zero_", 2 * US, FILLED)], [ADDED])
FIXED = _program([], [])
