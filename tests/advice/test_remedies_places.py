"""Where remedies apply, and what they leave alone, beside the faults that tests/controls plants.

Each case is a remedy's query, a program, and the rows expected: by place and detail, how many there
are and the time that they would save together.
"""

from collections import Counter

import pytest

from tests.controls import CONTROLS
from tests.controls.planting import launched
from tests.kit.atoms import (
    MS,
    NAMES,
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
from tests.kit.simulated import Programs

OPS = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 10 * US),)))] * 12
KERNEL = Launch(4 * US, (("memory-bandwidth", 3 * US),))
PRODUCT = Launch(4 * US, (("math", 3 * US),))
FUSED = operator("triton_poi_fused_add_0", 5 * US, KERNEL)


INDUCTOR = "torch/_inductor/cudagraph_trees.py(9): run"
INTO = operator("aten::_foreach_copy_", 9 * US, KERNEL)
REPLAYED = Launch(9 * US, (("math", 10 * US),) * 3, name="cudaGraphLaunch")


BROUGHT = Op("copy", 100 * US, "Memcpy HtoD (Pageable -> Device)", {"bytes": 32_768})


def wide(name, shapes, types):
    kernel = Launch(4 * US, (("memory-bandwidth", 100 * US),))
    return operator(name, 9 * US, kernel, shapes=shapes, types=types)


def steps(*atoms, times=3):
    return [*(step(n, *atoms) for n in range(times)), Sync(US)]


def layer(copied):
    """A layer of 1024 by 1024 for which a tensor is copied to the device."""
    moved = Op("copy", 100 * US, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4_000_000})
    shapes = [[64, 1024], [1024, 1024]]
    return [
        operator("aten::copy_", 3 * US, Launch(4 * US, (moved,)), shapes=[copied] * 2),
        operator("aten::linear", 9 * US, PRODUCT, shapes=shapes),
    ]


def main(*atoms):
    return [line("train.py(9): main", *atoms), Sync(US)]


def region(*atoms):
    lookup = operator("TorchDynamo Cache Lookup", 20 * US)
    return [lookup, operator("Torch-Compiled Region: 0/0", 2 * US, *atoms)]


def answering(product, number):
    kernels = [
        ("math", 72 * US, product),
        ("memory-bandwidth", 20 * US, f"elementwise_kernel<{number}>"),
    ]
    return [
        operator(name, 9 * US, Launch(4 * US, (Op(*kernel),)))
        for name, kernel in zip(("aten::mm", "aten::add"), kernels, strict=True)
    ] * 9 + [Sync(US)]


def once_each(parts):
    """Parts of a pass that do different work, and then read the same value."""
    return [
        each
        for part in parts
        for each in (
            *(
                operator("aten::add", 9 * US, Launch(4 * US, (Op("math", 9 * US, f"{part}{n}"),)))
                for n in range(28)
            ),
            OPS[0],
            ITEM,
        )
    ]


def prefills(name):
    return [Slice(name, "user_annotation", (*OPS * 3, Sync(US))) for _ in range(4)]


def fetching(load_us):
    return [step(n, Fetch(60 * US, load_us * US), Work(400 * US), *OPS) for n in range(4)]


def reducing(elements, us=30, *between):
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    if elements is None:
        told = {}
    reduce = Launch(5 * US, (Op("communication", us * US, NAMES["communication"], told),))
    compute = operator("aten::mm", 9 * US, KERNEL)
    each = [*between, operator("c10d::allreduce_", 5 * US, reduce)]
    return steps(*each * 8, compute, times=4)


def items(calling=None):
    small = operator("aten::mm", 14 * US, Launch(4 * US, (("latency", 4 * US),)))
    calls = [line("nn.Module: Classifier_0", *[small] * 12)] * 8
    around = [operator("aten::conv2d", 9 * US, Launch(4 * US, (("math", 40 * US),)))] * 20
    return main(*around, line(calling, *calls)) if calling else main(*calls)


