-- question: In a trace without GPU ops, what did the thread that runs most operators do, instant by instant?
-- since: 0.1
-- columns pid, tid, start_ns, dur_ns
-- column cause (text): the thread's activity, or the limit of its computation (math-or-memory: unknown)
-- doubts: no_operators, no_shapes, begin_end_events
SELECT trace_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       CASE role WHEN 'compute' THEN coalesce(limit_by, 'math-or-memory')
           ELSE host_cause(role, end_ns - start_ns >= thresholds().unrecorded_ns) END AS cause
FROM cpu_stretches(getvariable('trace'))
ORDER BY trace_id, start_ns
