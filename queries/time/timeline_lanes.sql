-- question: What did each thread and each stream do in an interval?
-- since: 0.1
-- params from_ns, to_ns
-- param bins (integer, default thresholds().drawn_bins): parts of the interval: shorter pieces are summed up
-- columns side, device_id
-- column lane (text): the thread or the stream
-- column start_ns (ns): start of the piece; summed-up pieces lie side by side in their part
-- columns end_ns, activity
-- column pieces (count): number of summed-up pieces; 1: the piece is exact
-- columns name
-- doubts: starts_before_launch, absurd_duration
WITH bounds AS (
    SELECT trace_id, from_ns, to_ns,
           ceil((to_ns - from_ns) / coalesce(getvariable('bins'), thresholds().drawn_bins))::BIGINT AS bin_ns
    FROM (
        SELECT trace_id, coalesce(getvariable('from_ns')::BIGINT, start_ns) AS from_ns,
               coalesce(getvariable('to_ns')::BIGINT, end_ns) AS to_ns
        FROM trace_span WHERE is_asked(trace_id)
    )
    WHERE to_ns > from_ns
),
-- What own time is: beside a device, a call of a collective launches its work, and operators are dispatch,
-- also if the device's work was not recorded.
role AS (
    SELECT trace_id, event_id, 'waiting' AS role, ['python'] AS instead_of
    FROM slices ANTI JOIN peer_waits USING (trace_id, event_id) WHERE has(traits, 'thread_wait')
    UNION ALL
    SELECT trace_id, event_id, 'communication', ['dispatch', 'python', 'untraced']
    FROM peer_waits ANTI JOIN main_device USING (trace_id)
    UNION ALL
    SELECT trace_id, event_id, role, ['dispatch', 'untraced']
    FROM cpu_roles(getvariable('trace')) ANTI JOIN main_device USING (trace_id)
    ANTI JOIN launches USING (trace_id) ANTI JOIN peer_waits USING (trace_id, event_id)
),
busy AS (
    SELECT trace_id, 'host' AS side, NULL::BIGINT AS device_id, concat('thread ', tid) AS lane, start_ns,
           end_ns, CASE WHEN list_contains(instead_of, activity::VARCHAR) THEN role
               ELSE activity::VARCHAR END AS activity, event_id
    FROM host_segment LEFT JOIN role USING (trace_id, event_id) WHERE event_id IS NOT NULL
    UNION ALL
    SELECT trace_id, 'device', device_id, concat('device ', device_id, ', stream ', stream), start_ns, end_ns,
           activity::VARCHAR, event_id
    FROM gpu_ops
),
piece AS (
    SELECT trace_id, side, device_id, lane, activity, event_id, bin_ns,
           greatest(start_ns, from_ns) AS start_ns, least(end_ns, to_ns) - greatest(start_ns, from_ns) AS ns,
           CASE WHEN end_ns - start_ns < bin_ns
               THEN (greatest(start_ns, from_ns) - from_ns) // bin_ns END AS bin
    FROM busy JOIN bounds USING (trace_id) WHERE end_ns > from_ns AND start_ns < to_ns
),
summed AS (
    SELECT trace_id, side, device_id, lane, activity, bin, min(start_ns) AS start_ns, sum(ns)::BIGINT AS ns,
           count(*) AS pieces, arg_max(event_id, (ns, -event_id)) AS event_id
    FROM piece
    GROUP BY trace_id, side, device_id, lane, activity, bin, CASE WHEN bin IS NULL THEN event_id END,
        CASE WHEN bin IS NULL THEN start_ns END
),
placed AS (
    SELECT * REPLACE (CASE WHEN bin IS NULL THEN start_ns ELSE
        min(start_ns) OVER in_bin + (sum(ns) OVER (in_bin ORDER BY start_ns, activity))::BIGINT - ns
        END AS start_ns)
    FROM summed
    WINDOW in_bin AS (PARTITION BY trace_id, side, device_id, lane, bin)
)
SELECT p.trace_id, side, p.device_id, lane, p.start_ns, p.start_ns + ns AS end_ns, activity, pieces, e.name
FROM placed AS p JOIN event AS e USING (trace_id, event_id)
WHERE ns > 0
ORDER BY p.trace_id, side DESC, p.device_id, lane, p.start_ns, activity
