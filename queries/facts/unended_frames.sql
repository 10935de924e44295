-- fact: Python frames without their own end.
-- into: recorder_finding
-- needs: thread_slice
-- when: kind = 'python'
-- A call ends before its caller does. A frame whose end the profiler missed ends with the recording, after
-- its caller: github.com/pytorch/pytorch/issues/193440 and pull/189794. Frames that were open when the
-- recording stopped all end with it, each inside its caller.
WITH last AS (
    SELECT trace_id, event_id, name, start_ns, end_ns FROM python_frames
    QUALIFY end_ns >= max(end_ns) OVER (PARTITION BY trace_id) - thresholds().outlived_ns
),
-- The Python frame in which each range began: a range may end inside a call that it contains.
called AS (
    SELECT l.*, caller.ts_ns + caller.dur_ns AS caller_end_ns
    FROM last AS l JOIN thread_slice AS h USING (trace_id, event_id)
    JOIN thread_slice AS around ON l.trace_id = around.trace_id AND h.parent_id = around.event_id
    JOIN event_row AS caller ON l.trace_id = caller.trace_id AND around.python_id = caller.event_id
)
SELECT trace_id, 'unended_calls' AS code, 'warning' AS severity, count(*) AS count,
       format('{:,} Python calls have no end in this trace: from {} on, they last until the recording stops, '
           || 'longer than their callers', count(*), arg_min(name, start_ns)) AS message,
       max(end_ns) - min(start_ns) AS time_ns, arg_min(event_id, start_ns) AS event_id
FROM called WHERE caller_end_ns < end_ns - thresholds().outlived_ns
GROUP BY trace_id HAVING count(*) >= thresholds().fewest_lost