def stepping(*atoms):
    return Slice("Optimizer.step#Adam.step", "user_annotation", atoms)


BACKWARD = operator("MmBackward0", 5 * US, *OPS[:2])
FOREACH = [operator(f"aten::_foreach_{n}_", 9 * US, KERNEL) for n in "abcdefg"]


def replaying(name):
    kernels = (Op("math", 200 * US, name), Op("memory-bandwidth", 20 * US, "add_kernel")) * 10
    graph = operator("graph", 9 * US, Launch(9 * US, kernels, name="cudaGraphLaunch"))
    return [graph] * 4 + [Sync(US)]


def stalling(names=("aten::empty", "aten::resize_", "aten::clone"), others=()):
    atoms = []
    for turn in range(120):
        lost = [Work(9 * MS, "dispatch")] * (turn in (40, 59, 78, 95, 97, 110))
        atoms += [operator(names[turn % 3], 6 * US, *lost), *others, *OPS[:2]]
    return [*atoms, Sync(US)]


def backward_of_attention():
    """Without shapes: a softmax between two products, and its gradient between two others."""
    kernel = "void at::native::{}_kernel<float>".format
    parts = [
        launched(f"aten::{name}", 6 * US, Op("memory-bandwidth", ns, kernel(written)), 4 * US)
        for name, ns, written in (
            ("bmm", 90 * US, "gemm"),
            ("mul", 20 * US, "vectorized_elementwise"),
            ("_softmax_backward_data", 50 * US, "softmax_backward"),
            ("div", 30 * US, "vectorized_elementwise"),
            ("bmm", 90 * US, "gemm"),
            ("mul", 20 * US, "vectorized_elementwise"),
            ("_softmax", 40 * US, "softmax_forward"),
        )
    ]
    return [*steps(line("train.py(7): step", *parts)), Sync(US)]


# Code that is not the user's, and what is left to say of the line that calls it.
WRITTEN = [
    ("torch/profiler/profiler.py(811): step", 1, 10 * MS),
    ("srt/managers/scheduler_profiler_mixin.py(269): stop_profile", 1, 10 * MS),
    ("/tmp/torchinductor_me/ab/cabcd.py(310): call", 1, 10 * MS),
    ("/root/.triton/cache/XYZ/__triton_launcher.py(7): launch", 2, 30 * MS),
    ("<eval_with_key>.5(4): forward", 2, 30 * MS),
]
CAPTURE = [Call(f"cudaStream{end}Capture", 5 * US, "runtime") for end in ("Begin", "End")]
FETCH = line("torch/utils/data/_utils/fetch.py(47): fetch", Work(MS))
SIZED = operator("aten::masked_select", US, operator("aten::nonzero", US, Sync(3 * US)))
ITEM = operator("aten::item", US, operator("aten::_local_scalar_dense", 2 * US, Sync(3 * US, 7)))
SELECT = operator("aten::select", 2 * US)


EXCHANGE = "## all2all_data:init ##"


def exchanging(*atoms):
    return Slice(EXCHANGE, "user_annotation", atoms)


def copied(size):
    back = BlockingCopy(4 * US, 2 * US, name="Memcpy DtoH (Device -> Pinned)", bytes=size)
    return operator("aten::to", 2 * US, operator("aten::copy_", 2 * US, back))


def selecting(*between):
    """A loop that selects rows eight times, with other atoms in it, and writes them."""
    turn = [
        operator("aten::nonzero", 9 * US, KERNEL, Sync(3 * US, 7)),
        *between,
        operator("aten::index_put_", 9 * US, KERNEL),
    ]
    return steps(OPS[0], *turn * 8)


def numbered(name, *atoms):
    return Slice(name, "cpu_op", (Work(9 * US, "dispatch"), *atoms), {"Sequence number": 3})


def gradients(*atoms):
    return steps(operator("autograd::engine::evaluate_function: MulBackward0", 9 * US, *atoms))


