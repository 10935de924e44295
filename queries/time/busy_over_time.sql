-- question: What share of each part of the recording was each device busy?
-- since: 0.1
-- params bins
-- columns device_id, start_ns, end_ns, busy_ns
-- column busy_share (fraction of the part): busy_ns over the part's length
-- doubts: no_gpu_ops
WITH span AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns AS first_ns, end_ns AS last_ns,
           greatest(1, ceil((end_ns - start_ns)
               / coalesce(getvariable('bins'), thresholds().drawn_bins)))::BIGINT AS bin_ns
    FROM windows WHERE kind = 'gpu_active' AND end_ns > start_ns AND is_asked(trace_id)
),
-- Bins without work count, too.
piece AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns, TRUE AS is_busy
    FROM gpu_timeline WHERE activity <> 'idle'
    UNION ALL
    SELECT key, first_ns, last_ns, FALSE FROM span
)
SELECT key.trace_id, key.device_id, from_ns AS start_ns, to_ns AS end_ns, sum_where(ns, is_busy) AS busy_ns,
       busy_ns / (to_ns - from_ns) AS busy_share
FROM interval_bins('piece', 'span')
GROUP BY key, from_ns, to_ns
ORDER BY key, start_ns
