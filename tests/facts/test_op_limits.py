"""Lower bounds of the work of kernels whose shapes were not recorded."""

import gzip
import json

import pytest

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES
from tests.kit import traces
from tests.kit.traces import device, gpu_op, launch, operator, slice_event, step

# Calls whose shapes tell all, and Triton's: of others, shapes tell only a bound, too.
KNOWN = """
    SELECT event_id, flops, bytes FROM op_limit WHERE source = 'call' AND event_id IN
        (SELECT event_id FROM gpu_ops WHERE class <> 'other' AND (is_exact OR class = 'triton'))
"""
TWICE = "SELECT trace_id, event_id FROM op_limit GROUP BY ALL HAVING count(*) > 1"
BOUNDS = """
    SELECT event_id, source, flops, bytes FROM op_limit
    WHERE source IN ('same kernel', 'same place', 'grid', 'tiles', 'layer', 'outputs', 'neighbor',
        'residual')
"""


@pytest.mark.parametrize(
    ("path", "sources"),
    [
        (OWN_TRACES / "h100/train-step.json.gz", {"grid"}),
        (OWN_TRACES / "h100/attention-naive.json.gz", {"grid"}),
        (OWN_TRACES / "h100/attention-sdpa-flash.json.gz", {"grid"}),
        (OWN_TRACES / "h100/mlp-compiled.json.gz", {"grid"}),
        (SHARED_TRACES / "h100-bert-small.json.gz", {"grid"}),
        (SHARED_TRACES / "b200-vllm-eager.json.gz", {"grid", "tiles"}),
        (SHARED_TRACES / "h100-owlv2.json.gz", {"grid"}),
        (SHARED_TRACES / "a100-transformer-batch512.json.gz", {"grid", "outputs", "neighbor"}),
        (SHARED_TRACES / "v100-dlrm-rank0.json.gz", {"grid", "outputs", "layer"}),
    ],
    ids=lambda each: getattr(each, "stem", ""),
)
@pytest.mark.sampled(4)
def test_bounds_are_below_the_work_that_shapes_tell(path, sources, tmp_path):
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(path) as run:
        assert run.fetch(TWICE)[1] == []
        known = {op: (flops, moved) for op, flops, moved in run.fetch(KNOWN)[1]}
    document = json.loads(gzip.decompress(path.read_bytes()))
    for event in document["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document))
    with tracekit.load(bare) as run:
        bounds = run.fetch(BOUNDS)[1]
    # The tile at an edge counts as a whole one.
    above = [
        row
        for row in bounds
        if row[0] in known and any(row[n] > 1.05 * known[row[0]][n - 2] for n in (2, 3))
    ]
    assert above == []
    assert {source for _, source, *_ in bounds} == sources


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("graph", "beside", "count"),
    [
        ("mi300x-sglang-graph-decode", "mi300x-sglang-mixed", 216),
        ("mi300x-vllm-decode", "mi300x-vllm-capture", 167),
    ],
)
def test_bounds_of_a_graph_alone_are_below_those_beside_another_trace(graph, beside, count):
    paths = [SHARED_TRACES / f"{name}.json.gz" for name in (graph, beside)]
    if not paths[0].exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(paths) as run:
        known = run.fetch("""
            SELECT event_id, flops, bytes FROM op_limit WHERE trace_id = 1 AND source <> 'residual'
        """)[1]
    with tracekit.load(paths[0]) as run:
        bounds = {op: row for op, source, *row in run.fetch(BOUNDS)[1] if source == "residual"}
    both = [(bounds[op], work) for op, *work in known if op in bounds]
    assert len(both) == count
    assert [each for each in both if any(a > b for a, b in zip(*each, strict=True))] == []


