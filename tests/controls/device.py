"""Faults of the device's work: what it does in vain, and kernels that are slower than others."""

from dataclasses import replace

from tests.controls.planting import FREE, PAUSE, SYNC, launched, planted, products, reading, steps
from tests.kit.atoms import NAMES, US, Launch, Op, Slice, Work, line, operator

HALF, BF16 = "c10::Half", "c10::BFloat16"
ADDITION = NAMES["memory-bandwidth"]


def moved(ns, name):
    """A kernel that the memory limits."""
    return Op("memory-bandwidth", ns, name)


# -- matrix products -------------------------------------------------------------------------------

# An A100 multiplies bf16 at 312 TFLOP/s.
FLOP_PER_NS = 312_000


def tuned(kernel, m, k, n, reached):
    """A product that reaches this share of the peak."""
    op = Op("math", round(2 * m * k * n / FLOP_PER_NS / reached), kernel)
    return launched("aten::mm", 9 * US, op, shapes=[[m, k], [k, n]], types=[BF16] * 2)


@planted("triton_tem_fused_addmm", faulty=(0.36, 0.4), fixed=(0.6, 0.6))
def autotune(_, generated, large):
    """A product that Inductor generated takes most of the time, and a library's reaches less of its
    peak than a smaller one; in the twin, both are tuned."""
    atoms = [
        tuned("triton_tem_fused_addmm_3", 4096, 2048, 4096, generated),
        tuned("ampere_bf16_s16816gemm_bf16_128x128", 4096, 1024, 2048, 0.6),
        tuned("ampere_bf16_s16816gemm_bf16_64x64", 4096, 2048, 2048, large),
        launched("aten::relu", 9 * US, ("memory-bandwidth", 50 * US)),
    ]
    return [*steps(*atoms * 10, PAUSE, times=5), SYNC]


@planted("model.py(33): project", faulty=(200 * US, 27), fixed=(50 * US, 108))
def fill_the_device(place, ns, blocks):
    """A product in 27 blocks on 108 SMs; the twin splits its sum, so that each SM has a block."""

    def of_blocks(count):
        return {
            "grid": [count, 1, 1], "block": [128, 1, 1], "blocks per SM": count / 108,
            "registers per thread": 128, "shared memory": 0,
        }  # fmt: skip

    product = launched("aten::mm", 12 * US, Op("math", ns, NAMES["math"], of_blocks(blocks)))
    added = Op("memory-bandwidth", 60 * US, ADDITION, of_blocks(8640))
    atoms = [product, launched("aten::add", 10 * US, added)] * 10
    return steps(line(place, *atoms), PAUSE, SYNC)


def time_ns(columns):
    return round(2 * 4096 * 1024 * columns / 100_000)


@planted("model.py(33): head", faulty=(1705, 1, 360 * US), fixed=(1712, 8, time_ns(1712)))
def gemm_padding(place, *head):
    """A layer with 1705 outputs in an unaligned kernel, beside one with 2048; the twin pads to
    1712."""

    def product(columns, align, ns):
        kernel = f"cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align{align}>(Params)"
        shapes = [[4096, 1024], [1024, columns]]
        return launched(
            "aten::mm", 12 * US, Op("math", ns, kernel), shapes=shapes, types=[BF16] * 2
        )

    body = line("model.py(20): body", product(2048, 8, time_ns(2048)))
    return steps(*[body, line(place, product(*head))] * 10, PAUSE, SYNC)


@planted("moe.py(12): forward", faulty=(500 * US,), fixed=())
def grouped_products(place, *gathers_ns):
    """Tokens multiply copies of their experts' weights; in the twin, they need no copies."""
    gather = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"
    weights = [[8, 1024, 2048], []]
    indexed = operator("aten::index", 9 * US, shapes=weights)
    for ns in gathers_ns:
        indexed = launched("aten::index", 9 * US, moved(ns, gather), shapes=weights)
    product = Op("math", 400 * US, "nvjet_sm103_tst_512x8_64x3_2x1_v_bz_NNT")
    shapes = [[64, 1, 1024], [64, 1024, 2048]]
    experts = line(place, indexed, launched("aten::bmm", 9 * US, product, shapes=shapes))
    rest = [launched("aten::mm", 9 * US, ("math", 30 * US), 4 * US)] * 4
    return [*steps(experts, *rest, Work(5 * US), times=5), SYNC]


