-- question: Which matrix products run in slow kernels because their sizes are unaligned, and could be padded?
-- since: 0.1
-- title: Pad products to sizes for tensor cores
-- causes: math
-- when: has(traits, 'unaligned')
-- effort: medium
-- needs: Sizes that the program can choose: vocabulary, features, channels, sequence length.
-- caveat: The padded product is assumed to run as fast as the nearest aligned one in this trace.
-- blind: no_shapes
-- before:
--     head = nn.Linear(768, 50257)
-- after:
--     vocabulary = -(-50257 // 64) * 64                  # 50304
--     head = nn.Linear(768, vocabulary)
--     logits = head(x)[..., :50257]                      # or mask the padding in the loss
-- risks: Padded columns must not count: mask them in softmax and loss. A saved model has other shapes.
--     Multiples of 64 are better still than 8 (16 bits) or 4 (TF32), where they cost little.
-- check: tracekit query after.json roofline; tracekit diff before.json after.json
-- sources: https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
--     https://developer.nvidia.com/blog/optimizing-gpu-performance-tensor-cores/
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, no_stacks
-- Kernels of CUTLASS and cuBLAS say in their names how many elements are aligned: align1, align2, align8.
WITH product AS (
    SELECT *, list_transform([m, k, n], lambda size: (size + unit - 1) // unit * unit) AS padded,
           padded[1] AS m_padded, padded[2] AS k_padded, padded[3] AS n_padded,
           m = m_padded AND k = k_padded AND n = n_padded AS is_aligned
    FROM products WHERE peak IN ('tf32', 'bf16', 'fp16')
),
kernel AS (
    SELECT p.* EXCLUDE start_ns, g.event_id AS gpu_op_id, g.start_ns, g.dur_ns,
           g.name IN (SELECT name FROM gpu_op_name WHERE has(traits, 'unaligned')) AS is_unaligned
    FROM (SELECT *, unnest(gpu_op_ids) AS op_id FROM product) AS p
    JOIN gpu_ops AS g ON p.trace_id = g.trace_id AND p.op_id = g.event_id
    WHERE g.class = 'gemm'
),
padded AS (FROM kernel WHERE is_unaligned AND NOT is_aligned),
aligned AS (
    SELECT trace_id, device_id, peak, is_batched, batch, m, k, n, sum(flops) / sum(dur_ns) AS flop_per_ns
    FROM kernel WHERE is_aligned GROUP BY ALL HAVING NOT bool_or(is_unaligned)
),
-- The aligned product nearest to each unaligned shape.
shape AS (
    SELECT DISTINCT trace_id, device_id, peak, is_batched, batch, m_padded, k_padded, n_padded FROM padded
),
compared AS (
    SELECT s.*, flop_per_ns,
           list_max(list_transform(
               [a.batch / s.batch, a.m / m_padded, a.k / k_padded, a.n / n_padded],
               lambda each: greatest(each, 1 / each)
           )) AS ratio
    FROM shape AS s JOIN aligned AS a USING (trace_id, device_id, peak, is_batched)
),
near AS (
    SELECT * EXCLUDE (flop_per_ns, ratio), arg_min(flop_per_ns, (ratio, flop_per_ns)) AS flop_per_ns
    FROM compared WHERE ratio <= thresholds().near_size GROUP BY ALL
),
priced AS (
    SELECT p.trace_id, p.event_id, 'op' AS target, gpu_op_id, start_ns, dur_ns,
           a::VARCHAR || ' by ' || b::VARCHAR || ', to multiples of ' || unit AS told,
           2 * p.batch * m_padded * k_padded * n_padded / flop_per_ns / dur_ns AS factor,
           dur_ns * (1 - factor) AS ns
    FROM padded AS p JOIN near
        USING (trace_id, device_id, peak, is_batched, batch, m_padded, k_padded, n_padded)
    WHERE factor < 1
)
FROM changed_ops('priced')
