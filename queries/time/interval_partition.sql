-- question: How long did a device compute, communicate, copy or idle in an interval, and why did it idle?
-- since: 0.1
-- param device (integer, default all): the device
-- params from_ns, to_ns
-- columns device_id
-- column start_ns (ns): start of the interval, at least the device's first op
-- column end_ns (ns): end of the interval, at most the device's last op
-- columns span_ns, compute_ns, exposed_comm_ns, exposed_memcpy_ns, idle_ns, host_late_ns, device_ns,
--     device_in_launch_ns, unlinked_ns, after_last_op_ns, busy_ns, waits_for_host_ns, kernels, gpu_ops,
--     linked
-- column causes (map of text to ns): the parts of host_late_ns by cause
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration
WITH clipped AS MATERIALIZED (
    SELECT trace_id, device_id,
           greatest(start_ns, coalesce(getvariable('from_ns')::BIGINT, start_ns)) AS start_ns,
           least(end_ns, coalesce(getvariable('to_ns')::BIGINT, end_ns)) AS end_ns
    FROM windows WHERE kind = 'gpu_active' AND is_asked(trace_id)
        AND device_id = coalesce(getvariable('device'), device_id)
),
asked_interval AS MATERIALIZED (FROM clipped WHERE start_ns < end_ns),
part AS MATERIALIZED (
    SELECT trace_id, device_id, activity, idle_class, cause,
           least(t.end_ns, a.end_ns) - greatest(t.start_ns, a.start_ns) AS ns
    FROM gpu_timeline_by_cause AS t JOIN asked_interval AS a USING (trace_id, device_id)
    WHERE t.end_ns > a.start_ns AND t.start_ns < a.end_ns
),
summed AS (
    SELECT trace_id, device_id, partition_of(activity, idle_class, cause, ns) AS parts FROM part GROUP BY ALL
),
caused AS (
    SELECT trace_id, device_id, map_from_entries(list((cause::VARCHAR, ns) ORDER BY ns DESC, cause)) AS causes
    FROM (SELECT trace_id, device_id, cause, sum(ns)::BIGINT AS ns FROM part WHERE idle_class = 'host_late'
        GROUP BY ALL)
    GROUP BY ALL
),
counted AS (
    SELECT o.trace_id, o.device_id, count(*) FILTER (o.kind = 'kernel') AS kernels, count(*) AS gpu_ops,
           count(o.launch_id) AS linked
    FROM gpu_ops AS o JOIN asked_interval AS a USING (trace_id, device_id)
    WHERE o.start_ns >= a.start_ns AND o.start_ns < a.end_ns
    GROUP BY ALL
)
SELECT trace_id, device_id, start_ns, end_ns, end_ns - start_ns AS span_ns, unnest(parts),
       coalesce(kernels, 0) AS kernels, coalesce(gpu_ops, 0) AS gpu_ops, coalesce(linked, 0) AS linked,
       coalesce(causes, MAP {}) AS causes
FROM asked_interval JOIN summed USING (trace_id, device_id) LEFT JOIN caused USING (trace_id, device_id)
LEFT JOIN counted USING (trace_id, device_id)
ORDER BY trace_id, device_id
