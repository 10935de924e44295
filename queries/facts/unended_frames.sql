-- fact: Python frames that have no end of their own.
-- into: recorder_finding
-- needs: slice_label
-- when: kind = 'python'
-- A call ends before its caller does. A frame whose end the profiler missed ends with the recording, after its
-- caller: github.com/pytorch/pytorch/issues/193440 and pull/189794. Frames that were open when the recording
-- stopped all end with it, each inside its caller.
WITH frame AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns, name,
           end_ns >= max(end_ns) OVER (PARTITION BY trace_id) - thresholds().outlived_ns AS is_last
    FROM python_frames
),
around AS (
    SELECT *, max(end_ns) FILTER (NOT is_last) OVER (PARTITION BY trace_id, pid, tid
        ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS caller_end_ns
    FROM frame
)
SELECT trace_id, 'unended_calls' AS code, 'warning' AS severity, count(*) AS count,
       format('{:,} Python calls have no end in this trace: from {} on, they last until the recording stops, '
           || 'longer than their callers', count(*), arg_min(name, start_ns)) AS message,
       max(end_ns) - min(start_ns) AS time_ns, arg_min(event_id, start_ns) AS event_id
FROM around WHERE is_last AND start_ns < caller_end_ns AND caller_end_ns < end_ns - thresholds().outlived_ns
GROUP BY trace_id
