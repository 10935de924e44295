-- fact: The least work of kernels in a server's graph, by the residual stream that all layers add to.
-- into: kernel_bound
-- needs: slice_label, operator_time, replayed_work, device_peaks
-- of: unworked_kernel, server_step
-- when: has(traits, 'adds_residual')
-- scope: all
-- The norms that add work on rows of one width, one for each of the step's tokens: two are read, and their
-- sum is written. The width is that of the input of the product behind the last of them, if its shape is
-- known; else it is more than half of what a block of AITER's norm holds, which is the smallest of a few.
-- A product right behind such a norm reads the tokens, and so does the first of the experts' behind a router;
-- one right before it writes what the norm adds. The only product between a norm and attention writes
-- queries, keys and values, and the one behind attention reads as much as there are queries. Attention's
-- shapes tell their sizes, or its template arguments and the rows that SGLang stores; the step's name tells
-- the keys, which requests do not share. The last product of the graph writes the logits that the first
-- operator behind it reads.
-- https://github.com/ROCm/aiter/blob/main/csrc/kernels/rmsnorm_quant_kernels.cu (n <= 2048, n <= 4096 ...)
-- https://github.com/ROCm/aiter/blob/main/csrc/kernels/attention_ragged.cu (GQA_RATIO; there is no window)
-- https://github.com/sgl-project/sglang/blob/main/python/sglang/jit_kernel/csrc/elementwise/kvcache.cuh
-- Steps are left out whose ranks exchange tokens instead of summing up: each of them has fewer. So are those
-- with a kernel too short to read its weights or keys, as names are at the wrong places there.
WITH label AS (
    SELECT label_id, format, CASE WHEN has(traits, 'adds_residual') THEN 'norm'
               WHEN class = 'gemm' AND expert IS DISTINCT FROM 'routing' THEN 'gemm'
               WHEN class = 'attention' THEN 'attention' END AS part,
           coalesce(expert = 'experts', FALSE) AS is_expert, class IN ('copy', 'elementwise') AS converts,
           class = 'communication' AND NOT regexp_matches(name, '(?i)all_?reduce|cross_device_reduce')
               AS exchanges,
           -- Bytes of an element that is read; of experts' weights it may be less.
           CASE WHEN format IN ('bf16', 'fp16') OR regexp_matches(name, '(?i)DF16|bf16x|bfloat16|half') THEN 2
               WHEN format IN ('fp8', 'int8') THEN 1 ELSE 1 / 2 END AS size,
           list_product(list_transform(regexp_extract_all(regexp_extract(name,
               'add_rmsnorm_quant_kernel\w*?(Li\d+ELi\d+E)', 1), '\d+'),
               lambda n: TRY_CAST(n AS DOUBLE))) AS held,
           TRY_CAST(regexp_extract(name, '\bstore_kvcache<(\d+)l, \d, ', 1) AS DOUBLE) AS row_bytes,
           -- Of queries, keys and values in 2 bytes.
           TRY_CAST(regexp_extract(name, 'paged_attention_ll4mi_QKV_mfma16_kernel<\d+, (?:__hip_bfloat16, '
               || '__hip_bfloat16|_Float16, _Float16), [^,]+, \d+, \d+, \d+, \w+, (\d+), \d+, '
               || 'ck_tile::ComposedAttention<', 1) AS DOUBLE) AS ratio,
           contains(name, 'paged_attention_ll4mi_reduce_kernel<') AS merges
    FROM slice_label WHERE kind = 'kernel'
),
launch AS MATERIALIZED (
    SELECT l.*, g.trace_id, s.event_id AS step_id, g.event_id, g.device_id, g.stream, g.start_ns, g.dur_ns,
           is_graph, prefill_tokens + decode_tokens AS tokens, decode_tokens,
           TRY_CAST(regexp_extract(s.name, '_generation_\d+\(sq\d+sk(\d+)', 1) AS DOUBLE) AS keys
    FROM gpu_ops AS g ASOF JOIN server_step AS s
      ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.start_ns
    JOIN label AS l USING (label_id) WHERE g.kind = 'kernel' AND g.launch_start_ns < s.end_ns
),
-- `is_last` if the rest of the graph only converts, `is_inside` if another norm follows.
placed AS MATERIALIZED (
    SELECT *, lag(part) OVER in_turn AS before, lag(part, 2) OVER in_turn AS second_before,
           lag(is_expert) OVER in_turn AS behind_expert, lead(part) OVER in_turn AS after,
           max(start_ns) FILTER (part = 'norm') OVER (PARTITION BY trace_id, step_id) > start_ns AS is_inside
    FROM (
        SELECT *, count_if(is_graph AND NOT converts) OVER (
                   PARTITION BY trace_id, device_id, stream, step_id ORDER BY start_ns, event_id
                   ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) = 0 AS is_last
        FROM launch)
    WHERE part IS NOT NULL
    WINDOW in_turn AS (PARTITION BY trace_id, device_id, stream, step_id ORDER BY start_ns, event_id)
),
head AS (
    SELECT p.trace_id, p.step_id, min(k) AS width
    FROM placed AS p JOIN (SELECT trace_id, gpu_op_ids[1] AS event_id, k FROM products) AS k
      USING (trace_id, event_id)
    WHERE before = 'norm' AND NOT is_inside GROUP BY ALL
),
attended AS (
    SELECT p.trace_id, p.step_id, min(d[1][2]::DOUBLE * d[1][3]) AS queries,
           min(d[2][2]::DOUBLE * d[2][3] + d[3][2]::DOUBLE * d[3][3]) AS others
    FROM placed AS p JOIN (SELECT trace_id, gpu_op_ids[1] AS event_id, shapes_of(dims) AS d FROM all_work
        WHERE kind = 'paged_attention') AS w USING (trace_id, event_id)
    GROUP BY ALL
),
step AS (
    SELECT s.*, coalesce(h.width, s.least) AS width, coalesce(a.queries, s.ratio * s.stored / 2) AS queries,
           coalesce(a.queries + a.others, s.ratio * s.stored / 2 + s.stored) AS heads
    FROM (SELECT trace_id, step_id, any_value(tokens)::DOUBLE AS tokens, any_value(keys) AS keys,
              any_value(decode_tokens)::DOUBLE AS decoded, min(row_bytes) AS stored, min(ratio) AS ratio,
              min(held) FILTER (part = 'norm' AND held >= thresholds().norm_block) / 2 + 1 AS least
          FROM launch GROUP BY ALL HAVING any_value(tokens) > 0 AND NOT bool_or(exchanges)) AS s
    LEFT JOIN head AS h USING (trace_id, step_id) LEFT JOIN attended AS a USING (trace_id, step_id)
    WHERE coalesce(h.width, s.least) > 0
),
logits AS (
    SELECT p.trace_id, p.event_id, d[1][1] AS rows, d[1][2] AS outputs
    FROM placed AS p ASOF JOIN (SELECT trace_id, device_id, stream, first_ns, shapes_of(dims) AS d,
            texts_of(types)[1] AS type FROM operator_time WHERE kind IN ('reduction', 'softmax')) AS w
      ON p.trace_id = w.trace_id AND p.device_id = w.device_id AND p.stream = w.stream
        AND p.start_ns < w.first_ns
    WHERE part = 'gemm' AND before = 'norm' AND is_last AND len(d[1]) = 2 AND peak_name(type) IS NOT NULL
),
product AS (
    SELECT p.trace_id, p.event_id, format, coalesce(l.rows, s.tokens) AS rows, size,
           CASE WHEN before = 'norm' OR is_expert AND NOT behind_expert AND second_before = 'norm'
                    THEN width WHEN before = 'attention' THEN queries END AS sums,
           CASE WHEN l.outputs > 0 THEN l.outputs WHEN after = 'norm' THEN width
               WHEN before = 'norm' AND after = 'attention' THEN heads END AS results,
           if(is_expert, 0, coalesce(sums * results * size, 0)) AS weight_bytes
    FROM placed AS p JOIN step AS s USING (trace_id, step_id) LEFT JOIN logits AS l USING (trace_id, event_id)
    WHERE part = 'gemm' AND is_graph AND (is_inside OR l.outputs > 0)
),
work AS (
    SELECT trace_id, event_id, TRUE AS is_matrix, format AS peak,
           2 * rows * coalesce(sums, 1) * coalesce(results, 1) AS flops,
           rows * (coalesce(sums, 0) + coalesce(results, 0)) * size + weight_bytes AS bytes, weight_bytes
    FROM product
    UNION ALL
    SELECT trace_id, event_id, FALSE, NULL, 0, 3 * s.tokens * width * size, 0
    FROM placed JOIN step AS s USING (trace_id, step_id) WHERE part = 'norm' AND is_graph
    UNION ALL
    SELECT trace_id, event_id, attends, if(attends, format, NULL), if(attends, 4 * s.keys * queries, 0),
           CASE WHEN attends THEN 2 * (s.keys * stored + decoded * queries)
               WHEN merges THEN 2 * decoded * queries ELSE 4 * s.tokens * row_bytes END,
           if(attends, 2 * s.keys * stored, 0)
    FROM (SELECT *, ratio IS NOT NULL AS attends FROM launch) AS l JOIN step AS s USING (trace_id, step_id)
    WHERE is_graph AND (attends OR merges OR row_bytes > 0)
)
SELECT trace_id, event_id, 'residual', is_matrix, peak, flops, bytes, weight_bytes
FROM (
    SELECT w.*, bool_or(weight_bytes * 1e9 > thresholds().over_peak * dur_ns * memory_bytes_per_s)
               OVER (PARTITION BY trace_id, step_id) AS is_displaced
    FROM work AS w JOIN launch USING (trace_id, event_id)
    LEFT JOIN device_peaks USING (trace_id, device_id))
SEMI JOIN unworked_kernel USING (trace_id, event_id)
WHERE is_displaced IS NOT TRUE AND bytes > 0 AND isfinite(bytes)
