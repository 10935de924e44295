-- question: Which launches of graphs have no kernels in the trace?
-- since: 0.1
-- columns event_id, pid, tid, start_ns
-- when: call = 'launch_graph'
-- doubts: no_runtime_calls
SELECT trace_id, event_id, pid, tid, start_ns FROM runtime_calls
WHERE call = 'launch_graph' AND is_asked(trace_id)
    AND (trace_id, event_id) NOT IN (SELECT (trace_id, launch_id) FROM launch_call WHERE is_graph)
ORDER BY trace_id, pid, tid, start_ns
