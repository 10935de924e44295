-- question: Which calls that wait for a device match a pattern by name or by their operator's name?
-- param trace (integer, default all): the trace_id to look at
-- param pattern (text, default '*'): a glob pattern of the call's or the operator's name; case does not
--     matter
-- column trace_id (id): the trace
-- column event_id (id): the call
-- column name (text): its name
-- column cpu_op (text): the operator around it; NULL: none
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where it begins
-- column dur_ns (ns): how long it takes
-- doubts: no_runtime_calls
WITH call AS (FROM waiting_calls()),
site AS (FROM call_site('call'))
SELECT trace_id, event_id, name, cpu_op, pid, tid, start_ns, dur_ns
FROM call LEFT JOIN site USING (trace_id, event_id)
WHERE lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
    OR lower(cpu_op) GLOB lower(coalesce(getvariable('pattern'), '*'))
ORDER BY trace_id, pid, tid, start_ns
