-- fact: What a GPU op of known work has to do at least, and the least time that the device needs for it.
-- needs: same_kernel, elementwise_kernel, tiled_product, other_trace_product, collective, device_peaks
-- of: gpu_ops
-- scope: all
-- An operator's work is divided among its GPU ops by their durations.
CREATE TABLE op_limit (
    trace_id INTEGER, event_id BIGINT, -- the GPU op
    is_exact  BOOLEAN,   -- from shapes, or a copy's size; else a lower bound
    source    VARCHAR,   -- call, capture by node or by order, copy, collective; of a bound: same kernel,
                         -- grid, tiles, other trace
    is_matrix BOOLEAN,   -- it runs on the units for matrix products
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
    SELECT trace_id, device_id, known_from AS source, is_exact, is_matrix, peak, flops,
           read_bytes + written_bytes AS bytes, weight_bytes, NULL AS link_bytes, gpu_op_ids
    FROM all_work
    UNION ALL
    SELECT trace_id, g.device_id, 'same kernel', FALSE, is_matrix, peak, flops, b.bytes, weight_bytes, NULL,
           [event_id]
    FROM same_kernel AS b JOIN gpu_ops AS g USING (trace_id, event_id)
    UNION ALL
    SELECT trace_id, g.device_id, 'grid', FALSE, FALSE, NULL, 0, b.bytes, 0, NULL, [event_id]
    FROM elementwise_kernel AS b JOIN gpu_ops AS g USING (trace_id, event_id)
    UNION ALL
    SELECT trace_id, g.device_id, 'other trace', FALSE, TRUE, peak, flops, b.bytes, weight_bytes, NULL,
           [event_id]
    FROM other_trace_product AS b JOIN gpu_ops AS g USING (trace_id, event_id)
    UNION ALL
    SELECT trace_id, g.device_id, 'tiles', FALSE, TRUE, peak, flops, b.bytes, weight_bytes, NULL, [event_id]
    FROM tiled_product AS b JOIN gpu_ops AS g USING (trace_id, event_id)
    UNION ALL
    -- With two ranks or more, half of the message or more passes a rank's links, even if switches add up.
    SELECT trace_id, device_id, 'collective', FALSE, FALSE, NULL, 0, 0, 0,
           message_bytes * (1 - 1 / coalesce(group_size, 2)), [event_id]
    FROM collective WHERE message_bytes > 0 AND group_size IS DISTINCT FROM 1
    UNION ALL
    -- A copy within the device reads and writes.
    SELECT trace_id, device_id, 'copy', TRUE, FALSE, NULL, 0,
           bytes * CASE copy_kind WHEN 'DtoD' THEN 2 WHEN 'memset' THEN 1 ELSE 0 END, 0,
           if(copy_kind IN ('HtoD', 'DtoH'), bytes, 0), [event_id]
    FROM gpu_ops WHERE copy_kind IN ('HtoD', 'DtoH', 'DtoD', 'memset') AND bytes > 0
        AND (trace_id, event_id) NOT IN (SELECT (trace_id, unnest(gpu_op_ids)) FROM all_work)
),
-- With the time at each roof, of all of its ops.
work AS (
    SELECT whole.*, flops * 1e9 / peak_of(flop_per_s, peak, is_matrix) AS math_ns,
           bytes * 1e9 / memory_bytes_per_s AS memory_ns,
           least(bytes - weight_bytes, coalesce(cache_bytes, thresholds().cached_bytes)) AS near_bytes,
           (bytes - near_bytes + near_bytes / thresholds().cache_rate) * 1e9 / memory_bytes_per_s AS far_ns,
           if(whole.source = 'collective', link_bytes_per_s, NULL) AS peer_bytes_per_s,
           link_bytes * 1e9 / coalesce(peer_bytes_per_s, host_link_bytes_per_s) AS link_ns
    FROM whole JOIN device_peaks USING (trace_id, device_id)
),
op AS (
    SELECT w.*, dur_ns, coalesce(dur_ns / nullif(
               sum(dur_ns) OVER (PARTITION BY trace_id, source, gpu_op_ids), 0), 0) AS part
    FROM (SELECT *, unnest(gpu_op_ids) AS event_id FROM work) AS w
    JOIN (SELECT trace_id, event_id, dur_ns FROM gpu_ops) USING (trace_id, event_id)
)
SELECT trace_id, event_id, is_exact, source, is_matrix, part * flops, part * bytes, part * weight_bytes,
       (part * math_ns)::BIGINT, (part * memory_ns)::BIGINT, (part * far_ns)::BIGINT,
       if(part * math_ns > thresholds().over_peak * dur_ns, NULL,
           least(dur_ns, greatest(part * math_ns, part * far_ns, link_ns)))::BIGINT
FROM op
-- Of several bounds the one of most work.
QUALIFY row_number() OVER (PARTITION BY trace_id, event_id
    ORDER BY is_exact DESC, greatest(math_ns, memory_ns) DESC, bytes DESC) = 1
