"""Compiled code whose Python launches short kernels; in the twin, C++ launches them."""

from tests.kit.atoms import US, Launch, Op, Sync, Work, operator, step

PLACE = None


def _program(prepare_ns, call_ns):
    kernel = Op("memory-bandwidth", 3 * US, "triton_poi_fused_add_0")
    calls = [operator("triton_poi_fused_add_0", prepare_ns, Launch(call_ns, (kernel,)))] * 30
    region = operator("Torch-Compiled Region: 0/0", 4 * US, *calls)
    # The host reads its results twice per step: it cannot become a graph.
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))
    return [step(n, region, read, region, read, Work(10 * US)) for n in range(5)]


FAULTY = _program(20 * US, 6 * US)
FIXED = _program(4 * US, 4 * US)
