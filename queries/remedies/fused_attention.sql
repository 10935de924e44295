-- question: Which attention is written as products and softmax, although one fused kernel could do it all?
-- since: 0.1
-- title: Use scaled_dot_product_attention
-- causes: memory-bandwidth, math, launch
-- when: work = 'softmax'
-- less_work: true
-- needs: Attention weights that are not used elsewhere, and a mask that the fused kernels take; for flash
--     attention fp16 or bf16.
-- caveat: The first product's operator stands for the call that replaces all of them. In the backward pass,
--     and without shapes, the products are taken to stay as they are.
-- blind: unknown_device
-- before:
--     scores = q @ k.transpose(-2, -1) * scale
--     weights = F.dropout(scores.softmax(dim=-1), p)
--     output = weights @ v
-- after:
--     output = F.scaled_dot_product_attention(q, k, v, dropout_p=p, scale=scale)
--
--     # Hugging Face: attn_implementation="sdpa"; nn.MultiheadAttention: need_weights=False
-- risks: Sums are taken in another order, so results differ in the last bits. With an arbitrary mask or in
--     fp32, PyTorch takes a slower fused kernel or separate products; torch.nn.attention.sdpa_kernel
--     forbids that.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://arxiv.org/abs/2205.14135
-- column factor (fraction of the time taken): both products' FLOPs, or reading query, key and value and
--     writing the output, at the share of the roofs that the products reach now; 0 for the host's work on all
--     operators but the first one
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
WITH known AS (SELECT * FROM attention_part WHERE NOT is_fallback AND is_asked(trace_id)),
-- In the backward pass, and without shapes: what runs between two batched products, if it is a softmax, or
-- its gradient, and elementwise work.
part AS (
    SELECT *, cpu_op IN ('aten::bmm', 'aten::baddbmm') AS is_product,
           coalesce(cpu_op IN ('aten::_softmax', 'aten::_softmax_backward_data'), FALSE) AS is_softmax,
           is_product IS TRUE OR NOT is_softmax
               AND class NOT IN ('elementwise', 'copy', 'memcpy', 'memset') AS is_border,
           count_if(is_border IS TRUE) OVER (PARTITION BY trace_id, device_id, stream
               ORDER BY start_ns, event_id) AS run
    FROM gpu_op_module
    LEFT JOIN (SELECT trace_id, mode(told ORDER BY told) AS told FROM known GROUP BY trace_id)
        USING (trace_id)
    WHERE is_asked(trace_id) AND (told NOT NULL OR trace_id NOT IN (SELECT trace_id FROM operator_work))
),
run AS (
    SELECT *, lead(begins) OVER (PARTITION BY trace_id, device_id, stream ORDER BY run) AS ends FROM (
        SELECT trace_id, device_id, stream, run, bool_or(is_product) AS begins,
               bool_or(is_softmax AND (told IS NULL OR cpu_op <> 'aten::_softmax')) AS has_softmax
        FROM part GROUP BY ALL)
),
op AS (
    SELECT trace_id, event_id, told, gpu_op_id, start_ns, dur_ns, factor, 'op' AS target, dur_ns AS ns
    FROM known
    UNION ALL BY NAME
    SELECT trace_id, launch_id AS event_id,
           coalesce(told, 'at least, since shapes were not recorded') AS told,
           event_id AS gpu_op_id, start_ns, dur_ns, 0 AS factor, 'op' AS target, dur_ns AS ns
    FROM part JOIN run USING (trace_id, device_id, stream, run)
    WHERE has_softmax AND begins AND ends AND NOT is_border
),
-- An operator that calls others, such as aten::matmul, goes with them; a compiled region stays.
call AS (
    SELECT k.trace_id, k.op_id, c.place, k.told, h.outer_op_id AS event_id, s.pid, s.tid, s.ts_ns AS start_ns,
           s.ts_ns + s.dur_ns AS end_ns
    FROM known AS k JOIN gpu_ops AS g ON k.trace_id = g.trace_id AND k.gpu_op_id = g.event_id
    JOIN thread_slice AS h ON g.trace_id = h.trace_id AND g.launch_id = h.event_id
    JOIN event_row AS s ON h.trace_id = s.trace_id AND h.outer_op_id = s.event_id
    JOIN slice_label AS l ON s.label_id = l.label_id AND starts_with(l.name, 'aten::')
    LEFT JOIN call_site AS c ON h.trace_id = c.trace_id AND h.event_id = c.event_id
)
FROM changed_ops('op')
UNION ALL
-- The first product's call stands for the fused one.
SELECT trace_id, place, told, 'host', event_id, pid, tid, start_ns, end_ns - start_ns, 0
FROM call
QUALIFY row_number() OVER (PARTITION BY trace_id, event_id) = 1
    AND start_ns > min(start_ns) OVER (PARTITION BY trace_id, op_id)
