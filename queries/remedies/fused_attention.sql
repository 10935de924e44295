-- question: Which attention is written as products and softmax, where one fused kernel could do all?
-- title: Use fused attention (scaled_dot_product_attention)
-- causes: memory-bandwidth, math, launch
-- when: work = 'softmax'
-- effort: low
-- needs: Attention weights that are not used elsewhere, and a mask that the fused kernels take; for flash
--     attention fp16 or bf16.
-- caveat: Only the forward pass on the device is counted: the backward pass and the launches gain too.
-- blind: no_shapes, unknown_device
-- before:
--     scores = q @ k.transpose(-2, -1) * scale
--     weights = F.dropout(scores.softmax(dim=-1), p)
--     output = weights @ v
-- after:
--     output = F.scaled_dot_product_attention(q, k, v, dropout_p=p, scale=scale)
--
--     # Hugging Face: attn_implementation="sdpa"; nn.MultiheadAttention: need_weights=False
-- risks: Sums are taken in another order, so results differ in the last bits. With an arbitrary mask or in
--     fp32, PyTorch takes a slower fused kernel, or the products again: torch.nn.attention.sdpa_kernel
--     forbids that.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://arxiv.org/abs/2205.14135
-- column detail (text): the shape of the scores
-- column event_id (id): a GPU op of the products, of the softmax, or of what works on the scores between them
-- column factor (fraction of the time taken): what is left: both products' FLOPs, or reading query, key and
--     value and writing the output, at the share of the roofs that the products reach now
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
-- On one stream: a batched product, a softmax of its result, a batched product with the softmax's result.
WITH work AS MATERIALIZED (
    SELECT *, shapes_of(dims) AS d FROM operator_time
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
        AND kind IN ('bmm', 'baddbmm', 'softmax', 'elementwise', 'comparison', 'copy')
        AND name NOT IN ('aten::log_softmax', 'aten::_log_softmax')
),
product AS MATERIALIZED (
    SELECT trace_id, event_id, w.device_id, stream, first_ns, busy_ns,
           CASE kind WHEN 'bmm' THEN d[1] ELSE d[2] END AS a,
           CASE kind WHEN 'bmm' THEN d[2] ELSE d[3] END AS b,
           a[1] * a[2] * b[3] AS made, elements(a) AS taken, elements(b) AS other,
           (read_bytes + written_bytes) / (elements(a) + elements(b) + made) AS bytes_each,
           math_roof_ns(flops, flop_per_s, peak, TRUE) AS math_ns,
           greatest(math_ns, memory_roof_ns(read_bytes + written_bytes, memory_bytes_per_s)) AS roof_ns,
           memory_bytes_per_s
    FROM work AS w JOIN device_peaks USING (trace_id, device_id) WHERE is_matrix
),
softmax AS (
    SELECT trace_id, event_id, device_id, stream, first_ns, d[1] AS shape, elements(d[1]) AS scores
    FROM work WHERE kind = 'softmax' AND len(d[1]) >= 2
),
triple AS (
    SELECT s.trace_id, s.event_id, s.device_id, s.stream, s.shape, s.scores, q.first_ns AS from_ns,
           v.first_ns AS to_ns, q.math_ns + v.math_ns AS math_ns,
           least(1, (q.roof_ns + v.roof_ns) / (q.busy_ns + v.busy_ns)) AS reached,
           memory_roof_ns(q.bytes_each * (q.taken + q.other) + v.bytes_each * (v.other + v.made),
               q.memory_bytes_per_s) AS memory_ns,
           q.event_id AS q_id, v.event_id AS v_id
    FROM softmax AS s
    ASOF JOIN product AS q ON s.trace_id = q.trace_id AND s.device_id = q.device_id AND s.stream = q.stream
        AND s.scores = q.made AND s.shape[-1] = q.b[3] AND s.first_ns > q.first_ns
    ASOF JOIN product AS v ON s.trace_id = v.trace_id AND s.device_id = v.device_id AND s.stream = v.stream
        AND s.scores = v.taken AND s.shape[-1] = v.a[3] AND s.first_ns < v.first_ns
    -- Each product belongs to the softmax next to it.
    QUALIFY row_number() OVER (PARTITION BY s.trace_id, q.event_id ORDER BY s.first_ns) = 1
        AND row_number() OVER (PARTITION BY s.trace_id, v.event_id ORDER BY s.first_ns DESC) = 1
),
part AS (
    SELECT t.*, w.busy_ns, w.gpu_op_ids
    FROM triple AS t JOIN work AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id
        AND t.stream = w.stream AND w.first_ns BETWEEN from_ns AND to_ns
    WHERE w.event_id IN (q_id, v_id)
        OR (NOT is_matrix AND list_contains(list_transform(d, lambda each: elements(each)), scores))
),
priced AS (
    SELECT trace_id, event_id, 'scores ' || shape::VARCHAR AS told, unnest(gpu_op_ids) AS gpu_op_id,
           greatest(math_ns, memory_ns) / reached
               / sum(busy_ns) OVER (PARTITION BY trace_id, event_id) AS factor
    FROM part
),
op AS (
    SELECT p.*, 'op' AS target, g.start_ns, g.dur_ns, g.dur_ns AS ns
    FROM priced AS p JOIN gpu_ops AS g ON p.trace_id = g.trace_id AND p.gpu_op_id = g.event_id
    WHERE factor < 1
)
FROM changed_ops('op') ORDER BY trace_id, place, start_ns
