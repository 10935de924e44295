-- question: Which kernels does each operator launch, and how long do they wait to start?
-- since: 0.1
-- params top, operator
-- columns cpu_op, known_from, name, class, count, gpu_ns
-- column delay_p50_ns (ns): median delay from the operator's start to the kernel's; NULL: run by a replay
-- column delay_max_ns (ns): longest delay
-- column before_call_p50_ns (ns): the first part of the delay: from the operator's start to the launch call
-- column launch_delay_p50_ns (ns): from the call's start to the kernel's
-- columns queue_wait_p50_ns
-- doubts: no_gpu_ops, no_operators, unlinked_gpu_ops, starts_before_launch
-- HTA: get_aten_op_kernels_and_delay (hta/trace_analysis.py).
SELECT o.trace_id, cpu_op, known_from, o.name, class::VARCHAR AS class, count(*) AS count,
       sum(o.dur_ns)::BIGINT AS gpu_ns, percentile(list(o.start_ns - called_ns), 50) AS delay_p50_ns,
       max(o.start_ns - called_ns) AS delay_max_ns,
       percentile(list(launch_start_ns - called_ns), 50) AS before_call_p50_ns,
       percentile(list(launch_delay_ns), 50) AS launch_delay_p50_ns,
       percentile(list(queue_wait_ns), 50) AS queue_wait_p50_ns
FROM gpu_op_origin AS o
LEFT JOIN (SELECT trace_id, event_id, start_ns AS called_ns FROM cpu_ops) AS c
  ON o.trace_id = c.trace_id AND o.cpu_op_id = c.event_id AND NOT starts_with(o.known_from, 'capture')
WHERE cpu_op IS NOT NULL AND is_asked(o.trace_id)
  AND (getvariable('operator') IS NULL OR contains(cpu_op, getvariable('operator')))
GROUP BY o.trace_id, cpu_op, known_from, o.name, class
ORDER BY gpu_ns DESC, cpu_op, known_from, o.name, trace_id
LIMIT coalesce(getvariable('top'), 20)
