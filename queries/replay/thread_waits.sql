-- question: Where does a thread only wait: for a lock, a queue, a socket or a timer?
-- since: 0.1
-- columns event_id, name, pid, tid, start_ns, dur_ns
-- when: has(traits, 'thread_wait')
-- doubts: no_stacks
SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns
FROM slices WHERE has(traits, 'thread_wait') AND dur_ns > 0 AND is_asked(trace_id)
QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
ORDER BY trace_id, pid, tid, start_ns
