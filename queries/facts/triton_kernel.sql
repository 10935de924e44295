-- fact: The least bytes of a Triton kernel without shapes, by the product before it.
-- into: kernel_bound
-- of: unworked_kernel, operator_work
-- when: kind = 'kernel' AND class = 'triton'
-- scope: all
-- Old versions of Inductor record no inputs of their kernels. A pointwise kernel has a block for each power
-- of two of elements, and a persistent reduction one for each row, or for each power of two of rows. If the
-- result of the last product before it, or the input of the next one, gives just as many blocks, the kernel
-- reads that result or writes that input. The larger a grid, the less is it one by chance.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/runtime/triton_heuristics.py (grid, XBLOCK)
WITH product AS (
    SELECT p.trace_id, g.device_id, g.stream, g.start_ns, batch * m AS rows, n AS after_width,
           k AS before_width, element_bytes(texts_of(types)[1]) AS size
    FROM (SELECT *, gpu_op_ids[1] AS op_id FROM products) AS p
    JOIN gpu_ops AS g ON p.trace_id = g.trace_id AND op_id = g.event_id
),
kernel AS MATERIALIZED (
    SELECT trace_id, event_id, device_id, stream, start_ns, TRY_CAST(grid AS DOUBLE[])[1] AS blocks
    FROM gpu_ops SEMI JOIN unworked_kernel USING (trace_id, event_id)
    WHERE class = 'triton' AND blocks >= thresholds().telling_blocks AND grid LIKE '%,1,1]'
),
beside AS (
    SELECT k.trace_id, k.event_id, blocks, rows, after_width AS width, size
    FROM kernel AS k ASOF JOIN product AS p ON k.trace_id = p.trace_id AND k.device_id = p.device_id
        AND k.stream = p.stream AND k.start_ns > p.start_ns
    UNION ALL
    SELECT k.trace_id, k.event_id, blocks, rows, before_width, size
    FROM kernel AS k ASOF JOIN product AS p ON k.trace_id = p.trace_id AND k.device_id = p.device_id
        AND k.stream = p.stream AND k.start_ns < p.start_ns
)
SELECT trace_id, event_id, 'neighbor', FALSE, NULL, 0, min(rows * width * size), 0
FROM beside
WHERE list_has_any([blocks], list_transform(range(0, 17), lambda n: ceil(rows / (1 << n))))
    OR list_has_any([blocks], list_transform(range(0, 17), lambda n: ceil(rows * width / (1 << n))))
GROUP BY trace_id, event_id
