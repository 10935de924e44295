-- question: At what bandwidth did copies run, over time?
-- params trace
-- columns trace_id, device_id, copy_kind
-- column at_ns (ns): the start; it lasts until the next row of its kind
-- column copies (count): copies of that kind in progress; 0: none
-- column bytes_per_s (bytes per second): the sum of their bandwidths: each one's bytes over its duration, as
--     if it ran at one speed; copies of unknown size, or without a duration, are left out
-- doubts: no_copies, absurd_duration
-- HTA: get_memory_bw_time_series,
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/trace_analysis.py
WITH copy AS (
    SELECT trace_id, device_id, copy_kind, start_ns, end_ns, bytes * 1e9 / dur_ns AS bytes_per_s
    FROM gpu_ops
    WHERE copy_kind IS NOT NULL AND bytes IS NOT NULL AND dur_ns > 0
        AND trace_id = coalesce(getvariable('trace'), trace_id)
),
edge AS (
    SELECT trace_id, device_id, copy_kind, at_ns, sum(step)::BIGINT AS step, sum(step * bytes_per_s) AS change
    FROM (
        SELECT *, start_ns AS at_ns, 1 AS step FROM copy
        UNION ALL
        SELECT *, end_ns, -1 FROM copy
    ) GROUP BY ALL
),
running AS (
    SELECT trace_id, device_id, copy_kind, at_ns, (sum(step) OVER so_far)::BIGINT AS copies,
           sum(change) OVER so_far AS bytes_per_s
    FROM edge WINDOW so_far AS (PARTITION BY trace_id, device_id, copy_kind ORDER BY at_ns)
)
-- Sums of fractions leave a remainder when nothing runs.
SELECT trace_id, device_id, copy_kind, at_ns, copies,
       CASE WHEN copies > 0 THEN bytes_per_s ELSE 0 END AS bytes_per_s
FROM running
ORDER BY trace_id, device_id, at_ns, copy_kind