@pytest.mark.sampled(1)
def test_a_prefill_as_a_graph_is_bounded_below_what_its_shapes_tell(tmp_path):
    path = SHARED_TRACES / "mi300x-sglang-mixed.json.gz"
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    work = "SELECT start_ns, name, {0} FROM {1} AS b JOIN gpu_ops USING (trace_id, event_id)"
    with tracekit.load(path) as run:
        rows = run.fetch(work.format("flops, b.bytes", "op_limit"))[1]
        known = {(start, name): row for start, name, *row in rows}
    document = json.loads(gzip.decompress(path.read_bytes()))
    events = document["traceEvents"]
    step = next(e for e in events if str(e.get("name")).startswith("execute_"))
    thread, end = (step["pid"], step["tid"]), step["ts"] + step["dur"]
    launches = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") == "cuda_runtime" and (event["pid"], event["tid"]) == thread
        and step["ts"] <= event["ts"] < end and "correlation" in event["args"]
    }  # fmt: skip
    # The step's kernels become those of one replay, which have no grid and no operator.
    replay = launch(step["ts"] + 1, 5, 1, "hipGraphLaunch")
    replay |= {"pid": step["pid"], "tid": step["tid"]}
    kept = [replay]
    for event in events:
        args = event.get("args", {})
        args.pop("Input Dims", None)
        if args.get("correlation") in launches:
            if event.get("cat") != "kernel":
                continue
            for name in ("grid", "block", "External id"):
                args.pop(name, None)
            args["correlation"] = 1
        if event.get("cat") != "ac2g":
            kept.append(event)
    bare = traces.write(tmp_path / "bare.json", kept, **{
        key: value for key, value in document.items() if key != "traceEvents"
    })  # fmt: skip
    with tracekit.load(bare) as run:
        told = work.format("flops, b.bytes, source", "kernel_bound")
        bounds = [row[:4] for row in run.fetch(told)[1] if row[4] == "residual"]
    assert len(bounds) == 251
    assert [
        row for row in bounds
        if any(a > b for a, b in zip(row[2:], known[row[0], row[1]], strict=True))
    ] == []  # fmt: skip


@pytest.mark.parametrize("name", ["mi300x-resnet-checkpoint", "h100-qwen-small"])
@pytest.mark.sampled(1)
def test_a_lost_launch_is_bounded_by_what_its_place_does(name, tmp_path):
    path = SHARED_TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    with tracekit.load(path) as run:
        known = {op: (flops, moved) for op, flops, moved in run.fetch(KNOWN)[1]}
    document = json.loads(gzip.decompress(path.read_bytes()))
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    kernels.sort(key=lambda event: float(event["ts"]))
    lost = set()
    for kernel in kernels[len(kernels) * 3 // 5 : len(kernels) * 3 // 4]:
        kernel["args"].pop("grid", None)
        lost.add(kernel["args"]["correlation"])
    for event in document["traceEvents"]:
        if event.get("cat") != "kernel" and event.get("args", {}).get("correlation") in lost:
            event["cat"] = "lost"
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document))
    with tracekit.load(bare) as run:
        bounds = [row for row in run.fetch(BOUNDS)[1] if row[0] in known]
    # An operator of several kernels is divided by their times.
    assert [row for row in bounds if any(row[n] > 1.2 * known[row[0]][n - 2] for n in (2, 3))] == []
    assert {source for _, source, *_ in bounds} == {"same place"}
    assert len(bounds) > len(lost) / 3


@pytest.mark.parametrize(("replayed", "known"), [(24, 24), (23, 0)])
def test_another_trace_of_the_model_tells_the_weights_of_a_replay(replayed, known, tmp_path):
    bf16 = ["c10::BFloat16"] * 2
    eager, graph = [step(0, 0, 2500)], [launch(0, 5, 1, "cudaGraphLaunch")]
    for n in range(24):
        dims = [[64, 1024], [1024, 512 + n]]
        eager += [operator("aten::mm", 100 * n, 20, dims, bf16), launch(100 * n + 5, 3, n + 1)]
        eager.append(gpu_op(100 * n + 30, 40, n + 1, name="gemm"))
    graph += [gpu_op(50 + 20 * n, 10, 1, name="gemm") for n in range(replayed)]
    files = [
        traces.write(tmp_path / f"{name}.json", events, **device("NVIDIA A100-SXM4-80GB"))
        for name, events in {"eager": eager, "graph": graph}.items()
    ]
    with tracekit.load(files) as run:
        rows = run.fetch("""
            SELECT flops, weight_bytes FROM op_limit JOIN gpu_ops USING (trace_id, event_id)
            WHERE source = 'other trace' ORDER BY start_ns
        """)[1]
    # One token at least.
    widths = [512 + n for n in range(known)]
    assert rows == [(2 * 1024 * width, 2 * 1024 * width) for width in widths]


