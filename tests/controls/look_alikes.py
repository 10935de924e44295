"""Programs that look like a fault and are not: for each, the remedy that must stay silent.

`LOOK_ALIKES` has them by their names. A look-alike differs from the control's repaired twin: it
shows the fault's sign (its kernels, its calls, its names) for another reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.controls import device, host, ranks, serving
from tests.controls.planting import (
    FREE,
    PAUSE,
    SYNC,
    Atoms,
    launched,
    products,
    reading,
    reduced,
    steps,
    training,
)
from tests.kit.atoms import (
    MS,
    US,
    Call,
    Fetch,
    HandOver,
    Launch,
    Op,
    Slice,
    StreamWait,
    Work,
    line,
    operator,
    step,
)


@dataclass(frozen=True)
class LookAlike:
    """A program, why it is healthy or has another cause, and the remedy that must be silent."""

    remedy: str
    about: str
    atoms: Atoms
    metadata: dict[str, Any] = field(default_factory=FREE.copy)


LOOK_ALIKES: dict[str, LookAlike] = {}


def like(remedy: str, **metadata: Any) -> Callable[[Callable[[], Atoms]], Callable[[], Atoms]]:
    """Makes a look-alike of a fault; the docstring says what it is instead."""

    def add(program: Callable[[], Atoms]) -> Callable[[], Atoms]:
        about = " ".join((program.__doc__ or "").split())
        name = program.__name__.replace("_", " ")
        LOOK_ALIKES[name] = LookAlike(remedy, about, program(), FREE | metadata)
        return program

    return add


BUSY = products(20, 60 * US)
"""Work that keeps the device busy for longer than the host needs."""


# -- communication ---------------------------------------------------------------------------------


@like("overlap_communication")
def layers_split_over_ranks() -> Atoms:
    """Tensor parallelism: the next product of the backward pass needs each all-reduce."""
    node = operator(
        "autograd::engine::evaluate_function: AddmmBackward0", 4 * US,
        *products(2, 60 * US), StreamWait(2 * US, 7, 20), reduced(90 * US, 1 << 20),
        StreamWait(2 * US, 20, 7),
    )  # fmt: skip
    return steps(*products(10, 60 * US), HandOver((node,) * 10), SYNC, PAUSE)


@like("overlap_communication")
def metrics_reduced_after_the_step() -> Atoms:
    """Averages for a log, reduced in a row, are not gradients: no compute is left beside them."""
    reduction = operator("c10d::allreduce_", 6 * US, reduced(90 * US, 1 << 20))
    return steps(*training(*BUSY).atoms, line("log.py(9): log", *[reduction] * 6), SYNC, PAUSE)


@like("overlap_communication")
def buckets_that_are_ready_at_the_end() -> Atoms:
    """Both buckets hold a gradient that the last product of the backward pass makes (shared
    weights), so each is sent as soon as it can be, and the optimizer needs it."""
    sent = operator(ranks.GRADIENT, 4 * US, StreamWait(2 * US, 7, 20), reduced(400 * US, 5 << 20))
    backward = HandOver((*ranks.layers("MmBackward0", 20), sent, sent, StreamWait(2 * US, 20, 7)))
    optimizer = launched("aten::add_", 6 * US, ("memory-bandwidth", 8 * US), 4 * US)
    return steps(*ranks.layers("aten::mm", 10), backward, optimizer, SYNC, PAUSE)


@like("coalesce_collectives")
def large_messages_in_a_row() -> Atoms:
    """Each all-reduce moves 32 MiB: latency is nothing, and one of all would take as long."""
    large = operator("c10d::allreduce_", 6 * US, reduced(2 * MS, 8 << 20))
    return steps(*BUSY, *[large] * 6, SYNC, PAUSE)


@like("waiting_for_a_rank")
def ranks_that_begin_to_record_late() -> Atoms:
    """The first all-reduce waits until all ranks record; the others take 120 us."""
    first, others = (reduced(ns, 1 << 20, stream=7) for ns in (4_000 * MS, 120 * US))
    model = products(10, 40 * US, 5 * US)
    return [first, *steps(*model, others, *model, others, SYNC, PAUSE)]


@like("ddp_copies")
def parameters_broadcast_at_the_start() -> Atoms:
    """Rank 0 sends the parameters once, before the first step."""
    sent = operator("c10d::broadcast_", 20 * US, StreamWait(2 * US, 7, 20), ranks.SENT)
    copies = [ranks.copied("aten::copy_")] * 60
    return [sent, *copies, *steps(*BUSY, SYNC, PAUSE)]


# -- waits and copies ------------------------------------------------------------------------------


@like("explicit_synchronize")
def a_server_that_needs_its_tokens() -> Atoms:
    """A server waits for the tokens of each step, since the next one reads them."""
    graph = serving.replayed(serving.paged_attention(60 * US))
    return serving.generating(16, graph) * 6


@like("explicit_synchronize")
def one_wait_at_the_end() -> Atoms:
    """A timer waits once, after the last step."""
    return [*steps(*BUSY), line("<built-in function _cuda_synchronize>", SYNC)]


@like("sync_by_line")
def a_loss_that_is_read_at_the_end() -> Atoms:
    """The host reads the last loss of the run, after all steps."""
    return [*steps(*BUSY, PAUSE, times=6), reading()]


@like("pinned_copies")
def labels_of_a_few_bytes() -> Atoms:
    """256 bytes of labels come from pageable memory, which the call stages without waiting."""
    op = Op("copy", 2 * US, device.NAMES["copy"], {"bytes": 256})
    copy = Launch(5 * US, (op,), name="cudaMemcpyAsync")
    labels = operator("aten::to", 2 * US, operator("aten::copy_", 3 * US, copy))
    return [*steps(labels, *BUSY, PAUSE), SYNC]


@like("batch_copies")
def large_copies_in_a_row() -> Atoms:
    """Eight images of 4 MB each: their bytes take the time, not their number."""
    op = Op("copy", 170 * US, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4_000_000})
    moved = operator("aten::copy_", 4 * US, Launch(5 * US, (op,), name="cudaMemcpyAsync"))
    return steps(line("data.py(31): move", *[moved] * 8), *BUSY, PAUSE, SYNC)


@like("create_on_device")
def noise_that_stays_on_the_host() -> Atoms:
    """Random numbers choose the samples on the CPU; no copy follows them."""
    chosen = operator("aten::randn", 900 * US, operator("aten::normal_", 800 * US))
    return steps(line("sample.py(12): choose", chosen), *BUSY, PAUSE, SYNC)


@like("offloaded_parameters")
def weights_that_are_loaded_once() -> Atoms:
    """Parameters come to the device before the first step, and stay."""
    before = Slice("FSDP::pre_forward (layer)", "user_annotation", (Work(5 * US), device.BROUGHT))
    return [*[before] * 6, *steps(*BUSY, PAUSE), SYNC]


@like("contiguous_copies")
def copies_that_change_the_type() -> Atoms:
    """The copy makes halves of floats: it is a conversion, whatever the order of its elements."""
    made = device.copy(6 * US, device.KEYS, [64, 16, 64, 512], device.HALF, "float")
    product = launched("aten::bmm", 12 * US, ("math", 80 * US))
    cast = operator("aten::to", US, operator("aten::_to_copy", 6 * US, made))
    return steps(line("model.py(41): attend", *[cast, product] * 12), PAUSE, SYNC)


# -- the host's work -------------------------------------------------------------------------------


@like("dataloader_workers")
def a_loader_that_keeps_up() -> Atoms:
    """Workers have each batch ready; the process only takes it."""
    return steps(Fetch(60 * US, 300 * US, ahead=4), training(*BUSY), PAUSE, times=6)


@like("dataloader_prefetch")
def a_first_batch_that_is_loaded() -> Atoms:
    """Only the first batch is waited for: workers start with the first epoch."""
    first = Slice(host.LOADER.replace("Single", "MultiProcessing"), "user_annotation", (
        Work(9 * MS, "input"),
    ))  # fmt: skip
    return [first, *steps(Fetch(60 * US, 300 * US, ahead=4), training(*BUSY), PAUSE, times=6)]


@like("garbage_collection")
def one_collection_in_a_run() -> Atoms:
    """The collector runs once, in one of eight steps."""
    half = training(*BUSY)
    return [step(n, half, *([host.COLLECTED] if n == 5 else []), PAUSE) for n in range(8)]


@like("python_lines")
def python_beside_a_busy_device() -> Atoms:
    """A function computes for 900 us, while the device has 4 ms of work queued."""
    many = products(60, 80 * US)
    summarized = line("metrics.py(31): summarize", Work(900 * US))
    return [*steps(*many, summarized, *many), SYNC]


@like("allocator")
def memory_that_settles() -> Atoms:
    """The allocator's cache grows in the first step, and frees nothing."""
    first = operator("aten::empty", 3 * US, *[Call("cudaMalloc", 120 * US, "allocation")] * 12)
    return [first, *steps(*BUSY, PAUSE, times=6), SYNC]


