"""Faults of the host: its memory, its input, its waits, its Python, and copies that it makes."""

from tests.controls.planting import (
    PAUSE,
    SYNC,
    launched,
    planted,
    products,
    reading,
    steps,
    training,
)
from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    Fetch,
    Launch,
    Op,
    Slice,
    Sync,
    Work,
    line,
    operator,
    step,
)

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
HALF = products(20, 20 * US)


@planted(
    "train.py(18): train_epoch",
    faulty=([Call("cudaMalloc", 120 * US, "allocation")] * 4,
            [Call("cudaFree", 180 * US, "allocation")] * 4),
    fixed=([], []),
)  # fmt: skip
def allocator(place, allocate, free):
    """Each step empties the cache at its end, so the next one allocates again; the twin keeps its
    memory."""
    first = operator("aten::empty", 3 * US, *allocate)
    train = line("train.py(44): train_step", first, *products(15, 20 * US), reading(US))
    empty = [line("torch/cuda/memory.py(160): empty_cache", Work(2 * US), *free)] if free else []
    return steps(line(place, train, *empty, PAUSE), times=5)


COLLECTED = line("<built-in function collect>", Work(US), line("Python GC", Work(MS)))


@planted("train.py(20): train_epoch", faulty=(COLLECTED,), fixed=())
def garbage_collection(place, *collect):
    """The program collects garbage in each step; its twin does not."""
    return steps(line(place, training(*products(20, 10 * US)), *collect, PAUSE))


@planted("train.py(21): train_epoch", faulty=(2_000 * US,), fixed=(300 * US,))
def dataloader_prefetch(place, load_ns):
    """One worker takes longer to load a batch than a step takes; in the twin, there are enough."""
    train = training(*products(30, 20 * US))
    return steps(line(place, Fetch(60 * US, load_ns), train, PAUSE), times=6)


COLLATE = operator("aten::stack", 300 * US, operator("aten::cat", 200 * US))


@planted(
    "train.py(21): train_epoch",
    faulty=(Slice(LOADER, "user_annotation", (Work(900 * US, "input"), COLLATE)),),
    fixed=(Fetch(100 * US, 500 * US, ahead=4),),
)
def dataloader_workers(place, fetch):
    """Each batch is loaded in the main process; in the twin, workers have it ready."""
    return steps(line(place, fetch, training(*products(30, 20 * US)), PAUSE))


READ = operator("aten::item", US, operator("aten::_local_scalar_dense", 2 * US, Sync(3 * US, 7)))


@planted("train.py(12): train_step", faulty=(READ,), fixed=())
def sync_by_line(place, *between):
    """The loss is read on the host after each forward pass, before the backward pass is
    launched."""
    return [*steps(line(place, *HALF, *between, *HALF), PAUSE), SYNC]


SYNCHRONIZED = line("<built-in function _cuda_synchronize>", Sync(3 * US))


@planted("train.py(18): timed", faulty=(SYNCHRONIZED,), fixed=())
def explicit_synchronize(place, *between):
    """The program synchronizes between the forward and the backward pass; its twin does not."""
    return [*steps(*HALF, line(place, *between, Work(5 * US)), *HALF, PAUSE), SYNC]


COUNTS = "void at::native::reduce_kernel<512, 1, ReduceOp<bool, func_wrapper_t<long>>>"
WHERE = "void at::native::elementwise_kernel<128, 2, where_kernel_impl>"


@planted(
    "losses.py(31): masked_loss",
    faulty=(
        operator("aten::index", 6 * US, operator(
            "aten::nonzero", 8 * US, Launch(4 * US, (Op("memory-bandwidth", 3 * US, COUNTS),)),
            BlockingCopy(4 * US, 2 * US, name="Memcpy DtoH (Device -> Pageable)", bytes=8),
            Sync(3 * US, 7),
        )),
    ),
    fixed=(launched("aten::where", 10 * US, Op("memory-bandwidth", 3 * US, WHERE), 4 * US),),
)  # fmt: skip
def data_dependent_sizes(place, between):
    """The host waits for the size of a mask's selection; in the twin, the losses are masked in
    place."""
    train = line("train.py(12): train_step", *HALF, line(place, between), *HALF)
    return [*steps(train, PAUSE), SYNC]


