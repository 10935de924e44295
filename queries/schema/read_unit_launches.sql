-- The launches of processes, in the order of the host.
FROM _scratch.unit_launch WHERE pid IS NOT NULL AND trace_id IN (SELECT unnest($traces))
ORDER BY trace_id, start_ns, event_id
