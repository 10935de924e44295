"""What names mean: in the views' definitions, and in real traces."""

import pytest


@pytest.mark.parametrize(
    ("facet", "column_type"), [("class", "gpu_op_class"), ("activity", "host_activity")]
)
def test_every_meaning_of_a_facet_is_in_its_enumeration(cases_database, facet, column_type):
    meanings, known = cases_database.fetch(
        f"SELECT list(DISTINCT meaning), enum_range(NULL::{column_type})"
        f" FROM spelling WHERE facet = '{facet}'"
    )[1][0]
    assert len(meanings) >= 4
    assert set(meanings) - {"none"} <= set(known)


def kernels(shared_trace, name, where, column="name"):
    run, trace = shared_trace(f"{name}.json.gz")
    asked = f"SELECT DISTINCT {column} FROM kernels WHERE trace_id = {trace} AND {where}"
    return [found for (found,) in run.fetch(asked)[1]]


@pytest.mark.parametrize(
    ("trace", "is_distributed"),
    [
        ("b200-vllm-eager", True),
        ("v100-dlrm-rank0", True),
        ("mi300x-sglang-graph-decode", False),
        ("mi300x-vllm-decode", False),
        ("a100-transformer-batch512", False),
    ],
)
def test_no_other_kernel_of_the_shared_traces_communicates(shared_trace, trace, is_distributed):
    names = kernels(shared_trace, trace, "class = 'communication'")
    assert bool(names) == is_distributed
    assert all("nccl" in name or "multimem_all_reduce" in name for name in names)


def test_classes_of_the_shared_traces(shared_trace):
    for trace, name, kind in (
        ("b200-vllm-eager", "bmm_%", "gemm"),
        ("b200-vllm-eager", "%quantize_with_block_size%", "elementwise"),
        ("b200-vllm-eager", "%moe::dev::routing%", "reduction"),
        ("mi300x-resnet-checkpoint", "igemm_%", "convolution"),
        ("a100-alexnet", "%scudnn%", "convolution"),
        ("v100-dlrm-rank0", "%embedding%codegen%", "copy"),
        ("mi300x-sglang-graph-decode", "%kv_indices%", "copy"),
    ):
        found = kernels(shared_trace, trace, f"name LIKE '{name}'", "class")
        assert found in ([], [kind]), (trace, name)


def test_the_shared_alexnet_draws_its_weights_on_the_host(shared_trace):
    run, trace = shared_trace("a100-alexnet.json.gz")
    ((activity, ns),) = run.fetch(f"""
        SELECT activity, sum(s.end_ns - s.start_ns)::BIGINT FROM host_segment AS s
        JOIN cpu_ops USING (trace_id, event_id)
        WHERE trace_id = {trace} AND name = 'aten::uniform_' AND dur_ns > 1e6 GROUP BY ALL
    """)[1]
    assert activity == "input"
    assert ns > 400_000_000
