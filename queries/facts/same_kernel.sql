-- fact: The work of other launches of a kernel on the same grid, of known work: of several the least.
-- into: kernel_bound
-- of: unworked_kernel, known_kernel
-- scope: all
-- A grid tells how many elements or tiles there are, but not how long a product's sums are. Some kernels loop
-- on a grid of the device's size, as that of cat: a launch that took much less time did less.
WITH told AS (
    SELECT trace_id, device_id, label_id, grid, any_value(is_matrix) AS is_matrix, any_value(peak) AS peak,
           min(flops) AS flops, min(moved) AS moved, min(weight_bytes) AS weight_bytes, min(dur_ns) AS dur_ns
    FROM _scratch.known_kernel WHERE grid IS NOT NULL GROUP BY ALL
)
SELECT trace_id, event_id, 'same kernel', is_matrix, peak, flops, moved, weight_bytes
FROM gpu_ops AS g SEMI JOIN unworked_kernel USING (trace_id, event_id)
JOIN told AS t USING (trace_id, device_id, label_id, grid)
WHERE g.dur_ns >= thresholds().same_work_time * t.dur_ns
