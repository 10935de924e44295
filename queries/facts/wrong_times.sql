-- fact: GPU ops with impossible recorded times.
-- into: recorder_finding
-- needs: gpu_ops
-- when: kind IN ('kernel', 'memcpy', 'memset')
-- A stream runs its ops one after the other, so none outlasts several later ones
-- (github.com/AMD-AGI/TraceLens/issues/669). Kernels of one graph run side by side, and several processes may
-- number their streams alike.
WITH recorded AS (
    SELECT trace_id, sum(ops)::BIGINT AS far FROM (
        SELECT trace_id, count(*) AS ops FROM slices WHERE kind IN ('kernel', 'memcpy', 'memset')
        GROUP BY trace_id
        UNION ALL
        SELECT trace_id, -count(*) FROM gpu_ops WHERE kind <> 'host_function' GROUP BY trace_id
    ) GROUP BY trace_id
),
long AS (
    SELECT trace_id, count(*) AS ops FROM (
        SELECT trace_id FROM gpu_ops
        WINDOW whole AS (PARTITION BY trace_id),
               by_start AS (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id)
        QUALIFY NOT is_graph AND min(pid) OVER whole = max(pid) OVER whole
            AND lead(end_ns, thresholds().fewest_lost) OVER by_start < end_ns
    ) GROUP BY trace_id
)
SELECT trace_id, 'far_gpu_ops' AS code, 'warning' AS severity, far AS count,
       'GPU ops have a time far from all work of the host, and are left out of all sums' AS message,
       NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM recorded WHERE far > 0
UNION ALL
SELECT trace_id, 'too_long_gpu_ops', 'warning', ops,
       'GPU ops were recorded as longer than later ones of their stream allow: busy time may be less',
       NULL, NULL
FROM long
