-- Compilation on the launching threads of a process.
SELECT s.start_ns, s.end_ns FROM thread_segment AS s JOIN host_thread AS h USING (thread)
WHERE h.trace_id = $trace AND h.pid = $pid AND host_activity_of(activity_code) = 'compilation'
  AND tid IN (SELECT tid FROM _scratch.unit_launch WHERE trace_id = $trace AND pid = $pid)
ORDER BY s.start_ns
