-- fact: An operator with its work.
-- needs: matrix_work, template_work, convolution_work, attention_work, tensor_work, moved_work, triton_work,
--     pooled_work, indexed_work, bag_work, expert_work, gathered_work, listed_work, joined_work, routed_work,
--     paged_work
-- of: operator_call, operator_input
-- FLOPs (a multiply-add is two) and bytes that must be read and written at least once, from the shapes and
-- types of the inputs.
-- Matrix products and convolutions count as torch.utils.flop_counter does
-- (https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py). Attention is its two products,
-- halved if it is causal; its backward pass is 2.5 times that (FlashAttention-2,
-- https://arxiv.org/abs/2307.08691, section 4.1). Elementwise work and reductions count one operation per
-- element, softmax 5, normalization 8, twice that backward: a convention without effect on the limit, which
-- is bytes.
CREATE TABLE operator_work (
    trace_id INTEGER, event_id BIGINT, -- the operator's event
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    kind          VARCHAR, -- of work
    dims JSON, types JSON,
    is_matrix     BOOLEAN, -- it runs on the units for matrix products
    peak          VARCHAR, -- the number format whose peak applies
    flops         DOUBLE,  -- a multiply-add is two
    read_bytes    BIGINT,  -- at least
    written_bytes BIGINT,  -- at least
    weight_bytes  BIGINT,  -- the part of read_bytes that is weights and caches of the model
    is_exact      BOOLEAN  -- by shapes alone; else something is assumed
);
-- Empty tensors give no work, and neither do shapes whose bytes exceed 63 bits.
WITH work AS (
    SELECT c.*, is_matrix, type, flops, read, written, weights, is_exact
    FROM _scratch.operator_call AS c JOIN _scratch.input_work AS w
      ON c.name = w.name AND c.dims = w.dims AND c.types IS NOT DISTINCT FROM w.types
        AND c.concrete IS NOT DISTINCT FROM w.concrete
    UNION ALL
    SELECT c.*, is_matrix, type, flops, read, written, weights, is_exact
    FROM _scratch.operator_call AS c JOIN _scratch.call_work AS w USING (trace_id, event_id)
)
SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns, kind, dims, types, is_matrix,
       peak_name(type) AS peak, flops, TRY_CAST(read AS BIGINT) AS read_bytes,
       TRY_CAST(written AS BIGINT) AS written_bytes,
       coalesce(TRY_CAST(weights AS BIGINT), 0) AS weight_bytes, is_exact
FROM work WHERE isfinite(flops) AND TRY_CAST(read + written AS BIGINT) IS NOT NULL
