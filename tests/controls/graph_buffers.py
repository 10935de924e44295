"""Compiled code copies its inputs into a CUDA graph's buffers; in the twin, they are there."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = "CompiledFunction"
KERNELS = (Op("math", 40 * US, "void gemm_kernel<bf16>"),) * 10
REPLAY = operator("graph", 5 * US, Launch(9 * US, KERNELS, name="cudaGraphLaunch"))
COPY = Launch(4 * US, (Op("memory-bandwidth", 60 * US, "void copy_kernel<float>"),))


def _program(*copies):
    called = operator("CompiledFunction", 10 * US, *copies, REPLAY)
    return [step(n, called, Work(10 * US)) for n in range(6)] + [Sync(2 * US)]


FAULTY = _program(*[operator("aten::copy_", 4 * US, COPY)] * 4)
FIXED = _program()
