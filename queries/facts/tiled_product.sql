-- fact: The least work of a product in a server's step, by its tiles, its grid and the product before it.
-- into: kernel_bound
-- of: unworked_kernel, server_step
-- when: class = 'gemm' AND regexp_matches(name, '^nvjet_|^(maxwell|volta|turing|ampere)_\w*gemm')
-- scope: all
-- A product of a step's tokens with weights. The grid counts the tiles of the result: tokens lie along the
-- side of a tile that they fill better, outputs along the other. A persistent kernel has no more blocks than
-- the device has SMs, and counts too few. The sums are as long as the product before had outputs, if only
-- norms and collectives come between; else a third of that, as is left by attention with as many keys and
-- values as queries. Several products in a row read the same input.
WITH name AS (
    SELECT label_id, format, greatest(TRY_CAST(tile.a AS DOUBLE), TRY_CAST(tile.b AS DOUBLE)) AS a,
           least(TRY_CAST(tile.a AS DOUBLE), TRY_CAST(tile.b AS DOUBLE)) AS b,
           tile.library = 'nvjet' AS is_nvjet
    FROM (
        SELECT label_id, format, regexp_extract(name,
                   '^(nvjet|maxwell|volta|turing|ampere)_(?:sm\d+_)?[a-z0-9_]*?_(\d+)x(\d+)(?:_|$)',
                   ['library', 'a', 'b']) AS tile
        FROM slice_label WHERE kind = 'kernel' AND class = 'gemm')
    WHERE tile.a <> ''
),
launch AS MATERIALIZED (
    SELECT g.trace_id, g.device_id, g.stream, g.start_ns, g.event_id, g.label_id, g.grid,
           g.class = 'gemm' AS is_product, prefill_tokens + decode_tokens AS tokens,
           g.class NOT IN ('gemm', 'normalization', 'communication')
               AND NOT (g.class = 'triton' AND regexp_matches(g.name, 'rsqrt|norm')
                   AND NOT regexp_matches(g.name, 'silu|gelu|sigmoid|cat')) AS narrows
    FROM gpu_ops AS g ASOF JOIN server_step AS s
      ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.start_ns
    WHERE g.kind = 'kernel' AND g.launch_start_ns < s.end_ns
        AND g.label_id NOT IN (SELECT label_id FROM slice_label WHERE has(traits, 'split_k_sum'))
),
placed AS (
    SELECT *, count(*) OVER in_order AS place, count_if(narrows) OVER in_order AS narrowed
    FROM launch WINDOW in_order AS (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id)
),
-- `outputs` as the grid counts them; `row` has the products that follow each other directly.
product AS (
    SELECT p.*, format, list_product(TRY_CAST(grid AS BIGINT[])[:if(is_nvjet, 3, 2)]) * a * b
               / least(ceil(tokens / a) * a, ceil(tokens / b) * b) AS outputs,
           place - row_number() OVER in_order AS row
    FROM placed AS p LEFT JOIN name USING (label_id) WHERE is_product
    WINDOW in_order AS (PARTITION BY trace_id, device_id, stream ORDER BY place)
),
together AS (
    SELECT trace_id, device_id, stream, row, min(place) AS place, max(narrowed) AS narrowed,
           count(*) AS products, if(count(outputs) = count(*), min(outputs), NULL) AS width
    FROM product GROUP BY ALL
),
summed AS (
    SELECT *, lag(width) OVER in_order / if(narrowed = lag(narrowed) OVER in_order
               OR lag(products) OVER in_order > 1, 1, 3) AS sums
    FROM together WINDOW in_order AS (PARTITION BY trace_id, device_id, stream ORDER BY place)
)
SELECT trace_id, event_id, 'tiles', TRUE, format AS peak, 2 * tokens * outputs * sums AS flops,
       weight_bytes + tokens * (sums + outputs) * each AS bytes, weight_bytes
FROM (
    SELECT *, CASE WHEN format IN ('fp8', 'int8') THEN 1 WHEN format IN ('bf16', 'fp16') THEN 2
               WHEN format IN ('tf32', 'fp32') THEN 4 END AS each, outputs * sums * each AS weight_bytes
    FROM product JOIN summed USING (trace_id, device_id, stream, row))
SEMI JOIN unworked_kernel USING (trace_id, event_id)
WHERE weight_bytes > 0 AND isfinite(weight_bytes)
