"""Root-mean-square norms in seven operators, two in a row; the twin runs one operator for
each norm, which reads and writes once."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, line, operator, step

PLACE = "model.py(17): norm"
ROWS, WIDTH = 8192, 4096
FULL, COLUMN = [ROWS, WIDTH], [ROWS, 1]
# 10^12 bytes a second: a tensor of 128 MiB is read, or written, in 134 us.
PASS_NS, SHORT_NS = 134_218, 10 * US
KERNEL = "void at::native::vectorized_elementwise_kernel<4, MulFunctor>"


def _operator(name, ns, *shapes, concrete=None, types=None):
    launch = Launch(5 * US, (Op("memory-bandwidth", ns, KERNEL),))
    made = operator(name, 10 * US, launch, shapes=list(shapes), types=types)
    if concrete is not None:
        made.args["Concrete Inputs"] = concrete
    return made


def _program(*atoms):
    product = operator("aten::mm", 12 * US, Launch(5 * US, (("math", 300 * US),)))
    steps = line(PLACE, *(*atoms, product) * 5)
    return [step(n, steps, Work(10 * US), Sync(2 * US)) for n in range(4)]


def _cast(to, source):
    return _operator("aten::copy_", 3 * PASS_NS // 2, FULL, FULL, [], types=[to, source, "Scalar"])


HALF = "c10::BFloat16"
PIECES = [
    _cast("float", HALF),
    _operator("aten::pow", 2 * PASS_NS, FULL, []),
    _operator("aten::mean", PASS_NS, FULL, [], [], [], concrete=["", "[-1]", "True", ""]),
    _operator("aten::add", SHORT_NS, COLUMN, [], []),
    _operator("aten::rsqrt", SHORT_NS, COLUMN),
    _operator("aten::mul", 2 * PASS_NS, FULL, COLUMN),
    _cast(HALF, "float"),
]
FAULTY = _program(*PIECES, *PIECES)
WHOLE = _operator("aten::_fused_rms_norm", PASS_NS, FULL, [], [WIDTH], types=[HALF, "", HALF])
FIXED = _program(WHOLE, WHOLE)
