-- question: Which operators ask the runtime about occupancy or device attributes, and what do the questions cost?
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
    WHERE is_runtime_query(name) AND trace_id = coalesce(getvariable('trace'), trace_id)
),
site AS (FROM call_site('call')),
idle AS (
    SELECT trace_id, host_event_id AS event_id, sum(end_ns - start_ns) AS ns FROM gpu_timeline WHERE idle_class = 'host_late' GROUP BY ALL
)
SELECT c.trace_id, c.name AS call, s.cpu_op, s.python_line, count(*) AS count, sum(c.dur_ns)::BIGINT AS host_ns, coalesce(sum(idle.ns), 0)::BIGINT AS gpu_idle_ns
FROM call AS c LEFT JOIN site AS s USING (trace_id, event_id) LEFT JOIN idle USING (trace_id, event_id)
GROUP BY c.trace_id, c.name, s.cpu_op, s.python_line
ORDER BY c.trace_id, host_ns DESC, call, cpu_op, python_line
