-- fact: The work of other launches of a kernel on the same grid, of known work: of several the least.
-- into: kernel_bound
-- of: unworked_kernel, operator_work
-- scope: all
-- A grid tells how many elements or tiles there are, but not how long a product's sums are.
WITH work AS (
    SELECT trace_id, gpu_op_ids[1] AS event_id, is_matrix, peak, flops, read_bytes + written_bytes AS moved,
           weight_bytes
    FROM all_work WHERE len(gpu_op_ids) = 1
),
unknown AS MATERIALIZED (
    SELECT trace_id, event_id, device_id, label_id, grid
    FROM gpu_ops JOIN unworked_kernel USING (trace_id, event_id) WHERE grid IS NOT NULL
),
told AS (
    SELECT trace_id, device_id, label_id, grid, any_value(is_matrix) AS is_matrix, any_value(peak) AS peak,
           min(flops) AS flops, min(moved) AS moved, min(weight_bytes) AS weight_bytes
    FROM work JOIN gpu_ops USING (trace_id, event_id)
    WHERE label_id IN (SELECT label_id FROM unknown) GROUP BY ALL
)
SELECT trace_id, event_id, 'same kernel', is_matrix, peak, flops, moved, weight_bytes
FROM unknown JOIN told USING (trace_id, device_id, label_id, grid)
