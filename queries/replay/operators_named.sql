-- question: Which operator calls match a pattern by name, without calls nested in another match?
-- param trace (integer, default all): the trace_id to look at
-- param pattern (text, default '*'): a glob pattern of the name; case does not matter
-- column trace_id (id): the trace
-- column event_id (id): the call
-- column name (text): the operator
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where it begins
-- column dur_ns (ns): how long it takes
-- doubts: no_operators
WITH named AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns FROM cpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
      AND lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
),
chosen AS (FROM outermost('named'))
SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns FROM chosen
ORDER BY trace_id, pid, tid, start_ns
