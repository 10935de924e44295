-- Compilation on the launching threads of processes.
SELECT h.trace_id, h.pid, s.start_ns, s.end_ns FROM thread_segment AS s JOIN host_thread AS h USING (thread)
WHERE h.trace_id IN (SELECT unnest($traces)) AND host_activity_of(activity_code) = 'compilation'
  AND (h.trace_id, h.pid, tid) IN (SELECT (trace_id, pid, tid) FROM _scratch.unit_launch)
ORDER BY h.trace_id, s.start_ns
