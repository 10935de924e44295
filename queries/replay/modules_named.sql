-- question: Which module calls match a pattern by name, without calls nested in another match?
-- params trace, pattern
-- columns trace_id, event_id, name, pid, tid, start_ns, dur_ns
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
