-- fact: The least elements and bytes of PyTorch's elementwise kernels, by their grids and template arguments.
-- of: unworked_kernel
-- when: kind = 'kernel' AND contains(name, 'elementwise_kernel')
-- scope: all
-- Every block but the last is full. A thread does 4 elements, or as many as its vectors hold if these are
-- longer; with strides, as many as the second number says. Inputs with strides may be read again and again
-- and are not counted: a copy may repeat a row, as addmm does with a bias. Both factors of a product may be
-- one tensor. Each element counts with the shortest type that the arguments name.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/CUDALoops.cuh
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/thread_constants.h
CREATE TABLE elementwise_grid (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    elements DOUBLE,
    size     DOUBLE, -- bytes of the shortest type
    bytes    DOUBLE
);
WITH launch AS (
    SELECT trace_id, event_id, u.label_id, TRY_CAST(grid AS DOUBLE[])[1] - 1 AS full_blocks,
           TRY_CAST(args->>'block' AS DOUBLE[])[1] AS threads
    FROM unworked_kernel JOIN gpu_ops AS u USING (trace_id, event_id)
    JOIN event_row USING (trace_id, event_id)
    -- AMD's grids count blocks or threads.
    WHERE contains(u.name, 'elementwise_kernel') AND blocks_per_sm IS NOT NULL
),
named AS (
    SELECT label_id, contains(name, 'copy_kernel') AS copies,
           regexp_extract(name, '(vectorized|unrolled)?_?elementwise_kernel\w*<(\d+)?(?:, (\d+))?',
               ['way', 'width', 'unrolled']) AS form,
           TRY_CAST(regexp_extract(name, '(?i)array<char ?\*, ?(\d+)', 1) AS DOUBLE) AS pointers,
           coalesce(list_min(list_transform(regexp_extract_all(
               regexp_extract(name, '<.*>'), '\b(c10::BFloat16|c10::Half|float|double|bool)\b'),
               lambda type: element_bytes(type))), 1) AS size,
           -- Unrolled kernels convert types, the shorter of which the arguments may not name.
           CASE WHEN form['way'] = '' THEN size WHEN copies THEN size + 1
               WHEN form['way'] = 'unrolled' THEN pointers * least(size, 2)
               WHEN contains(name, 'MulFunctor') AND pointers > 2 THEN 2 * size
               WHEN has(traits, 'short_output') THEN (pointers - 1) * size + 1
               ELSE pointers * size END AS each,
           CASE form['way'] WHEN '' THEN TRY_CAST(form['unrolled'] AS DOUBLE)
               WHEN 'vectorized' THEN greatest(4, TRY_CAST(form['width'] AS DOUBLE)) ELSE 4 END AS width
    FROM slice_label SEMI JOIN launch USING (label_id)
)
SELECT trace_id, event_id, full_blocks * threads * width AS elements, size, elements * each AS bytes
FROM launch JOIN named USING (label_id) WHERE bytes > 0 AND isfinite(bytes)