def test_another_trace_of_the_model_tells_the_kernels_between_products(tmp_path):
    half = "c10::Half"
    none = "0(sq0sk0sqsq0sqsk0)"
    prefill = f"execute_40_context_1(sq40sk40sqsq1600sqsk1600)_generation_{none}"
    decode = f"execute_4_context_{none}_generation_4(sq4sk90sqsq4sqsk90)"
    eager = [slice_event("user_annotation", prefill, 0, 24000)]
    graph = [
        slice_event("user_annotation", decode, 0, 9000),
        launch(0, 5, 1, "cudaGraphLaunch"),
    ]
    paged = [[40, 2, 8], [99, 1, 8], [99, 1, 8], *[[]] * 12]
    concrete = [""] * 11 + ["0.", "False", "True", "-1", "-1"]
    calls = {
        "norm": ("aiter::rmsnorm", [[40, 16], [40, 16], [16]]),
        "cast": ("aten::copy_", [[40, 16], [40, 16], []]),
        "prefill_attention": ("aiter::mha_batch_prefill", paged),
    }
    for n in range(24):
        at, correlation = 1000 * n, 10 * n + 1
        dims = [[40, 16], [16, 16]]
        eager += [operator("aten::mm", at, 20, dims, [half] * 2), launch(at + 5, 3, correlation)]
        eager.append(gpu_op(at + 30, 40, correlation, name="gemm"))
        for turn, (name, (call, dims)) in enumerate(calls.items(), 1):
            start = at + 100 * turn
            event = operator(call, start, 20, dims, [half] * 16)
            event["args"]["Concrete Inputs"] = concrete[1:] if "mha" in call else []
            eager += [event, launch(start + 5, 3, correlation + turn)]
            eager.append(gpu_op(start + 30, 40, correlation + turn, name=name))
        at = 50 + 200 * n
        kernels = ["gemm", "norm", "cast", "paged_attention", "paged_attention_reduce"]
        # One layer casts twice: which of the two the other trace has is not known.
        kernels += ["cast"] * (n == 5)
        graph += [gpu_op(at + 20 * i, 10, 1, name=name) for i, name in enumerate(kernels)]
    files = [
        traces.write(tmp_path / f"{name}.json", events, **device("NVIDIA A100-SXM4-80GB"))
        for name, events in {"eager": eager, "graph": graph}.items()
    ]
    with tracekit.load(files) as run:
        rows = run.fetch("""
            SELECT name, count(*), min(flops), max(flops), min(l.bytes), max(l.bytes),
                   max(weight_bytes)
            FROM op_limit AS l JOIN gpu_ops USING (trace_id, event_id)
            WHERE source = 'other trace' GROUP BY name ORDER BY name
        """)[1]
    # A tenth of the tokens: 2 of 40 x 16 halves are cast, and a norm reads 16 weights besides. 4
    # queries of 2 heads read 90 keys and values of one head.
    norm, cast = 2 * (2 * 40 * 16 + 16) / 10, 2 * 2 * 40 * 16 / 10
    query, keys = 2 * 4 * 2 * 8, 2 * 90 * 2 * 8
    assert rows == [
        ("cast", 23, 0, 0, cast, cast, 0),
        ("gemm", 24, 2048, 2048, 2 * (2 * 4 * 16 + 256), 2 * (2 * 4 * 16 + 256), 512),
        ("norm", 24, 64, 64, norm, norm, 0),
        ("paged_attention", 24, 5760, 5760, query + keys, query + keys, keys),
        ("paged_attention_reduce", 24, 0, 0, query, query, 0),
    ]


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::mm", [[2 * 10**15, 10**15], [10**15, 3]]),
        ("aten::bmm", [[10**9, 10**9, 10**9], [10**9, 10**9, 10**9]]),
        ("aten::linear", [[10**9, 10**9, 10**9], [10**9, 10**9]]),
        ("aten::_scaled_dot_product_flash_attention", [[2, 4, 10**18, 8 * 10**18]] * 3),
        ("tracekit::act_mul", [[4, 2**61]]),
    ],
)
def test_work_beyond_63_bits_is_unknown(name, dims, tmp_path):
    events = [
        operator(name, 0, 20, dims, ["c10::BFloat16"] * 3), launch(5, 3, 1), gpu_op(30, 40, 1),
        operator("aten::relu", 50, 20, [[8, 16]], ["float"]), launch(55, 3, 2), gpu_op(80, 40, 2),
    ]  # fmt: skip
    with traces.load(tmp_path, events, **device("NVIDIA A100-SXM4-80GB")) as run:
        assert run.fetch("SELECT bytes FROM op_limit WHERE is_exact")[1] == [(1024,)]
        assert run.fetch("SELECT name FROM operator_work")[1] == [("aten::relu",)]