@planted("moe.py(31): forward", faulty=(8, 1), fixed=(1, 8))
def looped_experts(place, turns, experts):
    """A loop selects each expert's tokens and multiplies them; in the twin, one turn is for all."""
    counted = launched("aten::nonzero", 30 * US, moved(3 * US, "write_indices"))
    selected = replace(counted, atoms=(*counted.atoms, reading()))
    rows = moved(2 * US * experts, "void at::native::vectorized_gather_kernel<16, long>(char*)")
    product = Op("math", 8 * US * experts, "nvjet_sm90_tst_64x136_64x8_2x1_v_bz_NNT")
    added = moved(2 * US * experts, "indexFuncLargeIndex")
    turn = [
        selected, launched("aten::index", 90 * US, rows), launched("aten::mm", 90 * US, product),
        launched("aten::index_add_", 90 * US, added),
    ]  # fmt: skip
    router = launched("aten::mm", 12 * US, ("math", 20 * US))
    return [*steps(line(place, router, *turn * turns), PAUSE), SYNC]


@planted(None, faulty=(True,), fixed=(False,))
def kept_activations(is_again):
    """The backward pass runs each layer again; in the twin, the results of the layers were kept."""
    layer = [
        replace(launched(name, 14 * US, ("math", 40 * US)), args={"Sequence number": n})
        for n, name in enumerate(("aten::linear", "aten::gelu", "aten::linear"))
    ]
    again = layer if is_again else []
    node = operator(
        "autograd::engine::evaluate_function: AddmmBackward0", 6 * US, *again, *products(4, 40 * US)
    )
    return [*steps(*layer * 4, *[node] * 4, PAUSE), SYNC]


# An A100 multiplies fp32 at 19.5 TFLOP/s and TF32 at 156.
@planted("train.py(12): train_step", faulty=(Op("math", 144 * US, "ampere_sgemm_128x64_nn"),),
         fixed=(Op("math", 18 * US, "ampere_sgemm_tf32_128x64_nn"),))  # fmt: skip
def tensor_cores(place, kernel):
    """Products of fp32 on an A100 by FFMA kernels; in the twin the same in TF32, which is
    faster."""
    product = launched("aten::mm", 12 * US, kernel, shapes=[[1024, 1024], [1024, 1024]])
    other = launched("aten::relu", 10 * US, ("memory-bandwidth", 30 * US))
    return steps(line(place, *[product, other] * 10), PAUSE, SYNC)


def inference(place, product, addition):
    """Products and additions on an A100, without a backward pass."""
    mm = launched("aten::mm", 12 * US, product)
    add = launched("aten::add", 10 * US, addition)
    return steps(line(place, *[mm, add] * 10), PAUSE, SYNC)


ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<{}>>"


@planted(
    "serve.py(12): answer",
    faulty=(
        Op("math", 144 * US, "ampere_sgemm_tf32_128x64_nn"),
        moved(60 * US, ADD.format("float")),
    ),
    fixed=(Op("math", 72 * US, NAMES["math"]), moved(30 * US, ADD.format("c10::BFloat16"))),
)
def mixed_precision(place, product, addition):
    """An inference in fp32, its products in TF32; in the twin, all of it is in bf16."""
    return inference(place, product, addition)


H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}


@planted(
    "serve.py(12): answer",
    faulty=(Op("math", 150 * US, "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>"),),
    fixed=(Op("math", 100 * US, "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"),),
    metadata=FREE | {"deviceProperties": [H100]},
)
def newer_attention(place, attention):
    """Attention by FlashAttention 2 on an H100; in the twin, by cuDNN."""
    return inference(place, Op("math", 60 * US, NAMES["math"]), attention)


