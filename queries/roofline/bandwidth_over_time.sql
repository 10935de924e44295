-- question: What memory bandwidth do operators reach over time, judging by their shapes?
-- since: 0.1
-- param bins (integer, default 1000): number of equal parts of each device's GPU-active span
-- columns device_id, start_ns, end_ns
-- column known_ns (ns): time of its GPU ops whose operators' bytes are known; other parts are left out
-- column bytes (bytes): bytes that these operators read and write, each tensor once, by time in the part
-- column bytes_per_s (bytes per second): bytes over the part's length; caches can make it exceed the memory's
-- columns share_of_bandwidth
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops
WITH span AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns AS first_ns, end_ns AS last_ns,
           greatest(1, (end_ns - start_ns) // coalesce(getvariable('bins'), 1000) + 1) AS bin_ns
    FROM windows WHERE kind = 'gpu_active' AND is_asked(trace_id) AND end_ns > start_ns
),
work AS MATERIALIZED (
    SELECT trace_id, gpu_op_ids[1] AS first_id, read_bytes + written_bytes AS moved_bytes,
           unnest(gpu_op_ids) AS op_id
    FROM all_work WHERE is_asked(trace_id)
),
-- An operator with several GPU ops moves its bytes evenly in all of them.
op AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_id': g.device_id} AS key, g.start_ns, g.end_ns,
           moved_bytes / sum(g.end_ns - g.start_ns) OVER (PARTITION BY trace_id, w.first_id, g.device_id)
               AS bytes_per_ns
    FROM work AS w JOIN gpu_ops AS g USING (trace_id) WHERE op_id = g.event_id AND g.end_ns > g.start_ns
),
summed AS (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, from_ns AS start_ns, to_ns AS end_ns,
           sum(ns)::BIGINT AS known_ns, round(sum(ns * bytes_per_ns))::BIGINT AS bytes
    FROM interval_bins('op', 'span') GROUP BY ALL
)
SELECT s.trace_id, s.device_id, start_ns, end_ns, known_ns, bytes,
       bytes * 1e9 / (end_ns - start_ns) AS bytes_per_s,
       bytes * 1e9 / (end_ns - start_ns) / p.memory_bytes_per_s AS share_of_bandwidth
FROM summed AS s LEFT JOIN device_peaks AS p ON s.trace_id = p.trace_id AND s.device_id = p.device_id
ORDER BY s.trace_id, s.device_id, start_ns
