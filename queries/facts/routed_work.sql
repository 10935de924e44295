-- fact: The work of a call of experts whose weights are not among its inputs: its kernels tell it.
-- into: call_work
-- of: call_kernel
-- when: kind = 'cpu_op' AND work = 'routed_experts'
-- The kernels of TensorRT-LLM and FlashInfer have tiles in their names, (outputs, tokens, inputs), and their
-- grid counts tiles: of outputs, and the most that tokens can need, one for each expert and one more for each
-- further tile of tokens. So the first product has more outputs than all of its tiles but one, half of which
-- are the second one's inputs, and the second has as many outputs as a token is long. Of weights of 4 bits,
-- every 32 have a scale of 8 bits.
-- https://github.com/NVIDIA/TensorRT-LLM (getMaxNumCtasInBatchDim in
-- cpp/tensorrt_llm/kernels/trtllmGenKernels/blockScaleMoe/RoutingKernel.h)
-- A token's experts may be on other devices: certain is one row for as many experts as a token is given.
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
)
SELECT trace_id, event_id, type, TRUE AS is_matrix, 2 * weight AS flops, x[1] * x[2] * size + weights AS read,
       x[1] * x[2] * size AS written, weights, FALSE AS is_exact
FROM chosen WHERE products = 2 AND place = 1
