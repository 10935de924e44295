-- The launches of a process, in the order of the host.
FROM _scratch.unit_launch WHERE trace_id = $trace AND pid = $pid ORDER BY start_ns, event_id
