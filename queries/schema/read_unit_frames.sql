-- The frames and ranges of processes that may recur.
FROM _scratch.unit_frame WHERE pid IS NOT NULL AND trace_id IN (SELECT unnest($traces))
ORDER BY trace_id, start_ns, end_ns DESC, event_id
