-- question: How did the launch delay and the queue depth change over time?
-- since: 0.1
-- params from_ns, to_ns, bins
-- columns device_id, start_ns, end_ns, launches, delay_p50_ns, delay_p90_ns
-- column depth_p50 (count): median number of launches queued on the stream at the start of these calls
-- column depth_max (count): maximum number
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH delay AS (
    SELECT trace_id, device_id, launch_id, launch_start_ns AS at_ns, min(launch_delay_ns) AS delay_ns
    FROM on_time_ops WHERE launch_id IS NOT NULL AND is_asked(trace_id) GROUP BY ALL
),
depth AS (SELECT trace_id, device_id, launch_id, max(met) AS depth FROM queued_calls GROUP BY ALL),
bounds AS (
    SELECT trace_id, from_ns, to_ns, greatest(1, ceil((to_ns - from_ns)
               / coalesce(getvariable('bins'), thresholds().drawn_bins)))::BIGINT AS bin_ns
    FROM (
        SELECT trace_id, coalesce(getvariable('from_ns')::BIGINT, min(at_ns)) AS from_ns,
               coalesce(getvariable('to_ns')::BIGINT, max(at_ns) + 1) AS to_ns
        FROM delay GROUP BY trace_id
    )
)
SELECT trace_id, device_id, from_ns + bin * bin_ns AS start_ns,
       least(from_ns + (bin + 1) * bin_ns, to_ns) AS end_ns,
       count(*) AS launches, percentile(list(delay_ns), 50)::BIGINT AS delay_p50_ns,
       percentile(list(delay_ns), 90)::BIGINT AS delay_p90_ns,
       percentile(list(depth), 50)::BIGINT AS depth_p50, max(depth)::BIGINT AS depth_max
FROM (
    SELECT trace_id, d.device_id, (at_ns - from_ns) // bin_ns AS bin, delay_ns, depth, from_ns, bin_ns, to_ns
    FROM delay AS d JOIN bounds USING (trace_id) LEFT JOIN depth USING (trace_id, device_id, launch_id)
    WHERE at_ns >= from_ns AND at_ns < to_ns
)
GROUP BY trace_id, device_id, bin, from_ns, bin_ns, to_ns
ORDER BY trace_id, device_id, start_ns
