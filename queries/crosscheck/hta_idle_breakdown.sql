-- question: What is HTA's idle time breakdown: which gaps of each stream waited for the host?
-- since: 0.1
-- param consecutive_kernel_delay_ns (integer, default thresholds().kernel_wait_ns): shorter gaps are
--     kernel_wait
-- columns stream
-- column idle_category (text): host_wait (launched after the last op ended), kernel_wait (short gap) or other
-- column idle_ns (ns): sum of the gaps; a gap before which ops overlapped is negative
-- HTA's function is get_idle_time_breakdown. It selects GPU ops by category, one stream at a time, and takes
-- the start of the event linked_id as the launch; for an op without a launch, that is the trace's first
-- event. Its sort does not define the order of ops that start together on a stream; here the file's order
-- decides.
WITH held AS (FROM hta_events),
op AS (
    SELECT o.trace_id, o.stream, o.event_id, o.start_ns, o.end_ns, l.start_ns AS launch_start_ns,
           unnest(range(o.copies)) AS copy
    FROM held AS o LEFT JOIN held AS l ON o.trace_id = l.trace_id AND o.linked_id = l.event_id
    WHERE o.stream <> -1
        AND o.category IN ('kernel', 'Kernel', 'gpu_memset', 'Memset', 'gpu_memcpy', 'Memcpy',
            'mtia_ccp_events')
),
gap AS (
    SELECT trace_id, stream, start_ns - lag(end_ns) OVER in_order AS gap_ns,
           CASE WHEN launch_start_ns > lag(end_ns) OVER in_order THEN 'host_wait'
               WHEN gap_ns < coalesce(getvariable('consecutive_kernel_delay_ns'), thresholds().kernel_wait_ns)
               THEN 'kernel_wait' ELSE 'other' END AS idle_category
    FROM op WINDOW in_order AS (PARTITION BY trace_id, stream ORDER BY start_ns, event_id, copy)
)
SELECT trace_id, stream, idle_category, coalesce(sum(gap_ns), 0)::BIGINT AS idle_ns
FROM gap
GROUP BY trace_id, stream, idle_category
ORDER BY trace_id, stream, idle_category
