-- fact: The work of kernels of the same name on the same grid, of known work, for one that lost its operator.
-- needs: operator_time, replayed_work
-- of: operator_work, gpu_ops
-- scope: all
-- Of several the least. A grid tells how many elements or tiles there are, but not how long a product's sums
-- are: that is why the least counts.
CREATE TABLE same_kernel (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    is_matrix BOOLEAN, peak VARCHAR, flops DOUBLE, bytes DOUBLE, weight_bytes DOUBLE -- as in operator_work
);
WITH work AS (
    SELECT trace_id, device_id, gpu_op_ids[1] AS event_id, is_matrix, peak, flops, weight_bytes,
           read_bytes + written_bytes AS bytes
    FROM all_work WHERE len(gpu_op_ids) = 1
),
told AS (
    SELECT w.trace_id, w.device_id, label_id, grid, any_value(is_matrix) AS is_matrix,
           any_value(peak) AS peak, min(flops) AS flops, min(w.bytes) AS bytes,
           min(weight_bytes) AS weight_bytes
    FROM work AS w JOIN gpu_ops AS g ON w.trace_id = g.trace_id AND w.event_id = g.event_id
    WHERE g.kind = 'kernel' AND grid IS NOT NULL GROUP BY ALL
)
SELECT trace_id, event_id, is_matrix, peak, flops, t.bytes, weight_bytes
FROM gpu_ops AS g JOIN told AS t USING (trace_id, device_id, label_id, grid)
WHERE (trace_id, event_id) NOT IN (SELECT (trace_id, unnest(gpu_op_ids)) FROM all_work)
