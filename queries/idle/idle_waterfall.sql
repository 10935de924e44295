-- question: Which part of a GPU's window is work, and what causes each idle part?
-- since: 0.1
-- params kind
-- columns device_id, kind, name
-- column bar (count): position of the bar, from 1: work first, then idle causes, the longest first
-- column part (text): compute, communication, copy, a late host's activity, device, unlinked, after_last_op
-- columns idle_class, part_ns
-- column until_ns (ns): the sum of bars up to this one; the last is exactly the window's length
-- columns share_of_window
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks, absurd_duration
WITH part AS (
    SELECT trace_id, device_id, kind, name, window_start_ns, window_end_ns,
           CASE WHEN activity <> 'idle' THEN activity WHEN idle_class = 'host_late' THEN cause
               ELSE idle_class END AS part,
           idle_class, sum(ns)::BIGINT AS part_ns
    FROM window_timeline_parts WHERE is_asked(trace_id) AND kind = coalesce(getvariable('kind'), kind)
    GROUP BY ALL
),
placed AS (
    SELECT *, row_number() OVER (
        PARTITION BY trace_id, device_id, kind, name, window_start_ns, window_end_ns
        ORDER BY idle_class IS NOT NULL,
        CASE WHEN idle_class IS NULL THEN array_position(['compute', 'communication', 'copy'], part) END,
        part_ns DESC, part
    ) AS bar
    FROM part
)
SELECT
    trace_id, device_id, kind, name, bar, part, idle_class, part_ns,
    (sum(part_ns) OVER (PARTITION BY trace_id, device_id, kind, name, window_start_ns, window_end_ns
        ORDER BY bar))::BIGINT AS until_ns,
    part_ns / nullif(window_end_ns - window_start_ns, 0) AS share_of_window
FROM placed
ORDER BY trace_id, device_id, kind, window_start_ns, window_end_ns, bar
