-- question: Which calls that wait for a device match a pattern by name or by their operator's name?
-- since: 0.1
-- params pattern
-- columns event_id, name, cpu_op, pid, tid, start_ns, dur_ns
-- doubts: no_runtime_calls
SELECT trace_id, event_id, name, cpu_op, pid, tid, start_ns, dur_ns
FROM waiting_call WHERE is_asked(trace_id) AND (lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
    OR lower(cpu_op) GLOB lower(coalesce(getvariable('pattern'), '*')))
ORDER BY trace_id, pid, tid, start_ns
