-- question: Where does the host wait for the device, and what does each call site cost?
-- since: 0.1
-- params top
-- columns call, cpu_op, python_line, count, host_ns, max_ns
-- column covered_ns (ns): the part of host_ns during which some device was busy: the host waited for it
-- columns gpu_idle_ns
-- doubts: no_runtime_calls, no_stacks
WITH chosen AS (FROM waiting_call WHERE is_asked(trace_id)),
wait AS (SELECT trace_id AS key, event_id, start_ns, end_ns FROM chosen),
work AS (SELECT trace_id AS key, start_ns, end_ns FROM gpu_ops WHERE is_asked(trace_id)),
covered AS (SELECT key AS trace_id, event_id, covered_ns AS ns FROM interval_covered('wait', 'work'))
SELECT trace_id, name AS call, cpu_op, line_of(trace_id, line_id, python_id) AS python_line,
       count(*) AS count, sum(dur_ns)::BIGINT AS host_ns, max(dur_ns) AS max_ns,
       sum(covered.ns)::BIGINT AS covered_ns, coalesce(sum(gpu_idle_ns), 0)::BIGINT AS gpu_idle_ns
FROM chosen JOIN covered USING (trace_id, event_id) LEFT JOIN gpu_waits USING (trace_id, event_id)
LEFT JOIN (SELECT trace_id, event_id, line_id FROM thread_slice) USING (trace_id, event_id)
GROUP BY ALL
ORDER BY host_ns DESC, call, trace_id
LIMIT coalesce(getvariable('top'), 20)