def _node(name, start, dims, sequence):
    event = operator(name, start, 20, dims, ["float"] * len(dims))
    event["args"] |= {"Sequence number": sequence, "Fwd thread id": 1}
    return event | {"tid": 200}


def _joined(name, start, correlation, sequence=None, tid=100):
    call = operator(name, start, 10, [[], []], ["TensorList", "Scalar"])
    if sequence is not None:
        call["args"] |= {"Sequence number": sequence, "Fwd thread id": 0}
    kernel = gpu_op(start + 20, 10, correlation, name="CatArrayBatchedCopy")
    return [call | {"tid": tid}, launch(start + 5, 2, correlation) | {"tid": tid}, kernel]


def test_the_backward_pass_tells_what_a_call_joined(tmp_path):
    # The first call needs no gradient: the node of its sequence number is the second one's.
    events = [
        *_joined("aten::cat", 0, 1, 7), *_joined("aten::cat", 50, 2, 7),
        *_joined("aten::stack", 100, 3, 8), *_joined("aten::cat", 150, 4, 9),
        _node("StackBackward0", 200, [[2, 8, 16]], 8), _node("CatBackward0", 250, [[8, 48]], 7),
        # Parts of 8 x 16 and 8 x 32; of the other split, one part has no gradient.
        _node("SplitWithSizesBackward0", 300, [[8, 16], [8, 32]], 5),
        *_joined("aten::cat", 302, 5, tid=200),
        _node("SplitBackward0", 350, [[8, 16], []], 4), *_joined("aten::cat", 352, 6, tid=200),
    ]  # fmt: skip
    with traces.load(tmp_path, events, **device("NVIDIA A100-SXM4-80GB")) as run:
        rows = run.fetch("""
            SELECT correlation, l.bytes, l.is_exact FROM op_limit AS l
            JOIN gpu_ops USING (trace_id, event_id) ORDER BY 1
        """)[1]
    assert rows == [
        (2, 2 * 4 * 8 * 48, True), (3, 2 * 4 * 2 * 8 * 16, True), (5, 2 * 4 * 8 * 48, True),
        (6, 2 * 4 * 8 * 16, False),
    ]  # fmt: skip


def _tiled(name, start, correlation, kernel, grid, sequence=None, tid=100):
    call = operator(name, start, 10)
    if sequence is not None:
        call["args"] |= {"Sequence number": sequence, "Fwd thread id": 0}
    op = gpu_op(start + 20, 10, correlation, name=kernel)
    op["args"] |= {"grid": grid, "block": [128, 1, 1]}
    return [call | {"tid": tid}, launch(start + 5, 2, correlation) | {"tid": tid}, op]


