-- The frames and ranges of a process that may recur.
FROM _scratch.unit_frame WHERE trace_id = $trace AND pid = $pid ORDER BY start_ns, end_ns DESC, event_id