@planted(
    "serve.py(12): answer",
    faulty=(Op("math", 200 * US, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"),),
    fixed=(Op("math", 124 * US, "sm90_xmma_gemm_e4m3e4m3_f32f32_f32_tn_n_tilesize128x128x128"),),
    metadata=FREE | {"deviceProperties": [H100]},
)
def fp8_products(place, product):
    """An inference in bf16 on an H100; in the twin, its products are in fp8."""
    return inference(place, product, moved(30 * US, ADD.format("c10::BFloat16")))


@planted(
    "serve.py(12): answer",
    faulty=(True, moved(150 * US, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>")),
    fixed=(False, moved(100 * US, "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>")),
)
def eval_mode(place, counts, kernel):
    """An inference whose batch norms are in training mode; in the twin, they are not."""
    counter = [launched("aten::add_", 8 * US, ("latency", 3 * US))] * counts
    norm = [
        launched("aten::cudnn_convolution", 10 * US, ("math", 90 * US)),
        *counter,
        launched("aten::batch_norm", 10 * US, kernel),
    ]
    return steps(line(place, *norm * 10), PAUSE, SYNC)


@planted("Classifier_0", faulty=(8, 1), fixed=(1, 8))
def batch_items(place, calls, items):
    """A step classifies its items one by one; in the twin, it classifies them all at once."""
    short = Op("latency", 4 * US, "void gemmSN_NN_kernel<float, 128, 2>")
    # One kernel does the work of all items of a call.
    wide = Op("math", 12 * US * items, "ampere_sgemm_32x32_sliced1x4_tn")
    ops = [launched("aten::mm", 14 * US, each, 4 * US) for each in [short, short, wide] * 4]
    loop = line("serve.py(31): classify", *[line(f"nn.Module: {place}", *ops)] * calls)
    return steps(loop, PAUSE, SYNC)


# -- convolutions and norms ------------------------------------------------------------------------

TO_NHWC, TO_NCHW = (
    moved(ns, f"void cudnn::ops::{name}Kernel<__half, __half, float>")
    for ns, name in ((60 * US, "nchwToNhwc"), (40 * US, "nhwcToNchw"))
)
CONVOLUTION = Op("math", 90 * US, "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc")


@planted("model.py(20): forward", faulty=(TO_NHWC, CONVOLUTION, TO_NCHW), fixed=(CONVOLUTION,))
def channels_last(place, *kernels):
    """Convolutions of images in NCHW, which cuDNN converts before and after; the twin needs no
    conversion."""
    launches = [Launch(5 * US, (each,)) for each in kernels]
    layer = operator("aten::conv2d", 8 * US, operator("aten::cudnn_convolution", 8 * US, *launches))
    return steps(line(place, *[layer] * 12), PAUSE, SYNC)


NORM = moved(20 * US, "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>")


@planted("resnet.py(88): forward", faulty=(launched("aten::batch_norm", 9 * US, NORM),), fixed=())
def folded_norms(place, *norm):
    """Inference runs convolutions and their batch norms; in the twin, weights contain the norms."""
    convolution = launched("aten::conv2d", 9 * US, ("math", 40 * US))
    relu = launched("aten::relu_", 9 * US, ("memory-bandwidth", 9 * US))
    return steps(*[line(place, convolution, *norm, relu)] * 10, PAUSE, SYNC, times=5)


ROWS, WIDTH = 8192, 4096
FULL, COLUMN = [ROWS, WIDTH], [ROWS, 1]
# 10^12 bytes a second: a tensor of 128 MiB is read, or written, in 134 us.
PASS_NS, SHORT_NS = 134_218, 10 * US


def passing(name, ns, *shapes, types=None):
    kernel = moved(ns, "void at::native::vectorized_elementwise_kernel<4, MulFunctor>")
    return launched(name, 10 * US, kernel, shapes=list(shapes), types=types)


def converted(to, source):
    types = [to, source, "Scalar"]
    return passing("aten::copy_", 3 * PASS_NS // 2, FULL, FULL, [], types=types)


MEAN = passing("aten::mean", PASS_NS, FULL, [], [], [])
MEAN.args["Concrete Inputs"] = ["", "[-1]", "True", ""]
PIECES = [
    converted("float", BF16),
    passing("aten::pow", 2 * PASS_NS, FULL, []),
    MEAN,
    passing("aten::add", SHORT_NS, COLUMN, [], []),
    passing("aten::rsqrt", SHORT_NS, COLUMN),
    passing("aten::mul", 2 * PASS_NS, FULL, COLUMN),
    converted(BF16, "float"),
]
WHOLE = passing("aten::_fused_rms_norm", PASS_NS, FULL, [], [WIDTH], types=[BF16, "", BF16])


@planted("model.py(17): norm", faulty=PIECES * 2, fixed=(WHOLE, WHOLE))
def fused_norms(place, *norms):
    """Root-mean-square norms in seven operators, two in a row; the twin runs one operator for
    each norm, which reads and writes once."""
    return steps(line(place, *(*norms, *products(1, 300 * US, 5 * US)) * 5), PAUSE, SYNC)


# -- attention -------------------------------------------------------------------------------------

QUERY, KEY, VALUE = [64, 1024, 64], [64, 64, 1024], [64, 1024, 64]
SCORES, HEADS = [64, 1024, 1024], [64, 1, 1024, 64]


def computed(name, shapes, cause, ns, kernel):
    types = [HALF] * len(shapes)
    return launched(name, 10 * US, Op(cause, ns, kernel), shapes=shapes, types=types)


def multiplied(*shapes):
    # It reaches 74 % of the memory roof, because of the scores. The math takes 27.5 us.
    kernel = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
    return computed("aten::bmm", list(shapes), "math", 100 * US, kernel)


def flash(name):
    kernel = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>"
    return computed(name, [HEADS] * 3, "math", 74_350, kernel)


SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 10>"
IN_PARTS = (
    multiplied(QUERY, KEY),
    computed("aten::_softmax", [SCORES], "memory-bandwidth", 180 * US, SOFTMAX),
    multiplied(SCORES, VALUE),
)


FUSED = flash("aten::_scaled_dot_product_flash_attention")


@planted("model.py(41): attend", faulty=IN_PARTS, fixed=(FUSED,))
def fused_attention(place, *atoms):
    """Attention as two products with a softmax between; the twin runs one kernel instead."""
    return steps(line(place, *atoms * 10), PAUSE, SYNC)


@planted(
    "model.py(41): attend",
    faulty=("attention_math", [1024, 1024], "float", IN_PARTS),
    fixed=("flash_attention", [], HALF, [flash("aten::_flash_attention_forward")]),
)
def math_attention(place, backend, mask, dtype, parts):
    """Attention of fp32 inputs with a mask, by the math backend; the twin runs one fused kernel."""
    inner = operator(f"aten::_scaled_dot_product_{backend}", 5 * US, *parts)
    given = {"shapes": [HEADS, HEADS, HEADS, mask], "types": [dtype] * 4}
    whole = operator("aten::scaled_dot_product_attention", 3 * US, inner, **given)
    return steps(line(place, *[whole] * 10), PAUSE, SYNC)


FILL = moved(110 * US, "void at::native::masked_fill_kernel<c10::Half>")
FILLED = launched("aten::masked_fill_", 8 * US, FILL, shapes=[SCORES])
COPY = moved(120 * US, "Memcpy DtoD (Device -> Device)")
COPIED = launched("aten::copy_", 6 * US, COPY, shapes=[SCORES, SCORES])
CLONED = operator("aten::clone", 4 * US, COPIED, shapes=[SCORES])


@planted("model.py(52): attend", faulty=(CLONED, FILLED), fixed=(FILLED,))
def in_place(place, *parts):
    """Scores are masked out of place, which copies them; the twin masks them in place."""
    masked = operator("aten::masked_fill", 4 * US, *parts, shapes=[SCORES])
    return steps(line(place, *[masked, *products(1, 60 * US, 5 * US)] * 10), PAUSE, SYNC)


MASK = {"shapes": [[2048, 2048]]}
FILL_MASK = moved(10 * US, "void at::native::vectorized_elementwise_kernel<fill>")
TRIANGLE = moved(20 * US, "void at::native::triu_tril_kernel<float>")


@planted(
    "model.py(12): forward",
    faulty=(
        operator("aten::ones", 8 * US, launched("aten::fill_", 6 * US, FILL_MASK, **MASK), **MASK),
        launched("aten::tril", 10 * US, TRIANGLE, **MASK),
        launched("aten::logical_not", 6 * US, FILL_MASK, **MASK),
    ),
    fixed=(),
)
def mask_again(place, *mask):
    """Each call builds its causal mask again; the twin has it already."""
    return steps(line(place, *(*mask, *products(1, 25 * US, 5 * US)) * 10), PAUSE, SYNC)


# -- copies ----------------------------------------------------------------------------------------


def copy(dispatch_ns, kernel, shape, *types):
    given = {"shapes": [shape, shape, []], "types": [*types, "Scalar"]}
    return launched("aten::copy_", dispatch_ns, kernel, **given)


KEYS = moved(50 * US, "void at::native::elementwise_kernel<128, 4, direct_copy_kernel>")
TRANSPOSED = copy(6 * US, KEYS, [64, 16, 64, 512], HALF, HALF)


@planted(
    "model.py(41): attend",
    faulty=(operator("aten::contiguous", US, operator("aten::clone", 6 * US, TRANSPOSED)),),
    fixed=(),
)
def contiguous_copies(place, *copies):
    """Keys are transposed and made contiguous before a product, which could read them as they
    are."""
    product = launched("aten::bmm", 12 * US, ("math", 80 * US))
    return steps(line(place, *[*copies, product] * 12), PAUSE, SYNC)


WEIGHT = [4096, 1024]
TO_HALF = moved(45 * US, "void at::native::unrolled_elementwise_kernel<direct_copy>")
CAST = operator("aten::_to_copy", 6 * US, copy(8 * US, TO_HALF, WEIGHT, HALF, "float"))


@planted("serve.py(30): forward", faulty=(operator("aten::to", 2 * US, CAST),), fixed=())
def repeated_casts(place, *casts):
    """Inference under autocast, which casts each weight in each pass; the twin stores weights in
    fp16."""
    product = launched("aten::addmm", 12 * US, ("math", 30 * US))
    shapes = [[64, 1024], WEIGHT, [4096]]
    layer = operator("aten::linear", 4 * US, *casts, product, shapes=shapes)
    return steps(line(place, *[layer] * 12), PAUSE, SYNC)


WINDOWED = [[4096, 4096]] * 2


@planted("loss.py(14): weighted", faulty=("double", 200 * US), fixed=("float", 100 * US))
def float64(place, dtype, ns):
    """A loss is weighted by an array of NumPy, in float64; in the twin, in float32."""
    kernel = moved(ns, f"void at::native::vectorized_elementwise_kernel<4, MulFunctor<{dtype}>>")
    weighted = launched("aten::mul", 10 * US, kernel, shapes=WINDOWED, types=[dtype] * 2)
    product = launched("aten::mm", 12 * US, ("math", 90 * US))
    return steps(line(place, *[product, weighted] * 10), PAUSE, SYNC)


BROUGHT = launched(
    "aten::copy_", 3 * US,
    Op("copy", 300 * US, "Memcpy HtoD (Pinned -> Device)", {"bytes": 8_000_000}), 4 * US,
)  # fmt: skip


@planted(None, faulty=(BROUGHT,), fixed=())
def offloaded_parameters(*copies):
    """Each layer's parameters are copied from the host before it runs; in the twin, they stay."""
    before = Slice("FSDP::pre_forward (layer)", "user_annotation", (Work(5 * US), *copies))
    layer = (before, *[launched("aten::mm", 12 * US, ("math", 40 * US), 4 * US)] * 5)
    return [*steps(*layer * 6, PAUSE), SYNC]
