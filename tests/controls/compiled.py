"""Faults of code that could be captured or compiled, or that a compiler wrote."""

from tests.controls.planting import PAUSE, SYNC, launched, planted, steps
from tests.kit.atoms import MS, US, Call, Launch, Op, Slice, Sync, Work, line, operator

KERNEL = ("memory-bandwidth", 3 * US)
GENERATED = "triton_poi_fused_add_0"


def begin(name):
    return Call(name, 9 * US, "launch")


@planted("CompiledFunction", faulty=(True,), fixed=(False,))
def capture_once(place, captures_again):
    """torch.compile captures the same graph in every other pass; the twin replays the first one."""
    capture = (
        Work(20 * MS, "dispatch"), begin("cudaStreamBeginCapture"),
        *[Call("cudaLaunchKernel", 5 * US, "launch")] * 20, begin("cudaStreamEndCapture"),
        Call("cudaGraphInstantiateWithFlags", 2 * MS, "compilation"),
    )  # fmt: skip
    ops = [launched("aten::copy_", 9 * US, ("memory-bandwidth", 9 * US), 6 * US)] * 3
    replay = Launch(40 * US, (("math", 50 * US),) * 20, name="cudaGraphLaunch")
    captured, plain = (operator(place, 9 * US, *first, *ops, replay) for first in (capture, ()))
    return [captured if captures_again else plain, SYNC, plain, SYNC] * 5


OPS = [Op("memory-bandwidth", 3 * US, f"add_{n}") for n in range(60)]
GRAPH = Launch(5 * US, tuple(OPS), name="cudaGraphLaunch")


@planted(None, faulty=[launched("aten::add", 12 * US, op) for op in OPS],
         fixed=(operator("graph", 12 * US, GRAPH),))  # fmt: skip
def cuda_graph(*launches):
    """Many short kernels, launched one by one; in the twin, their launches are free, as in a
    graph."""
    return steps(*launches, PAUSE, SYNC)


@planted(None, faulty=(20 * US, 6 * US), fixed=(4 * US, 4 * US))
def compiler_options(prepare_ns, call_ns):
    """Compiled code whose Python launches short kernels; in the twin, C++ launches them."""
    call = launched(GENERATED, prepare_ns, Op("memory-bandwidth", 3 * US, GENERATED), call_ns)
    region = operator("Torch-Compiled Region: 0/0", 4 * US, *[call] * 30)
    # The host reads its results twice per step: it cannot become a graph.
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))
    return steps(region, read, region, read, PAUSE, times=5)


def region(number, *atoms):
    begun = operator("Pregraph bytecode", 9 * US)
    return [
        operator("TorchDynamo Cache Lookup", 25 * US),
        operator(f"Torch-Compiled Region: {number}/0", 2 * US, begun, *atoms),
    ]


HALF = [launched(GENERATED, 6 * US, KERNEL, 4 * US)] * 4
RESUMES = line("model.py(57): torch_dynamo_resume_in_forward_at_57", *HALF)
WHOLE = Slice("CompiledFunction", "cpu_op", (Work(6 * US, "dispatch"), *HALF, *HALF))


@planted("model.py(57): forward",
         faulty=region(0, *HALF, Work(4 * US, "dispatch"), *region(1, RESUMES)),
         fixed=region(0, WHOLE))  # fmt: skip
def graph_breaks(_, *block):
    """A compiled module breaks its graph at a line; in the twin, it is one region."""
    return steps(*block * 8, Work(4 * US), SYNC)


SQUARE = [1024, 1024]
ADD_NS, RELU_NS = 9 * US, 8 * US
# add keeps two reads of two reads and a write; relu keeps the write of a read and a write.
FUSED = Op("memory-bandwidth", ADD_NS * 2 // 3 + RELU_NS // 2, "triton_poi_fused_add_relu_0")


def product(dispatch_ns):
    return launched("aten::mm", dispatch_ns, ("math", 6 * US), shapes=[SQUARE] * 2)


EAGER = (
    product(12 * US),
    launched("aten::add", 12 * US, ("memory-bandwidth", ADD_NS), shapes=[SQUARE] * 2),
    Work(6 * US),
    launched("aten::relu", 12 * US, ("memory-bandwidth", RELU_NS), shapes=[SQUARE]),
)
COMPILED = (product(6 * US), Work(3 * US), launched("triton_poi_fused_add_relu_0", 6 * US, FUSED))


@planted("Block_0", faulty=EAGER * 12,
         fixed=(Slice("Torch-Compiled Region: 0/0", "cpu_op", COMPILED * 12),))  # fmt: skip
def torch_compile(place, *block):
    """A module run eagerly; in the twin, compiled: chains fused, the rest of dispatch and Python
    halved."""
    return steps(line(f"nn.Module: {place}", *block), Work(4 * US), SYNC)


COPIED = Op("memory-bandwidth", 60 * US, "void copy_kernel<float>")
COPY = launched("aten::copy_", 4 * US, COPIED, 4 * US)
REPLAYED = (Op("math", 40 * US, "void gemm_kernel<bf16>"),) * 10


@planted("CompiledFunction", faulty=(COPY,) * 4, fixed=())
def graph_buffers(place, *copies):
    """Compiled code copies its inputs into a CUDA graph's buffers; in the twin, they are there."""
    replay = operator("graph", 5 * US, Launch(9 * US, REPLAYED, name="cudaGraphLaunch"))
    return [*steps(operator(place, 10 * US, *copies, replay), PAUSE, times=6), SYNC]
