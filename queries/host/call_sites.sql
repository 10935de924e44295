-- question: Where does the host make runtime calls of one kind, and what does each call site cost?
-- also: allocator_calls (kind = allocation), occupancy_queries (kind = query)
-- param kind (text, default 'allocation'): their kind: allocation (past the caching allocator), query (of
--     occupancy or attributes), launch, copy, sync, compilation ...
-- column call (text): the runtime or driver call
-- columns cpu_op, python_line, count, host_ns, gpu_idle_ns
-- doubts: no_runtime_calls
WITH call AS (
    SELECT trace_id, event_id, name, dur_ns FROM runtime_calls
    WHERE coalesce(getvariable('kind'), 'allocation') IN (activity::VARCHAR, call::VARCHAR)
        AND is_asked(trace_id)
)
SELECT trace_id, name AS call, cpu_op, python_line, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns,
       sum(gpu_idle_ns)::BIGINT AS gpu_idle_ns
FROM costed_calls('call')
GROUP BY trace_id, name, cpu_op, python_line
ORDER BY trace_id, host_ns DESC, call, cpu_op, python_line
