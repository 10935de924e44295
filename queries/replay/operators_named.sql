-- question: Which calls of operators or modules match a pattern by name, without calls inside another match?
-- since: 0.1
-- params pattern
-- param of (text, default 'operator'): `operator` or `module`
-- columns event_id, name, pid, tid, start_ns, dur_ns
-- doubts: no_operators, no_modules
SELECT trace_id, event_id, if(kind = 'python', module_name(name), name) AS name, pid, tid, start_ns, dur_ns
FROM slices WHERE is_asked(trace_id)
    AND if(coalesce(getvariable('of'), 'operator') = 'module', kind = 'python' AND has(traits, 'module'),
        kind = 'cpu_op')
    AND lower(if(kind = 'python', module_name(slices.name), slices.name))
        GLOB lower(coalesce(getvariable('pattern'), '*'))
QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
ORDER BY trace_id, pid, tid, start_ns
