-- question: Which operators ask the runtime about occupancy or device attributes, and at what cost?
-- params trace
-- columns trace_id, call, cpu_op, python_line, count, host_ns, gpu_idle_ns
-- doubts: no_runtime_calls
WITH call AS (
    SELECT trace_id, event_id, name, dur_ns FROM runtime_calls
    WHERE call = 'query' AND trace_id = coalesce(getvariable('trace'), trace_id)
),
costed AS (FROM costed_calls('call'))
SELECT trace_id, name AS call, cpu_op, python_line, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns,
       sum(gpu_idle_ns)::BIGINT AS gpu_idle_ns
FROM costed
GROUP BY trace_id, name, cpu_op, python_line
ORDER BY trace_id, host_ns DESC, call, cpu_op, python_line
