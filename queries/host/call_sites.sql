-- question: Where does the host make runtime calls of one kind, and what does each call site cost?
-- also: allocator_calls (kind = allocation), occupancy_queries (kind = query)
-- params trace
-- param kind (text, default 'allocation'): their kind: allocation (past the caching allocator), query (of
--     occupancy or attributes), launch, copy, sync, compilation ...
-- columns trace_id
-- column call (text): the runtime or driver call
-- columns cpu_op, python_line, count, host_ns, gpu_idle_ns
-- doubts: no_runtime_calls
WITH call AS (
    SELECT trace_id, event_id, name, dur_ns FROM runtime_calls
    WHERE coalesce(getvariable('kind'), 'allocation') IN (activity::VARCHAR, call::VARCHAR)
        AND trace_id = coalesce(getvariable('trace'), trace_id)
),
costed AS (FROM costed_calls('call'))
SELECT trace_id, name AS call, cpu_op, python_line, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns,
       sum(gpu_idle_ns)::BIGINT AS gpu_idle_ns
FROM costed
GROUP BY trace_id, name, cpu_op, python_line
ORDER BY trace_id, host_ns DESC, call, cpu_op, python_line
