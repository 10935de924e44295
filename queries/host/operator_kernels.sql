-- question: Which kernels does each operator launch, and how long do they wait between the call and their
--     start?
-- param trace (integer, default all): the trace_id to look at
-- param top (integer, default 20): how many rows
-- param operator (text, default all): only operators whose name contains this
-- column trace_id (id): the trace
-- column cpu_op (text): the innermost operator around the launch
-- column name (text): the kernel, copy or fill
-- column class (text): gemm, attention, convolution ... by its name; memcpy or memset
-- column count (count): how often it launched that
-- column gpu_ns (ns): sum of their durations
-- column delay_p50_ns (ns): from the start of the operator to that of the kernel: the middle one of the
--     sorted delays
-- column delay_max_ns (ns): the longest
-- column before_call_p50_ns (ns): of that, from the start of the operator to the launch call
-- column launch_delay_p50_ns (ns): from the start of the call to that of the kernel
-- column queue_wait_p50_ns (ns): from the return of the call to the start of the kernel, not below 0
-- doubts: no_gpu_ops, no_operators, unlinked_gpu_ops, starts_before_launch
-- HTA: get_aten_op_kernels_and_delay,
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/trace_analysis.py
SELECT o.trace_id, cpu_op, o.name, g.class::VARCHAR AS class, count(*) AS count,
       sum(o.dur_ns)::BIGINT AS gpu_ns,
       percentile(list(o.start_ns - c.start_ns), 50) AS delay_p50_ns,
       max(o.start_ns - c.start_ns) AS delay_max_ns,
       percentile(list(launch_start_ns - c.start_ns), 50) AS before_call_p50_ns,
       percentile(list(launch_delay_ns), 50) AS launch_delay_p50_ns,
       percentile(list(queue_wait_ns), 50) AS queue_wait_p50_ns
FROM gpu_op_origin AS o JOIN gpu_ops AS g USING (trace_id, event_id)
JOIN cpu_ops AS c ON o.trace_id = c.trace_id AND o.cpu_op_id = c.event_id
WHERE o.trace_id = coalesce(getvariable('trace'), o.trace_id)
  AND (getvariable('operator') IS NULL OR contains(cpu_op, getvariable('operator')))
GROUP BY o.trace_id, cpu_op, o.name, g.class
ORDER BY gpu_ns DESC, cpu_op, o.name, trace_id
LIMIT coalesce(getvariable('top'), 20)
