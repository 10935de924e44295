-- The steps that processes mark; those of processes that launch nothing are any process's (pid NULL).
SELECT m.trace_id, l.pid, name, start_ns, end_ns
FROM _scratch.step_mark AS m LEFT JOIN (SELECT DISTINCT trace_id, pid FROM _scratch.unit_launch) AS l
  ON m.trace_id = l.trace_id AND m.pid = l.pid
WHERE m.pid IS NOT NULL AND m.trace_id IN (SELECT unnest($traces))
ORDER BY m.trace_id, start_ns, event_id
