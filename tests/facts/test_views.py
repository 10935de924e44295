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


def test_former_names_are_the_same_rows(cases_database):
    for former, name in (("gpu_op_link", "gpu_op_launch"), ("gpu_op_host", "launch_site")):
        rows = cases_database.fetch(f"FROM {name} ORDER BY ALL")
        assert rows[1]
        assert cases_database.fetch(f"FROM {former} ORDER BY ALL") == rows
    differing = "SELECT count(*) FROM launches WHERE activity <> launched_kind"
    assert cases_database.fetch(differing)[1] == [(0,)]


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
def test_no_other_kernel_of_the_shared_traces_communicates(shared_database, trace, is_distributed):
    run = shared_database(f"{trace}.json.gz")
    query = "SELECT DISTINCT name FROM kernels WHERE class = 'communication'"
    names = [name for (name,) in run.fetch(query)[1]]
    assert bool(names) == is_distributed
    assert all("nccl" in name or "multimem_all_reduce" in name for name in names)


def test_classes_of_the_shared_traces(shared_database):
    kinds = {
        ("b200-vllm-eager", "bmm_%"): "gemm",
        ("b200-vllm-eager", "%quantize_with_block_size%"): "elementwise",
        ("b200-vllm-eager", "%moe::dev::routing%"): "reduction",
        ("mi300x-resnet-checkpoint", "igemm_%"): "convolution",
        ("a100-alexnet", "%scudnn%"): "convolution",
        ("v100-dlrm-rank0", "%embedding%codegen%"): "copy",
        ("mi300x-sglang-graph-decode", "%kv_indices%"): "copy",
    }
    for (trace, name), kind in kinds.items():
        run = shared_database(f"{trace}.json.gz")
        query = f"SELECT DISTINCT class FROM kernels WHERE name LIKE '{name}'"
        assert run.fetch(query)[1] in ([], [(kind,)]), (trace, name)


def test_the_shared_alexnet_draws_its_weights_on_the_host(shared_database):
    query = """
        SELECT activity, sum(s.end_ns - s.start_ns)::BIGINT FROM host_segment AS s
        JOIN cpu_ops USING (trace_id, event_id) WHERE name = 'aten::uniform_' AND dur_ns > 1e6
        GROUP BY ALL
    """
    ((activity, ns),) = shared_database("a100-alexnet.json.gz").fetch(query)[1]
    assert activity == "input"
    assert ns > 400_000_000
