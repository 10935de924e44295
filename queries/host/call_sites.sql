-- question: Where does the host make runtime calls of one kind, and what does each call site cost?
-- since: 0.1
-- param kind (text, default 'allocation'): kind of calls: allocation (bypassing the caching allocator), query
--     (of occupancy or attributes), launch, copy, sync, compilation ...
-- columns call, cpu_op, python_line, count, host_ns, gpu_idle_ns
-- doubts: no_runtime_calls
WITH chosen AS (
    FROM runtime_calls WHERE is_asked(trace_id)
        AND coalesce(getvariable('kind'), 'allocation') IN (activity::VARCHAR, call::VARCHAR)
)
SELECT trace_id, name AS call, cpu_op, line_of(trace_id, line_id, python_id) AS python_line,
       count(*) AS count, sum(dur_ns)::BIGINT AS host_ns, coalesce(sum(gpu_idle_ns), 0)::BIGINT AS gpu_idle_ns
FROM chosen LEFT JOIN call_site USING (trace_id, event_id) LEFT JOIN gpu_waits USING (trace_id, event_id)
GROUP BY ALL
ORDER BY trace_id, host_ns DESC, call, cpu_op, python_line
