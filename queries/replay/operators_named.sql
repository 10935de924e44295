-- question: Which operator calls match a pattern by name, without calls nested in another match?
-- params trace, pattern
-- columns trace_id, event_id, name, pid, tid, start_ns, dur_ns
-- doubts: no_operators
WITH named AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns FROM cpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
      AND lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
),
chosen AS (FROM outermost('named'))
SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns FROM chosen
ORDER BY trace_id, pid, tid, start_ns
