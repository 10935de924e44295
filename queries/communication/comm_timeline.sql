-- question: When do collectives run, and how much of that time is not covered by compute?
-- since: 0.1
-- param bins (integer, default 1000): number of equal bins in the GPU-active span
-- columns device_id
-- column step (text): the step of the host that contains the bin's middle; NULL: none
-- columns start_ns, end_ns, communication_ns, exposed_ns
-- column overlapped_ns (ns): communication_ns minus exposed_ns
-- doubts: no_gpu_ops, no_communication, absurd_duration
WITH call AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_ops
    WHERE activity = 'communication' AND is_asked(trace_id)
),
stretch AS (
    SELECT key, start_ns, end_ns, FALSE AS is_exposed FROM interval_union('call')
    UNION ALL
    SELECT {'trace_id': trace_id, 'device_id': device_id}, start_ns, end_ns, TRUE FROM gpu_timeline
    WHERE activity = 'communication' AND is_asked(trace_id)
),
span AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns AS first_ns,
           greatest(1, (end_ns - start_ns) // coalesce(getvariable('bins'), 1000) + 1) AS bin_ns,
           end_ns + bin_ns AS last_ns
    FROM windows WHERE kind = 'gpu_active'
),
summed AS (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, from_ns AS start_ns, to_ns AS end_ns,
           (from_ns + to_ns) // 2 AS middle_ns, sum_where(ns, NOT is_exposed) AS communication_ns,
           sum_where(ns, is_exposed) AS exposed_ns
    FROM interval_bins('stretch', 'span') GROUP BY ALL
)
SELECT c.trace_id, device_id, CASE WHEN middle_ns < s.end_ns THEN s.name END AS step, c.start_ns,
       c.end_ns, communication_ns, exposed_ns, communication_ns - exposed_ns AS overlapped_ns
FROM summed AS c ASOF LEFT JOIN steps AS s ON c.trace_id = s.trace_id AND middle_ns >= s.start_ns
ORDER BY c.trace_id, device_id, c.start_ns
