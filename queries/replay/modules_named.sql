-- question: Which calls of modules have such a name, not counting those inside another such call?
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
SELECT trace_id, event_id, module_name(name) AS name, pid, tid, start_ns, dur_ns FROM python_frames
WHERE is_module AND trace_id = coalesce(getvariable('trace'), trace_id)
  AND lower(module_name(name)) GLOB lower(coalesce(getvariable('pattern'), '*'))
QUALIFY (start_ns >= max(end_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, end_ns DESC
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS NOT FALSE
ORDER BY trace_id, pid, tid, start_ns