SERVED = CONTROLS["overlapped_scheduling"].faulty
PRINTED = main(*OPS, line("torch/_tensor_str.py(640): _str", SIZED), *OPS)
NEW = operator("aten::empty", 3 * US, Call("cudaMalloc", 200 * US, "allocation"))

TRAINED = Launch(4 * US, (Op("math", 60 * US, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>"),))
ON_CPU = operator("aten::add_", 700 * US)
MATRICES = [operator("aten::mm", 9 * US, PRODUCT)] * 9

CASES = {
    "batches loaded in frames without annotations are found": (
        "dataloader_workers", main(*steps(FETCH, *OPS)),
        {("train.py(9): main", "6 workers keep up"): (3, 2_700 * US)},
    ),
    "inputs of a program without a loader may be prepared ahead": (
        "dataloader_workers", main(*steps(line("PIL/Image.py(9): resize", Work(MS)), *OPS)),
        {("PIL/Image.py(9): resize", "no loader asks for it ahead"): (3, 2_700 * US)},
    ),
    "what the device prepares is not for workers": (
        "dataloader_workers",
        main(*steps(line("torchvision/transforms/_transform.py(9): forward", *OPS), *OPS)), {},
    ),
    "what a closure does in the optimizer's step is not the optimizer's": (
        "fused_optimizer", steps(stepping(*OPS, BACKWARD, *FOREACH)),
        {("Optimizer.step#Adam.step", "fused=True instead of foreach"): (3, 3 * 6 * 13 * US)},
    ),
    "a server that schedules ahead prepares the next step already": (
        "overlapped_scheduling",
        [line("srt/scheduler.py(9): event_loop_overlap", *SERVED)],
        {},
    ),
    "a batch that was loaded late is a fault": (
        "dataloader_prefetch", fetching(5_000),
        {(None, "4 of 4 fetches found no batch loaded"): (4, 17_224 * US)},
    ),
    "a batch that was loaded in time is none": ("dataloader_prefetch", fetching(100), {}),
    "a synchronization at the end or beside a capture is not the loop's": (
        "explicit_synchronize", [*OPS, Sync(3 * US), *CAPTURE, Work(30 * MS), *OPS, Sync(3 * US)],
        {},
    ),
    "the line that prints a tensor reads the device": (
        "sync_by_line", PRINTED, {("train.py(9): main", "a tensor is printed"): (1, 15_284)},
    ),
    "the whole read goes, with the view that only it reads": (
        "sync_by_line", [*OPS, Slice("log", "user_annotation", (SELECT, ITEM)), *OPS, Sync(US)],
        {("log", "aten::_local_scalar_dense"): (1, 15_284)},
    ),
    "a large copy to the host is a result": ("sync_by_line", [*OPS, copied(1 << 16), *OPS], {}),
    "so is what the last copy of a pass brings": ("sync_by_line", [*OPS, copied(800)], {}),
    "a scalar at its end is none": (
        "sync_by_line", [*OPS, copied(4)], {("aten::to", "aten::copy_"): (1, 18_446)},
    ),
    "sizes of an exchange are copied ahead": (
        "sync_by_line", [*OPS, exchanging(copied(1 << 16)), *OPS],
        {(EXCHANGE, "sizes of an exchange: copy them ahead on a side stream"): (1, 18_446)},
    ),
    "a compiler cannot span the reads between launches": (
        "torch_compile", steps(*[operator("aten::mm", 12 * US, PRODUCT), ITEM] * 12), {},
    ),
    "a pass that reads the device in its middle is no graph": (
        "cuda_graph",
        [*OPS * 3, ITEM, *[operator("aten::add", 9 * US, KERNEL)] * 30, ITEM, *OPS * 3, Sync(US)],
        {},
    ),
    "nor is one whose exchanges have sizes of their own": (
        "cuda_graph", [*[exchanging(OPS[0]), *OPS * 10] * 3, Sync(US)], {},
    ),
    "one that reads it at its edges is": (
        "cuda_graph", [*[*OPS[:2], ITEM, *OPS * 10, ITEM] * 3, Sync(US)],
        {(None, None): (366, 5_920_333)},
    ),
    "one whose layers end in reads at one place is none": (
        "cuda_graph", [*[*OPS * 4, ITEM, *OPS * 10, ITEM] * 3, Sync(US)], {},
    ),
    "nor is a single pass that reads the device again and again at one place": (
        "cuda_graph", [*once_each("abcd"), Sync(US)], {},
    ),
    "a weight that is copied to its layer could stay": (
        "offloaded_parameters", [*layer([1024, 1024]) * 3, Sync(US)],
        {(None, "12.0 MB in all"): (3, 300_000)},
    ),
    "what is copied for its input could not": (
        "offloaded_parameters", [*layer([64, 1024]) * 3, Sync(US)], {},
    ),
    "Python frames may stand around the copies into a graph's buffers": (
        "graph_buffers", main(operator("CompiledFunction", US, line(INDUCTOR, INTO, REPLAYED))),
        {("train.py(9): main", "copies a replay: 1"): (1, 13_000)},
    ),
    "what is printed has no size that depends on data": ("data_dependent_sizes", PRINTED, {}),
    **{
        f"nobody is told to change {written}": (
            "python_lines",
            main(Work(10 * MS), *OPS, line(written, *OPS, Work(20 * MS)), *OPS),
            {("train.py(9): main", f"{ns // MS} ms of its own in the median call"): (rows, ns)},
        )
        for written, rows, ns in WRITTEN
    },
    "memory that is never freed belongs to the start": (
        "allocator", [each for op in OPS * 3 for each in (NEW, op)], {},
    ),
    "collections that Python starts itself have no place": (
        "garbage_collection", main(*OPS, line("Python GC", Work(MS)), *OPS),
        {(None, "1 collections, the longest 1.0 ms"): (1, MS)},
    ),
    "code compiled region by region has no graph breaks": (
        "graph_breaks", steps(*region(FUSED) * 6), {},
    ),
    "what a compiler wrote is not compiled again": (
        "torch_compile",
        steps(line("nn.Module: Model_0", *region(*[operator("aten::mm", 9 * US, PRODUCT)] * 9))),
        {},
    ),
    "nor is a module whose part is compiled": (
        "torch_compile",
        steps(line("nn.Module: Model_0", *MATRICES,
                   line("nn.Module: OptimizedModule_0", *region(FUSED)), *MATRICES)),
        {},
    ),
    "one beside it may be": (
        "torch_compile",
        steps(line("nn.Module: OptimizedModule_0", *region(FUSED)),
              line("nn.Module: Head_0", *MATRICES)),
        {("Head_0", None): (27, 121_500)},
    ),
    "vLLM compiles by its own flag": (
        "torch_compile",
        main(line("vllm/v1/worker/gpu_worker.py(9): execute_model",
                  line("nn.Module: Model_0", *MATRICES * 3))),
        {},
    ),
    "vLLM captures a prefill": (
        "cuda_graph",
        main(line("vllm/v1/worker/gpu_worker.py(9): execute_model",
                  *prefills("execute_context_1(8)_generation_0(0)"))),
        {(None, "vLLM: a decode whole, a prefill in pieces around attention"): (144, 2_338_880)},
    ),
    "no other server does": ("cuda_graph", prefills("step[EXTEND bs=1 toks=8]"), {}),
    "the same ranges in another server say nothing of vLLM": (
        "cuda_graph", prefills("execute_context_1(8)_generation_0(0)"), {},
    ),
    "a decode is captured": (
        "cuda_graph", prefills("step[DECODE bs=8]"), {(None, None): (144, 2_338_880)},
    ),
    "an inference in fp32 may run in bf16": (
        "mixed_precision", answering("ampere_sgemm_tf32_128x64_nn", "float"),
        {("aten::mm", "bf16, mostly ampere_sgemm_tf32_128x64_nn"): (9, 9 * 36 * US),
         ("aten::add", "bf16, mostly elementwise_kernel"): (9, 9 * 10 * US)},
    ),
    "fp32 between products in fp16 is mixed precision already": (
        "mixed_precision", answering("ampere_fp16_s16816gemm_fp16_128x128", "float"), {},
    ),
    "norms of training are right in training": (
        "eval_mode",
        [operator("aten::add_", 9 * US, KERNEL), operator("aten::batch_norm", 9 * US, TRAINED),
         operator("CudnnBatchNormBackward0", 9 * US, KERNEL), Sync(US)],
        {},
    ),
    "without a backward pass they are not": (
        "eval_mode",
        [operator("aten::add_", 9 * US, KERNEL), operator("aten::batch_norm", 9 * US, TRAINED),
         Sync(US)],
        {("aten::batch_norm", "cudnn::bn_fw_tr_1C11_kernel_NCHW"): (1, 19_800),
         ("aten::add_", "counts batches"): (1, 13 * US)},
    ),
    "an A100 has no newer attention": (
        "newer_attention", answering("void pytorch_flash::flash_fwd_kernel<traits>", "half"), {},
    ),
    "training keeps its weights in fp32": (
        "mixed_precision",
        [*answering("ampere_sgemm_tf32_128x64_nn", "float"), operator("MmBackward0", 9 * US)], {},
    ),
    "a tensor of float64 makes a result of float64": (
        "float64", [wide("aten::add", [[4096], [4096]], ["float", "double"]), Sync(US)],
        {("aten::add", "aten::add of [4096]"): (1, 40 * US)},
    ),
    "but not what it is added to": (
        "float64", [wide("aten::add_", [[4096], [4096]], ["float", "double"]), Sync(US)],
        {("aten::add_", "aten::add_ of [4096]"): (1, 25 * US)},
    ),
    "a number of float64 is no tensor of it": (
        "float64", [wide("aten::mul", [[4096], []], ["float", "double"]), Sync(US)], {},
    ),
    "a copy reads its second input alone": (
        "float64", [wide("aten::copy_", [[4096]] * 2, ["float", "double"]), Sync(US)],
        {("aten::copy_", "aten::copy_ of [4096]"): (1, 33_333)},
    ),
    "copies to the device are not computed": (
        "float64",
        [operator("aten::copy_", 3 * US, Launch(4 * US, (BROUGHT,)), shapes=[[4096]] * 2,
                  types=["double"] * 2), Sync(US)],
        {},
    ),
    "what the CPU computes in float64 is not the device's": (
        "float64",
        [operator("aten::mul", 90 * US, shapes=[[4096]] * 2, types=["double"] * 2), *OPS, Sync(US)],
        {},
    ),
    "an A100 multiplies float64 as fast as float32": (
        "float64", [wide("aten::mm", [[4096, 4096]] * 2, ["double"] * 2), Sync(US)], {},
    ),
    "unless the memory limits it": (
        "float64", [wide("aten::mm", [[4096, 4096], [4096, 1]], ["double"] * 2), Sync(US)],
        {("aten::mm", "aten::mm of [4096, 4096]"): (1, 50 * US)},
    ),
    "a compiler that only traces leaves the code to be compiled": (
        "torch_compile", steps(*region(*[operator("aten::add", 9 * US, KERNEL)] * 9)),
        {(None, "its compiler generates no code: see backend="): (30, 154_500)},
    ),
    "a compiled run without modules is left alone": (
        "torch_compile", steps(*region(FUSED), *[operator("aten::mm", 9 * US, KERNEL)] * 3), {},
    ),
    "small collectives are coalesced": (
        "coalesce_collectives", reducing(1 << 8),
        {("c10d::allreduce_", "allreduce, 1024 bytes at most"): (56, 1_120 * US)},
    ),
    "large collectives are not": ("coalesce_collectives", reducing(1 << 24), {}),
    "quick collectives of unknown size are coalesced, with copies of the tensors between them": (
        "coalesce_collectives", reducing(None, 12, operator("aten::clone", 5 * US, KERNEL)),
        {("c10d::allreduce_", "allreduce of unknown size"): (56, 616 * US)},
    ),
    "slow ones are not": ("coalesce_collectives", reducing(None, 30), {}),
    "nor are those with other work between them": (
        "coalesce_collectives", reducing(None, 12, operator("aten::mm", 5 * US, KERNEL)), {},
    ),
    "gradients are copied out of their buckets": (
        "ddp_copies",
        steps(operator("torch.distributed.ddp.reducer::copy_bucket_to_grad", 5 * US, KERNEL)),
        {("DistributedDataParallel, gradients", "gradient_as_bucket_view=True"): (3, 27 * US)},
    ),
    "a loop over items in a function is one": (
        "batch_items", items("serve.py(3): classify"),
        {("Classifier_0", "8 calls in a row"): (103, 1_848 * US)},
    ),
    "a loop over tokens is not a loop over items": (
        "batch_items", items("model.py(9): generate"), {},
    ),
    "a loop that multiplies each expert's tokens is one": (
        "looped_experts", selecting(operator("aten::mm", 9 * US, PRODUCT)),
        {("aten::nonzero", "8 experts one by one"): (21, 992_241)},
    ),
    "a loop that only selects rows has no experts": ("looped_experts", selecting(), {}),
    "a layer that runs in the backward pass runs again": (
        "kept_activations",
        gradients(numbered("aten::linear", PRODUCT), numbered("aten::relu", KERNEL)),
        {(None, None): (3, 78 * US)},
    ),
    "the gradient of a gradient does not run layers again": (
        "kept_activations", gradients(numbered("aten::mm", PRODUCT), numbered("aten::mul", KERNEL)),
        {},
    ),
    "a loop over steps is not a loop over items": ("batch_items", items(), {}),
    "products of a graph are priced without their shapes": (
        "tensor_cores", replaying("ampere_sgemm_128x64_tn"),
        {("graph", "tf32, mostly ampere_sgemm_128x64_tn"): (40, 4 * MS)},
    ),
    "products that use tensor cores gain nothing": (
        "tensor_cores", replaying("s1688gemm_tf32"), {},
    ),
    "long stalls are the scheduler's": (
        "threads_and_quota", stalling(),
        {(None, "6 calls, up to 9 ms, from 2 to 49 ms"): (6, 54 * MS)},
    ),
    "an update on the CPU belongs to the model": (
        "model_on_cpu",
        steps(Slice("Optimizer.step#SGD.step", "user_annotation", (ON_CPU,)), *OPS),
        {("aten::add_", "aten::add_"): (3, 3 * 692 * US)},
    ),
    "an operator on the CPU may prepare input": ("model_on_cpu", steps(ON_CPU, *OPS), {}),
    "long calls of rare operators alone are not the scheduler's": (
        "threads_and_quota",
        stalling(others=[operator("aten::view", 150 * US)] * 4), {},
    ),
    "fused attention does the elementwise work of the backward pass, too": (
        "fused_attention", backward_of_attention(),
        {("train.py(7): step", "at least, since shapes were not recorded"): (13, 420 * US)},
    ),
}  # fmt: skip


COPIED = operator(
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    5 * US,
    Launch(4 * US, (("memory-bandwidth", 100 * US),)),
)
LONG = operator("aten::mm", 12 * US, Launch(4 * US, (("math", 400 * US),)))

TRACES = Programs()
TRACE = {title: TRACES.program(atoms) for title, (_, atoms, _) in CASES.items()}


MADE_ROOM = [
    *OPS[:4],
    operator("aten::empty", 3 * US, *[Call("cudaFree", MS, "allocation")] * 4, NEW),
    *OPS * 4,
    Sync(US),
]


def begun(events):
    """The events of a recording that began after the first launches."""
    calls = [each for each in events if each["name"] == "cudaLaunchKernel"]
    return [each for each in events if each not in calls[:4]]


STARTING, RUNNING = TRACES.program(MADE_ROOM), TRACES.program(MADE_ROOM, lose=begun)


@TRACES.running(steps(*[*OPS[:6], ITEM] * 6, times=5))
def test_reads_of_values_stand_in_the_way_of_a_graph(trace, loaded):
    found = loaded.advise(trace=trace)
    assert "cuda-graph" not in {each.remedy for each in found.advice}
    assert "sync-by-line comes first" in found.notes[0]


@TRACES.running(CONTROLS["fill_the_device"].faulty, lose=begun)
def test_kernels_launched_before_the_recording_belong_where_their_names_do(trace, loaded):
    found = Counter(row["place"] for row in loaded.ask("fill_the_device", trace=trace))
    assert found == {CONTROLS["fill_the_device"].place: 40}


@pytest.mark.parametrize(("trace", "calls"), [(STARTING, 0), (RUNNING, 5)])
def test_a_run_that_began_before_the_recording_is_not_at_its_start(trace, calls, loaded):
    assert len(loaded.ask("allocator", trace=trace)) == calls


@TRACES.running([
    step(n, Fetch(60 * US, 2 * MS if n % 3 else 20 * US), Work(400 * US), *OPS) for n in range(9)
])  # fmt: skip
def test_a_faster_host_waits_longer_for_a_loader_that_never_rests(trace, loaded):
    """Two of three fetches come late, so the third batch is there because of the others' waits."""
    found = loaded.whatif("python*0", trace=trace, window="trace")
    assert found.saves_ns == pytest.approx(400 * US, rel=0.01)  # the last step's


@pytest.mark.parametrize("title", CASES)
def test_a_remedy_applies_at_these_places(title, loaded):
    query, _, expected = CASES[title]
    count, saved_ns = Counter(), Counter()
    for row in loaded.ask(query, trace=TRACE[title]):
        key = row["place"], row["detail"]
        count[key] += 1
        saved_ns[key] += row["dur_ns"] * (1 - row["factor"])
    found = {key: (count[key], round(saved_ns[key])) for key in count}
    assert found == expected


@pytest.mark.parametrize(
    ("title", "activity"),
    [
        ("an update on the CPU belongs to the model", "dispatch"),
        ("an operator on the CPU may prepare input", "input"),
    ],
)
def test_an_update_on_the_cpu_is_no_input(title, activity, loaded):
    ((found,),) = loaded.fetch(
        "SELECT DISTINCT activity FROM host_segment JOIN cpu_ops USING (trace_id, event_id) "
        f"WHERE name = 'aten::add_' AND trace_id = {TRACE[title]}"
    )[1]
    assert found == activity


@TRACES.running([*steps(*[COPIED] * 4, *[LONG] * 20, times=6), Sync(US)])
def test_a_host_that_runs_ahead_makes_the_copies_of_a_step_before_its_window(trace, loaded):
    (found,) = loaded.advise(trace=trace).advice
    assert (found.remedy, found.count) == ("ddp-copies", 4)
    assert found.saves_ns == pytest.approx(4 * 100 * US, rel=0.05)


def test_long_stalls_do_not_count_as_warm_up(loaded):
    advice = loaded.advise(trace=TRACE["long stalls are the scheduler's"]).advice
    assert "warm-up" not in {each.remedy for each in advice}
    stalls = [each.saves_ns for each in advice if each.remedy == "threads-and-quota"]
    assert sum(stalls) == pytest.approx(6 * 9 * MS, rel=0.1)


def test_an_optimizer_that_is_fused_is_left_alone(shared_ask):
    """apex's FusedAdam steps in a few launches; SGD's foreach implementation has three passes."""
    assert shared_ask("a100-diff-control.json.gz", "fused_optimizer") == []
    found = shared_ask("v100-ns-resolution.json.gz", "fused_optimizer")
    assert {row["detail"] for row in found} == {"fused=True instead of foreach"}
    assert [row["factor"] for row in found] == [1 / 3] * 5