@like("threads_and_quota")
def operators_with_much_to_do() -> Atoms:
    """A sort on the CPU takes a millisecond in each step: that is its work."""
    sort = operator("aten::sort", MS, shapes=[[1_000_000]])
    return [*steps(*products(10, 20 * US), sort, *products(10, 20 * US), PAUSE, times=30), SYNC]


@like("zero_grad_to_none")
def buffers_that_are_cleared() -> Atoms:
    """A step clears its own buffers: they are no gradients, and no optimizer clears them."""
    cleared = operator("aten::zero_", 2 * US, host.FILLED)
    return steps(line("model.py(8): reset", *[cleared] * 30), *BUSY, PAUSE, SYNC)


@like("cuda_graph")
def small_kernels_of_a_host_ahead() -> Atoms:
    """Short launches of long kernels: the queue is never empty, and a graph would save nothing."""
    op = launched("aten::add", 4 * US, ("memory-bandwidth", 60 * US), 3 * US)
    return [*steps(*[op] * 60), SYNC]


# -- the device's work -----------------------------------------------------------------------------


@like("fused_attention")
def a_softmax_of_classes() -> Atoms:
    """A classifier's softmax follows its last product; no product reads its result."""
    logits = device.multiplied([64, 1024, 512], [64, 512, 1024])
    softmax = device.computed(
        "aten::_softmax", [device.SCORES], "memory-bandwidth", 180 * US, device.SOFTMAX
    )
    loss = launched("aten::sum", 10 * US, ("memory-bandwidth", 60 * US))
    return steps(line("model.py(41): classify", *[logits, softmax, loss] * 10), PAUSE, SYNC)