def pinned(size, ns):
    return Launch(5 * US, (Op("copy", ns, "Memcpy HtoD (Pinned -> Device)", {"bytes": size}),))


@planted("train.py(12): train_step",
         faulty=(BlockingCopy(300 * US, 900 * US, bytes=8_000_000),),
         fixed=(pinned(8_000_000, 320 * US),))  # fmt: skip
def pinned_copies(place, copy):
    """Inputs come from pageable memory, labels from pinned memory; in the twin, both from
    pinned."""
    images = operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, copy))
    labels = operator("aten::copy_", 3 * US, pinned(16_000_000, 640 * US))
    ops = products(40, 40 * US)
    return [
        *steps(line("data.py(7): labels", labels), line(place, *ops, images, *ops), PAUSE),
        SYNC,
    ]


@planted("model.py(31): prepare", faulty=(40, 1), fixed=(1, 40))
def batch_copies(place, copies, tensors):
    """Many small tensors are copied to the device one by one; in the twin, they are packed into one
    copy."""
    copy = Op("copy", 1_400, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4096 * tensors})
    moved = operator("aten::copy_", 4 * US, Launch(5 * US, (copy,), name="cudaMemcpyAsync"))
    sent = operator("aten::to", 2 * US, operator("aten::_to_copy", 4 * US, moved))
    return steps(line(place, *[sent] * copies), *products(20, 10 * US, 5 * US), PAUSE, SYNC)


@planted(
    "train.py(12): train_step",
    faulty=(
        operator("aten::randn", 900 * US, operator("aten::normal_", 800 * US)),
        operator("aten::to", 2 * US, operator("aten::_to_copy", 300 * US)),
        operator("aten::to", 2 * US, operator(
            "aten::copy_", 3 * US, BlockingCopy(100 * US, 400 * US, bytes=8_000_000)
        )),
    ),
    fixed=(launched("aten::randn", 4 * US, ("memory-bandwidth", 3 * US), 4 * US),),
)  # fmt: skip
def create_on_device(place, *noise):
    """Noise is made and converted on the CPU and copied; in the twin, a kernel makes it there."""
    forward = line("train.py(20): forward", *products(20, 20 * US))
    return steps(line(place, *noise), forward, PAUSE, SYNC, times=5)


@planted(
    "model.py(8): encode",
    faulty=(operator("aten::linear", 2 * US, operator("aten::addmm", 700 * US)),),
    fixed=(launched("aten::addmm", 3 * US, ("math", 4 * US), 4 * US),),
)
def model_on_cpu(place, encoder):
    """An encoder was left on the CPU; in the twin, it runs on the device."""
    return steps(line(place, *[encoder] * 3), *products(20, 20 * US), PAUSE, SYNC, times=5)


SORT = line("<built-in method sort of list object at 0x7f2f4c0b3a80>", Work(100 * US))
LIBRARY = line("inspect.py(2501): _signature_from_callable", Work(20 * US), SORT)
ADD = operator("aten::add", 5 * US)


@planted("metrics.py(31): summarize",
         faulty=(Work(100 * US), LIBRARY, ADD, Work(50 * US)), fixed=(ADD,))  # fmt: skip
def python_lines(place, *work):
    """A function computes in Python between two halves of a step; in the twin, it returns at
    once."""
    half = products(20, 10 * US)
    train = line("train.py(12): train_step", *half, reading(), line(place, *work), *half)
    return steps(train, PAUSE)


@planted(None, faulty=(True,), fixed=(False,))
def threads_and_quota(is_stalled):
    """The thread repeatedly loses its core, in any call; in the twin, it keeps it."""
    # Two reads per step: it cannot become a graph.
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))
    made = []
    for number in range(60):
        ops = []
        for turn in range(30):
            # In each step but the first, one operator is stopped.
            is_lost = is_stalled and number and turn == 7 * number % 30
            lost = [Work(1200 * US, "dispatch")] * is_lost
            name = ("aten::empty", "aten::resize_", "aten::clone")[turn % 3]
            ops.append(operator(name, 6 * US, *lost))
            ops.append(launched("aten::copy_", 9 * US, ("math", 9 * US), 4 * US))
        made.append(step(number, *ops[:30], read, *ops[30:], read, PAUSE))
    return [*made, SYNC]


