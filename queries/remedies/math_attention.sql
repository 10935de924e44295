-- question: Where did scaled_dot_product_attention take its math backend, or a slow fused one?
-- title: Let attention take its fastest backend
-- causes: memory-bandwidth, math, launch
-- when: work LIKE 'attention%'
-- effort: low
-- needs: A dtype, mask, dropout and head size that a fused backend takes.
-- caveat: Of the math backend, only the forward pass on the device is counted: the backward pass and the
--     launches gain too. Flash attention is assumed to take half of the memory-efficient kernel's time.
-- blind: no_shapes, unknown_device
-- before:
--     # fp64, a mask that needs a gradient, heads of different sizes ...
--     output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
-- after:
--     q, k, v = (each.to(torch.bfloat16) for each in (q, k, v))
--     with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):   # or says why not
--         output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
-- risks: Sums are taken in another order and fp16 or bf16 is less exact: compare outputs. A backend that is
--     the only one allowed raises an error if it cannot run.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp
-- column detail (text): the backend, and why fused ones do not run, by the inputs: flash attention takes fp16
--     and bf16, equal head sizes and no mask; the memory-efficient backend fp32 and masks, too
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
WITH found AS (
    SELECT *, 'op' AS target, dur_ns AS ns, shapes_of(given_dims) AS d, texts_of(given_types) AS t
    FROM attention_part WHERE is_fallback AND is_asked(trace_id)
),
math AS (
    SELECT * REPLACE ('math: ' || coalesce(nullif(concat_ws(', ',
        CASE WHEN peak_name(t[1]) IN ('fp16', 'bf16') THEN NULL ELSE peak_name(t[1]) END,
        CASE WHEN len(d[4]) > 0 THEN 'a mask' END,
        CASE WHEN d[1][-1] <> d[3][-1] THEN 'heads of ' || d[1][-1] || ' and ' || d[3][-1] END,
        CASE WHEN d[1][2] <> d[2][2] THEN 'fewer heads of keys' END), ''),
        'flash attention takes these inputs') AS told)
    FROM found
),
-- Inputs that flash attention takes (can_use_flash_attention in sdp_utils.cpp), on a device with bf16.
efficient AS (
    SELECT *, CASE WHEN kind = 'attention_backward_bshd' THEN 2 ELSE 1 END AS q_at, shapes_of(dims) AS d
    FROM all_work WHERE contains(name, '_efficient_attention_') AND peak IN ('fp16', 'bf16')
        AND is_asked(trace_id) AND len(coalesce(d[q_at + 3], [])) = 0
        AND d[q_at][-1] <= thresholds().flash_head AND d[q_at][-1] % 8 = 0 AND d[q_at][-1] = d[q_at + 2][-1]
        AND (trace_id, device_id) IN (SELECT (trace_id, device_id) FROM device_peaks
            WHERE flop_per_s['bf16'] IS NOT NULL)
),
op AS (
    SELECT trace_id, event_id, told, gpu_op_id, target, start_ns, dur_ns, ns, factor FROM math
    UNION ALL BY NAME
    SELECT e.trace_id, e.event_id, 'op' AS target, g.event_id AS gpu_op_id, g.start_ns, g.dur_ns,
           g.dur_ns AS ns, thresholds().half_share AS factor,
           'memory-efficient, where flash attention could run: half of its time is assumed' AS told
    FROM (SELECT *, unnest(gpu_op_ids) AS gpu_op_id FROM efficient) AS e
    JOIN gpu_ops AS g ON e.trace_id = g.trace_id AND e.gpu_op_id = g.event_id
)
FROM changed_ops('op')
