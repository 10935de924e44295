-- fact: The work of a kernel without a launch, by those between the same kernels: of several the least.
-- into: kernel_bound
-- of: unworked_kernel, known_kernel
-- scope: all
-- Where launches were lost, a kernel has no operator, and on AMD devices no grid. Each step and layer runs
-- the same kernels in the same order: a kernel with the same three before and after it on its stream, and the
-- same grid if that is recorded, is at the same place of the program. Sizes may differ between steps, so a
-- launch that took much less time than those of known work is not compared.
WITH lost AS MATERIALIZED (
    SELECT trace_id, event_id, label_id FROM gpu_ops SEMI JOIN unworked_kernel USING (trace_id, event_id)
    WHERE launch_id IS NULL
),
kernel AS MATERIALIZED (
    SELECT trace_id, device_id, stream, start_ns, event_id, label_id, grid, dur_ns FROM gpu_ops
    WHERE kind = 'kernel' AND activity = 'compute' AND trace_id IN (SELECT trace_id FROM lost)
),
placed AS MATERIALIZED (
    SELECT trace_id, event_id, grid, dur_ns,
           [label_id, lag(label_id, 3) OVER in_order, lag(label_id, 2) OVER in_order,
               lag(label_id) OVER in_order, lead(label_id) OVER in_order, lead(label_id, 2) OVER in_order,
               lead(label_id, 3) OVER in_order] AS place, label_id
    FROM kernel
    WINDOW in_order AS (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id)
),
told AS (
    SELECT trace_id, p.grid, place, any_value(is_matrix) AS is_matrix, any_value(peak) AS peak,
           min(flops) AS flops, min(moved) AS moved, min(weight_bytes) AS weight_bytes,
           min(k.dur_ns) AS dur_ns
    FROM placed AS p JOIN _scratch.known_kernel AS k USING (trace_id, event_id)
    WHERE p.label_id IN (SELECT label_id FROM lost) GROUP BY ALL
)
SELECT p.trace_id, event_id, 'same place', any_value(is_matrix), any_value(peak), min(flops), min(moved),
       min(weight_bytes)
FROM placed AS p SEMI JOIN lost USING (trace_id, event_id) JOIN told AS t USING (trace_id, place)
WHERE coalesce(p.grid, t.grid) IS NOT DISTINCT FROM t.grid
    AND p.dur_ns >= thresholds().same_work_time * t.dur_ns
GROUP BY p.trace_id, event_id
