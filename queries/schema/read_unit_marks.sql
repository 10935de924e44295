-- The steps that a process marks, and those of processes that launch nothing.
SELECT name, start_ns, end_ns FROM _scratch.step_mark
WHERE trace_id = $trace
  AND (pid = $pid OR pid NOT IN (SELECT pid FROM _scratch.unit_launch WHERE trace_id = $trace))
ORDER BY start_ns, event_id
