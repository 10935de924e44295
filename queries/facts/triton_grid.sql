-- fact: The least work of a kernel written in Triton, by its grid and its threads.
-- into: kernel_bound
-- of: unworked_kernel
-- when: kind = 'kernel' AND regexp_matches(name, '^triton_(poi|red|per)_|_0d1d\w*$')
-- scope: all
-- Inductor's kernels of four warps or more have a block of at least an element for each thread. Blocks are
-- powers of two, and along a side not above the next one to its length: of several blocks along it all but
-- the last are full, and a single one is more than half full. A reduction reads, and another kernel writes,
-- at least a byte for each element.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/runtime/triton_heuristics.py (triton_config,
-- triton_config_reduction: num_elements_per_warp, which is at least a warp's threads)
-- A product's block has 16 rows and columns or more, and one at an edge at least one of them. So it is in
-- Triton 2, which appends its arguments to a kernel's name.
-- https://github.com/triton-lang/triton/blob/release/2.2.x/python/triton/language/semantic.py (dot)
WITH label AS (
    SELECT label_id, format, class = 'gemm' AS is_matrix
    FROM slice_label
    WHERE kind = 'kernel' AND (class = 'triton' AND regexp_matches(name, '^triton_(poi|red|per)_')
        OR class = 'gemm' AND expert IS NULL AND regexp_matches(name, '_0d1d\w*$')
            AND NOT regexp_matches(name, '(?i)split|stream_?k'))
),
launch AS (
    SELECT trace_id, event_id, format, is_matrix, TRY_CAST(grid AS DOUBLE[]) AS blocks,
           list_product(TRY_CAST(args->>'block' AS DOUBLE[])) AS threads
    FROM unworked_kernel JOIN gpu_ops AS g USING (trace_id, event_id) JOIN label USING (label_id)
    JOIN event_row USING (trace_id, event_id)
    -- AMD's grids count blocks or threads.
    WHERE blocks_per_sm IS NOT NULL
),
counted AS (
    SELECT *, CASE WHEN is_matrix THEN if(blocks[2:] = [1, 1], thresholds().dot_side * (blocks[1] - 1) + 1, 0)
               WHEN threads >= thresholds().told_threads AND blocks[1] > 1 THEN threads * list_product(
                   list_transform(blocks, lambda n: if(n > 1, n - 1, 1 / 2))) END AS elements
    FROM launch
)
SELECT trace_id, event_id, 'grid', is_matrix, if(is_matrix, format, NULL), if(is_matrix, 2 * elements, 0),
       if(is_matrix, 2, 1) * elements AS moved, 0
FROM counted WHERE moved > 0 AND isfinite(moved)
