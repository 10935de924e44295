-- fact: The work of a call of experts whose weights are not among its inputs: kernels or views tell it.
-- into: call_work
-- needs: call_kernel
-- of: operator_input, operator_call
-- when: kind = 'cpu_op' AND work = 'routed_experts'
-- The kernels of TensorRT-LLM and FlashInfer have tiles in their names, (outputs, tokens, inputs), and their
-- grid counts tiles: of outputs, and the most that tokens can need, one for each expert and one more for each
-- further tile of tokens. So the first product has more outputs than all of its tiles but one, half of which
-- are the second one's inputs, and the second has as many outputs as a token is long. Of weights of 4 bits,
-- every 32 have a scale of 8 bits.
-- https://github.com/NVIDIA/TensorRT-LLM (getMaxNumCtasInBatchDim in
-- cpp/tensorrt_llm/kernels/trtllmGenKernels/blockScaleMoe/RoutingKernel.h)
-- A token's experts may be on other devices: certain is one row for as many experts as a token is given.
-- In triton_kernels the call views its two weights, as (experts, inputs, outputs), inputs of 4 bits as pairs
-- in a byte, and sorts the numbers of the chosen experts, as (tokens, chosen). If all experts are here, each
-- token multiplies by as many as are chosen; all may choose the same, so no more weights are read for
-- certain. Scales are not counted.
-- https://github.com/triton-lang/triton/tree/main/python/triton_kernels (matmul_ogs.py, routing.py)
WITH product AS (
    SELECT trace_id, event_id, type, size, d[1] AS x, d[2][2] AS experts, grid, kernel,
           TRY_CAST(tile.outputs AS BIGINT) AS outputs, TRY_CAST(tile.tokens AS BIGINT) AS tokens
    FROM (SELECT *, regexp_extract(kernel, '^bmm_\w*?_t(\d+)x(\d+)x\d+', ['outputs', 'tokens']) AS tile
        FROM _scratch.call_kernel WHERE kind = 'routed_experts' AND len(d[1]) = 2 AND len(d[2]) = 2)
    WHERE tile.outputs <> ''
),
chosen AS (
    SELECT *, ceil((experts + (grid[2] - experts) * tokens) / x[1])
               * ((grid[1] - 1) * outputs + 1) * x[2] * 3 / 2 AS weight,
           weight * CASE WHEN contains(kernel, 'E2m1') THEN 17 / 32 WHEN contains(kernel, 'E4m3') THEN 1
               ELSE size END AS weights,
           count(*) OVER (PARTITION BY trace_id, event_id) AS products,
           row_number() OVER (
               PARTITION BY trace_id, event_id ORDER BY ceil(x[2] / outputs) = grid[1], kernel) AS place
    FROM product WHERE grid[2] > experts
),
call AS (
    SELECT c.trace_id, c.event_id, pid, tid, start_ns, end_ns, type, size, d[1] AS x, d[2][2] AS experts
    FROM _scratch.operator_call AS c JOIN _scratch.operator_input AS i
      ON c.name = i.name AND c.dims = i.dims AND c.types IS NOT DISTINCT FROM i.types
        AND c.concrete IS NOT DISTINCT FROM i.concrete
    WHERE i.kind = 'routed_experts' AND len(d[1]) = 2 AND len(d[2]) = 2
),
inside AS (
    SELECT c.*, shapes_of(o.args->'Input Dims') AS d,
           element_bytes(texts_of(o.args->'Input type')[1]) AS each,
           o.name = 'aten::view' AND len(d[1]) = 3 AND d[1][1] = experts AND d[1][2] + d[1][3] > x[2]
               AS is_weight,
           d[1] = d[2] AND d[1][1] = x[1] AND d[1][2] < experts AS is_choice
    FROM cpu_ops AS o ASOF JOIN call AS c
      ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.tid = c.tid AND o.start_ns > c.start_ns
    WHERE o.end_ns <= c.end_ns
),
viewed AS (
    SELECT trace_id, event_id, any_value(type) AS type, any_value(size) AS size, any_value(x) AS x,
           list(DISTINCT d[1]) FILTER (is_weight) AS weights,
           any_value(each) FILTER (is_weight) AS weight_size,
           coalesce(min(d[1][2]) FILTER (is_choice), 1) AS chosen,
           list_sum(list_transform(weights, lambda w: w[2] * w[3])) AS elements,
           weight_size = 1 AND bool_or(is_weight AND x[2] IN (2 * d[1][2], 2 * d[1][3])) AS is_packed
    FROM inside GROUP BY trace_id, event_id HAVING len(weights) = 2
)
SELECT trace_id, event_id, type, TRUE AS is_matrix, 2 * weight AS flops, x[1] * x[2] * size + weights AS read,
       x[1] * x[2] * size AS written, weights, FALSE AS is_exact
FROM chosen WHERE products = 2 AND place = 1
UNION ALL
SELECT trace_id, event_id, type, TRUE, 2 * x[1] * chosen * elements * if(is_packed, 2, 1),
       x[1] * x[2] * size + chosen * elements * weight_size, x[1] * x[2] * size,
       chosen * elements * weight_size, FALSE
FROM viewed WHERE (trace_id, event_id) NOT IN (SELECT (trace_id, event_id) FROM product)
