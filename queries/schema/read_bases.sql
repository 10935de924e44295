-- The base time of each trace.
SELECT trace_id, coalesce(base_time_ns, 0) FROM trace ORDER BY trace_id