@planted(None, faulty=(24,), fixed=(4,))
def slow_host(times):
    """Each operator takes six times as long as in the twin and on other hosts, even one that only
    makes a view."""
    made = [
        operator("aten::mm", times * US, Launch(times * US, (("math", 3 * US),)))
        if turn % 2 else operator("aten::as_strided", times * US)
        for turn in range(80)
    ]  # fmt: skip
    return [*steps(*made), SYNC]


@planted("aten::scaled_dot_product_attention", faulty=(4 * MS,), fixed=(20 * US,))
def few_shapes(name, prepare_ns):
    """Each step has inputs of another length, for which a library prepares in the first call; in
    the twin, it does not."""

    def attention(dispatch_ns, length):
        recorded = {"shapes": [[1, 16, length, 64]] * 3}
        return launched(name, dispatch_ns, ("math", 40 * US), 4 * US, **recorded)

    lengths = [256 + 8 * number for number in range(8)]
    calls = ([attention(prepare_ns, each), *[attention(20 * US, each)] * 20] for each in lengths)
    return [*(step(n, *each, PAUSE) for n, each in enumerate(calls)), SYNC]


FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
PLUS = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
FILLED = launched("aten::fill_", 4 * US, Op("latency", 2 * US, FILL), 4 * US)
ADDED = launched("aten::add_", 4 * US, Op("latency", 2 * US, PLUS), 4 * US)


@planted("train.py(15): train_step",
         faulty=([operator("aten::zero_", 2 * US, FILLED)], [ADDED]), fixed=([], []))  # fmt: skip
def zero_grad_to_none(place, zero, add):
    """Gradients are filled with zeros, one kernel each, and added to; in the twin, they are set to
    None and then set."""
    cleared = [*zero, Work(US)] * 30
    grown = [operator("torch::autograd::AccumulateGrad", 2 * US, *add)] * 30
    zeroing = Slice("Optimizer.zero_grad#SGD.zero_grad", "user_annotation", tuple(cleared))
    frame = line("torch/optim/optimizer.py(1019): zero_grad", zeroing)
    return steps(line(place, frame, *products(20, 20 * US), *grown, reading()), PAUSE)


WEIGHTS = {"shapes": [[512, 256], [512, 256]]}
# Seven passes over 512 KiB for each of 30 parameters, at 2,039 GB/s.
FUSED_NS = 30 * 7 * 512 * 1024 // 2039
FUSED = Op("memory-bandwidth", FUSED_NS, "void at::native::multi_tensor_apply_kernel<Adam>")


@planted(
    "Optimizer.step#AdamW.step",
    faulty=tuple(
        launched(f"aten::{name}", 6 * US, ("memory-bandwidth", 2 * US), 4 * US, **WEIGHTS)
        for name in ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div_", "addcdiv_")
    ) * 30,
    fixed=(launched("aten::_fused_adamw_", 6 * US, FUSED, 4 * US),),
    metadata={"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]},
)  # fmt: skip
def fused_optimizer(place, *passes):
    """AdamW steps parameter by parameter; in the twin, one fused kernel steps all."""
    optimize = Slice(place, "user_annotation", passes)
    return steps(*products(20, 20 * US, 5 * US), optimize, Work(500 * US), SYNC)


STEP_NS = (60 * 16 + 10) * US


@planted(None, faulty=(2,), fixed=(1,), metadata={
    "tracekit": {"profiled_step_ns": 2 * STEP_NS, "unprofiled_step_ns": STEP_NS},
})  # fmt: skip
def profiler_cost(cost):
    """Each step takes the host twice as long as without the profiler, as measured by capture."""
    op = launched("aten::add", 12 * US * cost, ("memory-bandwidth", 3 * US), 4 * US * cost)
    # Compiled already, so that compiling is not a remedy.
    whole = operator("Torch-Compiled Region: 0/0", 0, *[op] * 60)
    return [*steps(whole, Work(10 * US * cost)), SYNC]
