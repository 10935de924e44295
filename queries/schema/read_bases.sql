-- The base time and the metadata of each trace.
SELECT trace_id, coalesce(base_time_ns, 0), metadata FROM trace ORDER BY trace_id