@pytest.mark.parametrize("sequence", [3, 4])
def test_tiles_of_a_layers_products_tell_their_least_work(sequence, tmp_path):
    # 100 x 300 by 300 x 200: tiles of 128 columns and 64 rows of the result, and so on.
    events = [
        *_tiled("aten::addmm", 0, 1, "volta_sgemm_128x64_tn", [2, 2, 1], 3),
        {
            **_node("autograd::engine::evaluate_function: AddmmBackward0", 100, [], sequence),
            "dur": 90,
        },
        *_tiled("aten::mm", 110, 2, "volta_sgemm_64x32_sliced1x4_nn", [5, 4, 1], tid=200),
        *_tiled("aten::mm", 150, 3, "volta_sgemm_128x128_nt", [3, 2, 4], tid=200),
    ]
    with traces.load(tmp_path, events, **device("NVIDIA A100-SXM4-80GB")) as run:
        rows = run.fetch("""
            SELECT source, flops, l.bytes FROM op_limit AS l
            JOIN gpu_ops USING (trace_id, event_id) ORDER BY correlation
        """)[1]
    # At least: rows of the first product by the second's tiles (3 of 32 and one), and so on.
    m, n, k = 97, 129, 257
    layer = ("layer", 2 * m * n * k, 4 * (m * n + m * k + n * k))
    sides = [(65, 129), (97, 257), (129, 257)]
    outputs = [("outputs", 2 * a * b, 4 * (a * b + a + b)) for a, b in sides]
    assert rows == ([layer] * 3 if sequence == 3 else outputs)


RELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::clamp_min<float>, "
    "at::detail::Array<char*, 2> >()"
)


@pytest.mark.parametrize(("next_name", "is_known"), [("aten::relu_", True), ("aten::mul_", False)])
def test_the_operator_after_a_norm_tells_its_size_and_the_convolutions(
    next_name, is_known, tmp_path
):
    # 10 full blocks of 128 threads and 4 floats each; the count of batches fills none.
    elements = 10 * 512
    node = "autograd::engine::evaluate_function: "
    events = [
        *_tiled("aten::conv2d", 0, 1, "cudnn_infer_conv", [7, 1, 1], 1),
        *_tiled("aten::add_", 50, 2, RELU, [1, 1, 1], 2),
        *_tiled("aten::batch_norm", 100, 3, "cudnn::bn_fw_tr_1C11", [7, 1, 1], 2),
        *_tiled(next_name, 150, 4, RELU, [11, 1, 1], 3),
        {**_node(f"{node}CudnnBatchNormBackward0", 200, [], 2), "dur": 40},
        *_tiled("aten::cudnn_batch_norm_backward", 202, 5, "cudnn::bn_bw", [7, 1, 1], tid=200),
        {**_node(f"{node}ConvolutionBackward0", 250, [], 1), "dur": 90},
        *_tiled("aten::convolution_backward", 252, 6, "dgrad_engine", [7, 1, 1], tid=200),
        *_tiled("aten::convolution_backward", 300, 7, "wgrad_alg0_engine", [7, 1, 1], tid=200),
    ]
    for event in events:
        if "grid" in event["args"]:
            event["args"]["blocks per SM"] = 1
    with traces.load(tmp_path, events, **device("NVIDIA A100-SXM4-80GB")) as run:
        rows = run.fetch("""
            SELECT correlation, l.bytes FROM op_limit AS l JOIN gpu_ops USING (trace_id, event_id)
            WHERE source = 'neighbor' ORDER BY 1
        """)[1]
    floats = {1: 1, 3: 2, 5: 3, 6: 0.5, 7: 0.5} if is_known else {}
    assert rows == [(kernel, each * elements * 4) for kernel, each in floats.items()]
