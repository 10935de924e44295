-- question: Which attention is written as products and softmax, although one fused kernel could do it all?
-- title: Use fused attention (scaled_dot_product_attention)
-- causes: memory-bandwidth, math, launch
-- when: work = 'softmax'
-- needs: Attention weights that are not used elsewhere, and a mask that the fused kernels take; for flash
--     attention fp16 or bf16.
-- caveat: Only the forward pass on the device is counted: the backward pass and the launches gain too.
--     Without shapes, the products are taken to stay as they are.
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
--     writing the output, at the share of the roofs that the products reach now
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
WITH known AS (SELECT * FROM attention_part WHERE NOT is_fallback AND is_asked(trace_id)),
-- Without shapes: what runs between two batched products, if it is a softmax and elementwise work.
part AS (
    SELECT *, cpu_op IN ('aten::bmm', 'aten::baddbmm') AS is_product,
           is_product IS TRUE OR cpu_op IS DISTINCT FROM 'aten::_softmax'
               AND class NOT IN ('elementwise', 'copy', 'memcpy', 'memset') AS is_border,
           count(*) FILTER (is_border) OVER (PARTITION BY trace_id, device_id, stream
               ORDER BY start_ns, event_id) AS run
    FROM gpu_op_module WHERE is_asked(trace_id) AND trace_id NOT IN (SELECT trace_id FROM operator_work)
),
run AS (
    SELECT *, lead(begins) OVER (PARTITION BY trace_id, device_id, stream ORDER BY run) AS ends FROM (
        SELECT trace_id, device_id, stream, run, bool_or(is_product) AS begins,
               bool_or(cpu_op = 'aten::_softmax') AS has_softmax
        FROM part GROUP BY ALL)
),
op AS (
    SELECT trace_id, event_id, told, gpu_op_id, start_ns, dur_ns, factor, 'op' AS target, dur_ns AS ns
    FROM known
    UNION ALL BY NAME
    SELECT trace_id, launch_id AS event_id, 'at least, since shapes were not recorded' AS told,
           event_id AS gpu_op_id, start_ns, dur_ns, 0 AS factor, 'op' AS target, dur_ns AS ns
    FROM part JOIN run USING (trace_id, device_id, stream, run)
    WHERE has_softmax AND begins AND ends AND NOT is_border
)
FROM changed_ops('op')
