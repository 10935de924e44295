-- question: Where did attention take the math backend, or a fused kernel far slower than it could be?
-- since: 0.1
-- title: Let attention take its fastest backend
-- causes: memory-bandwidth, math, launch
-- when: work LIKE 'attention%'
-- less_work: true
-- needs: A dtype, mask, dropout and head size that a fused backend takes.
-- caveat: Of the math backend, only the forward pass on the device is counted: the backward pass and the
--     launches gain too. Flash attention is assumed to take half of the memory-efficient kernel's time, and
--     the fastest kernel to reach most of what products of this trace reach, or, with few queries or keys,
--     what other work does.
-- blind: no_shapes, unknown_device
-- before:
--     # fp64, a mask that needs a gradient, heads of different sizes ...
--     output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
-- after:
--     q, k, v = (each.to(torch.bfloat16) for each in (q, k, v))
--     with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):   # or says why not
--         output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
--     # Hopper: SDPBackend.CUDNN_ATTENTION, FlashAttention-3; AMD: Composable Kernel or aiter
--     # A few queries or keys: products that torch.compile fuses, since fused kernels pad them to tiles
-- risks: Sums are taken in another order and fp16 or bf16 is less exact: compare outputs. A backend that is
--     the only one allowed raises an error if it cannot run.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp
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
forward AS MATERIALIZED (
    SELECT w.*, shapes_of(dims) AS d, d[1] AS q, if(contains(kind, 'bshd'), 2, 3) AS axis, q[axis] AS queries,
           d[2][axis] AS keys,
           flops * 1e9 / peak_of(flop_per_s, peak, TRUE) AS math_ns, read_bytes + written_bytes AS bytes,
           bytes * 1e9 / memory_bytes_per_s AS memory_ns, flop_per_s['bf16'] IS NOT NULL AS has_flash
    FROM all_work AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE kind IN ('attention', 'attention_bshd') AND is_asked(w.trace_id) AND is_kernels
),
product AS (
    SELECT p.trace_id, p.device_id, peak, flops, sum(flops) / sum(busy_ns) AS flop_per_ns
    FROM products AS p GROUP BY ALL
),
priced AS (
    SELECT trace_id, event_id, gpu_op_ids, thresholds().half_share AS factor,
           'memory-efficient, where flash attention could run: half of its time is assumed' AS told
    FROM forward
    -- Inputs that flash attention takes: can_use_flash_attention in sdp_utils.cpp.
    WHERE has_flash AND contains(name, '_efficient_attention_') AND peak IN ('fp16', 'bf16')
        AND len(coalesce(d[4], [])) = 0 AND q[4] = d[3][4] AND q[4] <= thresholds().flash_head
        AND q[4] % 8 = 0
    UNION ALL
    SELECT f.trace_id, event_id, gpu_op_ids,
           f.flops / busy_ns / max(flop_per_ns) / thresholds().attention_rate AS factor,
           format('{:.0f} TFLOP/s, products of this trace reach {:.0f}', f.flops / busy_ns / 1e3,
               max(flop_per_ns) / 1e3)
    FROM forward AS f JOIN product AS p ON f.trace_id = p.trace_id AND f.device_id = p.device_id
        AND f.peak = p.peak AND p.flops <= f.flops
    WHERE math_ns > memory_ns GROUP BY f.trace_id, event_id, gpu_op_ids, f.flops, busy_ns
    HAVING factor * thresholds().attention_rate <= thresholds().slow_attention
    UNION ALL
    SELECT f.trace_id, event_id, gpu_op_ids, memory_ns / busy_ns / max(reached) AS factor,
           format('{} queries of {} keys: {:.0f} % of the bandwidth, other work reaches {:.0f} %',
               queries, keys, 100 * memory_ns / busy_ns, 100 * max(reached))
    FROM forward AS f JOIN memory_rates AS r ON f.trace_id = r.trace_id AND f.device_id = r.device_id
        AND r.bytes <= f.bytes AND r.bytes * thresholds().near_size >= f.bytes
        AND reached >= thresholds().half_share
    WHERE math_ns <= thresholds().half_share * memory_ns
        AND least(queries, keys) < thresholds().attention_tile
    GROUP BY f.trace_id, event_id, gpu_op_ids, memory_ns, busy_ns, queries, keys
    HAVING factor <= thresholds().half_share
),
op AS (
    SELECT trace_id, event_id, told, gpu_op_id, target, start_ns, dur_ns, ns, factor FROM math
    UNION ALL BY NAME
    SELECT e.trace_id, e.event_id, 'op' AS target, gpu_op_id, g.start_ns, g.dur_ns, g.dur_ns AS ns,
           factor, told
    FROM (SELECT *, unnest(gpu_op_ids) AS gpu_op_id FROM priced) AS e
    JOIN gpu_ops AS g ON e.trace_id = g.trace_id AND e.gpu_op_id = g.event_id
    QUALIFY row_number() OVER (PARTITION BY e.trace_id, gpu_op_id ORDER BY factor) = 1
)
FROM changed_ops('op')
