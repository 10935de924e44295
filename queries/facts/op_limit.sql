-- fact: What a GPU op of known work has to do at least, and the least time that the device needs for it.
-- needs: same_kernel, same_place, elementwise_kernel, grid_kernel, triton_grid, attention_grid,
--     neighbor_kernel, triton_kernel, residual_kernel,
--     tiled_product, layer_product, other_trace_product, other_trace_kernel, collective, device_peaks
-- of: gpu_ops
-- scope: all
-- An operator's work is divided among its GPU ops by their durations. Of several bounds the one of most bytes
-- counts.
CREATE TABLE op_limit (
    trace_id INTEGER, event_id BIGINT, -- the GPU op
    is_exact  BOOLEAN,   -- from shapes, or a copy's size; else a lower bound
    source    VARCHAR,   -- call, capture by node or by order, copy, collective; of a bound: as in
                         -- kernel_bound
    is_matrix BOOLEAN,   -- it runs on the units for matrix products
    dur_ns BIGINT,
    flops     DOUBLE,
    bytes     DOUBLE,    -- that it reads and writes
    weight_bytes DOUBLE, -- the part of them that is weights and caches of the model
    math_ns   BIGINT,    -- its FLOPs at the device's peak; NULL: the peak is not known
    memory_ns BIGINT,    -- its bytes at the bandwidth of the device's memory; NULL: that is not known
    far_ns    BIGINT,    -- memory_ns, if all that fits into the last-level cache is there
    least_ns  BIGINT     -- the longest of its roofs, with far_ns for memory_ns, but at most its duration;
                         -- NULL: its FLOPs are beyond the peak, so its work or its time is wrong
);
WITH whole AS (
    SELECT trace_id, gpu_op_ids, busy_ns, known_from AS source, is_exact, is_matrix, peak, flops,
           read_bytes + written_bytes AS bytes, weight_bytes, NULL AS link_bytes
    FROM all_work
    UNION ALL
    SELECT trace_id, [event_id], NULL, arg_max(source, bytes), FALSE, arg_max(is_matrix, bytes),
           arg_max(peak, bytes), arg_max(flops, bytes), max(bytes), arg_max(weight_bytes, bytes), NULL
    FROM kernel_bound GROUP BY trace_id, event_id
    UNION ALL
    -- With two ranks or more, half of the message or more passes a rank's links, even if switches add up.
    SELECT trace_id, [event_id], NULL, 'collective', FALSE, FALSE, NULL, 0, 0, 0,
           message_bytes * (1 - 1 / coalesce(group_size, 2))
    FROM collective WHERE message_bytes > 0 AND group_size IS DISTINCT FROM 1
    UNION ALL
    -- A copy within the device reads and writes.
    SELECT trace_id, [event_id], NULL, 'copy', TRUE, FALSE, NULL, 0,
           bytes * CASE copy_kind WHEN 'DtoD' THEN 2 WHEN 'memset' THEN 1 ELSE 0 END, 0,
           if(copy_kind IN ('HtoD', 'DtoH'), bytes, 0)
    FROM gpu_ops WHERE copy_kind IN ('HtoD', 'DtoH', 'DtoD', 'memset') AND bytes > 0 AND (trace_id, event_id)
        NOT IN (SELECT (trace_id, unnest(gpu_op_ids)) FROM all_work WHERE NOT is_kernels)
),
op AS (
    SELECT w.*, g.device_id, g.dur_ns,
           if(busy_ns IS NULL, 1, least(1, coalesce(g.dur_ns / nullif(busy_ns, 0), 0))) AS part
    FROM (SELECT *, unnest(gpu_op_ids) AS event_id FROM whole) AS w
    JOIN gpu_ops AS g ON w.trace_id = g.trace_id AND w.event_id = g.event_id
),
-- With its part of the time at each roof.
timed AS (
    SELECT op.*, part * flops * 1e9 / peak_of(flop_per_s, peak, is_matrix) AS math_ns,
           part * bytes * 1e9 / memory_bytes_per_s AS memory_ns,
           least(bytes - weight_bytes, coalesce(cache_bytes, thresholds().cached_bytes)) AS near_bytes,
           part * (bytes - near_bytes + near_bytes / thresholds().cache_rate) * 1e9 / memory_bytes_per_s
               AS far_ns,
           if(op.source = 'collective', link_bytes_per_s, NULL) AS peer_bytes_per_s,
           link_bytes * 1e9 / coalesce(peer_bytes_per_s, host_link_bytes_per_s) AS link_ns
    FROM op JOIN device_peaks USING (trace_id, device_id)
)
SELECT trace_id, event_id, is_exact, source, is_matrix, dur_ns, part * flops, part * bytes,
       part * weight_bytes, TRY_CAST(math_ns AS BIGINT), TRY_CAST(memory_ns AS BIGINT),
       TRY_CAST(far_ns AS BIGINT),
       if(math_ns > thresholds().over_peak * dur_ns, NULL,
           TRY_CAST(least(dur_ns, greatest(math_ns, far_ns, link_ns)) AS BIGINT))
FROM timed