@like("mixed_precision")
def fp32_that_learns() -> Atoms:
    """A training in fp32: its products may be cast, its weights may not."""
    mm = launched("aten::mm", 12 * US, Op("math", 144 * US, "ampere_sgemm_tf32_128x64_nn"))
    backward = operator("autograd::engine::evaluate_function: MmBackward0", 4 * US, mm)
    return steps(*[mm] * 10, *[backward] * 10, PAUSE, SYNC)


@like("eval_mode")
def norms_that_learn() -> Atoms:
    """Batch norms compute statistics, since the model learns."""
    kernel = device.moved(150 * US, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>")
    norm = launched("aten::batch_norm", 10 * US, kernel)
    node = operator("autograd::engine::evaluate_function: CudnnBatchNormBackward0", 4 * US, norm)
    return steps(*[norm] * 10, *[node] * 10, PAUSE, SYNC)


@like("channels_last")
def transposes_without_a_convolution() -> Atoms:
    """A model of tokens transposes them for a product: no convolution converts images."""
    turned = launched("aten::copy_", 8 * US, device.moved(60 * US, "transpose_readWrite_kernel"))
    return steps(line("mixer.py(20): mix", *[turned, *products(1, 90 * US)] * 12), PAUSE, SYNC)


@like("float64")
def one_number_of_float64() -> Atoms:
    """A scalar of float64 per step scales a loss: 3 us of 1.8 ms."""
    kernel = Op("latency", 3 * US, "void at::native::vectorized_elementwise_kernel<4, Mul<double>>")
    scaled = launched("aten::mul", 10 * US, kernel, shapes=[[], []], types=["double"] * 2)
    return steps(*BUSY, scaled, PAUSE, SYNC)


@like("kept_activations")
def a_second_forward_pass() -> Atoms:
    """Two networks of one architecture run forward, as in a GAN: none of it runs again."""
    layer = [
        replace(launched(name, 14 * US, ("math", 60 * US)), args={"Sequence number": n + 10 * k})
        for k in range(2)
        for n, name in enumerate(("aten::linear", "aten::gelu", "aten::linear"))
    ]
    node = operator(
        "autograd::engine::evaluate_function: AddmmBackward0", 6 * US, *products(2, 60 * US)
    )
    return [*steps(*layer * 4, *[node] * 8, PAUSE), SYNC]


@like("looped_experts")
def a_loop_over_layers() -> Atoms:
    """Each turn multiplies all tokens by another layer's weights, with nothing selected."""
    layer = [*products(1, 60 * US), launched("aten::relu", 9 * US, ("memory-bandwidth", 30 * US))]
    return steps(line("mlp.py(31): forward", *layer * 8), PAUSE, SYNC)


@like("repeated_casts")
def activations_that_are_cast() -> Atoms:
    """Autocast casts what each layer reads, which is new in each pass."""
    made = device.copy(8 * US, device.TO_HALF, [64, 16, 64, 1024], device.HALF, "float")
    cast = operator("aten::to", 2 * US, operator("aten::_to_copy", 6 * US, made))
    shapes = [[64, 16, 64, 1024], [4096, 1024], [4096]]
    product = launched("aten::addmm", 12 * US, ("math", 60 * US))
    layer = operator("aten::linear", 4 * US, cast, product, shapes=shapes)
    norm = launched("aten::layer_norm", 9 * US, ("memory-bandwidth", 20 * US))
    return steps(line("serve.py(30): forward", *[norm, layer] * 12), PAUSE, SYNC)


@like("mask_again")
def a_buffer_that_is_filled() -> Atoms:
    """Each call fills its output with ones, and adds to it: no mask."""
    filled = operator(
        "aten::ones", 8 * US, launched("aten::fill_", 6 * US, device.FILL_MASK, **device.MASK),
        **device.MASK,
    )  # fmt: skip
    return steps(line("model.py(12): forward", *(filled, *products(1, 60 * US)) * 10), PAUSE, SYNC)


@like("quantized_weights")
def a_server_that_reads_prompts() -> Atoms:
    """A prefill of 4,096 tokens: products compute, and hardly read weights."""
    name = "execute_4_context_4(sq4096sk4096)_generation_0(sq0sk0)"
    graph = serving.replayed(Op("math", 90 * US, serving.BF16), serving.paged_attention(9 * US))
    return [Slice(name, "user_annotation", (graph,)), SYNC, Work(5 * US)] * 6


@like("autotune")
def products_that_read_weights() -> Atoms:
    """A decode step's generated product reads 16-bit weights for 8 tokens: fewer bits help, not
    tiles."""
    graph = serving.replayed(Op("math", 60 * US, "fused_matmul_kernel"))
    return serving.generating(8, graph) * 6


@like("fill_the_device")
def a_few_blocks_once() -> Atoms:
    """A reduction's last kernel has one block, and takes 4 us of the step."""
    grid = {"grid": [1, 1, 1], "block": [128, 1, 1], "blocks per SM": 1 / 108,
            "registers per thread": 32, "shared memory": 0}  # fmt: skip
    last = launched("aten::sum", 9 * US, Op("memory-bandwidth", 4 * US, "reduce_kernel", grid))
    return steps(*BUSY, last, PAUSE, SYNC)


@like("larger_batch")
def kernels_that_fill_the_device() -> Atoms:
    """The device is busy with large products: twice the batch takes twice as long."""
    shapes = {"shapes": [[8192, 4096], [4096, 4096]], "types": [device.BF16] * 2}
    large = launched("aten::mm", 12 * US, Op("math", 1300 * US, device.NAMES["math"]), **shapes)
    return steps(*[large] * 10, PAUSE, SYNC)


@like("more_front_ends")
def waiting_front_end():
    """A front end detokenizes and answers for a third of its time, and waits for requests for the
    rest."""
    return serving.looped(*[serving.answered(300 * US), serving.waited(800 * US)] * 20)
