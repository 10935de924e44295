-- question: Which operators ask the runtime about occupancy or device attributes, and what do the questions
--     cost?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column call (text): the runtime or driver call
-- column cpu_op (text): the operator around it; NULL: none
-- column python_line (text): the Python frame around it; NULL: none recorded
-- column count (count): calls
-- column host_ns (ns): time of the host in them
-- column gpu_idle_ns (ns): time for which a device waited while the host was in them
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
