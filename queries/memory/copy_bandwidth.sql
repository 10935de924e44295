-- question: At what bandwidth did copies run, over time?
-- since: 0.1
-- columns device_id, copy_kind
-- column at_ns (ns): the instant from which the values hold, until the next row of the same kind
-- column copies (count): number of copies of that kind in progress
-- column bytes_per_s (bytes per second): sum of the copies' bandwidths: each copy's bytes over its duration,
--     as if its speed were constant; copies of unknown size, or without a duration, are left out
-- doubts: no_copies, absurd_duration
-- HTA: get_memory_bw_time_series (hta/trace_analysis.py).
WITH copy AS (
    SELECT trace_id, device_id, copy_kind, start_ns, end_ns, bytes * 1e9 / dur_ns AS bytes_per_s
    FROM gpu_ops
    WHERE copy_kind IS NOT NULL AND bytes IS NOT NULL AND dur_ns > 0 AND is_asked(trace_id)
),
running AS (
    SELECT trace_id, device_id, copy_kind, at_ns, (sum(sum(step)) OVER so_far)::BIGINT AS copies,
           sum(sum(step * bytes_per_s)) OVER so_far AS bytes_per_s
    FROM (SELECT *, start_ns AS at_ns, 1 AS step FROM copy UNION ALL SELECT *, end_ns, -1 FROM copy)
    GROUP BY trace_id, device_id, copy_kind, at_ns
    WINDOW so_far AS (PARTITION BY trace_id, device_id, copy_kind ORDER BY at_ns)
)
-- Sums of fractions leave a remainder when nothing runs.
SELECT trace_id, device_id, copy_kind, at_ns, copies,
       CASE WHEN copies > 0 THEN bytes_per_s ELSE 0 END AS bytes_per_s
FROM running
ORDER BY trace_id, device_id, at_ns, copy_kind
