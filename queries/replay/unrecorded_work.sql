-- question: When is a launching thread's work unknown because only its calls were recorded?
-- since: 0.1
-- columns pid, tid, start_ns, dur_ns
-- doubts: no_operators, no_stacks
-- Between two calls it may work, or wait for a lock, a file or another thread; short stretches count as
-- launches.
WITH silent AS (
    SELECT trace_id, pid, tid, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM slices
    WHERE is_asked(trace_id)
    GROUP BY trace_id, pid, tid
    HAVING count(*) FILTER (kind IN ('cpu_op', 'python', 'annotation')) = 0
        AND (trace_id, pid, tid) IN (SELECT (trace_id, pid, tid) FROM launch_call)
)
SELECT trace_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns
FROM host_segment JOIN silent USING (trace_id, pid, tid)
WHERE event_id IS NULL AND end_ns - start_ns >= thresholds().unrecorded_ns
    AND start_ns > first_ns AND end_ns <= last_ns
ORDER BY trace_id, pid, tid, start_ns
