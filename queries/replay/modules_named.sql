-- question: Which module calls match a pattern by name, without calls nested in another match?
-- param trace (integer, default all): the trace_id to look at
-- param pattern (text, default '*'): a glob pattern of the module's name; case does not matter
-- column trace_id (id): the trace
-- column event_id (id): the call
-- column name (text): the module
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where it begins
-- column dur_ns (ns): how long it takes
-- doubts: no_modules
WITH named AS (
    SELECT trace_id, event_id, module_name(name) AS name, pid, tid, start_ns, end_ns, dur_ns
    FROM python_frames
    WHERE is_module AND trace_id = coalesce(getvariable('trace'), trace_id)
      AND lower(module_name(name)) GLOB lower(coalesce(getvariable('pattern'), '*'))
),
chosen AS (FROM outermost('named'))
SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns FROM chosen
ORDER BY trace_id, pid, tid, start_ns
