-- question: Which kernels take the most GPU time?
-- params trace, top
-- columns trace_id, name, class, count, total_ns, mean_ns, p50_ns, p99_ns, max_ns, share_of_kernel_time
-- column cpu_op (text): the operator that launched it most often
-- doubts: no_gpu_ops, absurd_duration
WITH top AS (
    SELECT
        trace_id, name, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, max(dur_ns) AS max_ns,
        percentile(list(dur_ns), 50) AS p50_ns, percentile(list(dur_ns), 99) AS p99_ns,
        sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace_id), 0) AS share_of_kernel_time
    FROM gpu_ops
    WHERE kind = 'kernel' AND trace_id = coalesce(getvariable('trace'), trace_id)
    GROUP BY trace_id, name, class
    ORDER BY total_ns DESC, name, trace_id
    LIMIT coalesce(getvariable('top'), 20)
),
launched AS (
    SELECT op.trace_id, op.name, o.name AS cpu_op, count(*) AS times
    FROM gpu_ops AS op JOIN top ON op.trace_id = top.trace_id AND op.name = top.name
    JOIN gpu_op_launch AS l ON op.trace_id = l.trace_id AND op.event_id = l.event_id
    JOIN host_site AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
    JOIN slice_label AS o ON h.op_label = o.label_id
    GROUP BY op.trace_id, op.name, o.name
),
launcher AS (SELECT trace_id, name, arg_min(cpu_op, (-times, cpu_op)) AS cpu_op FROM launched
    GROUP BY trace_id, name)
SELECT
    trace_id, name, class, count, total_ns, total_ns // count AS mean_ns, p50_ns, p99_ns, max_ns,
    share_of_kernel_time, cpu_op
FROM top LEFT JOIN launcher USING (trace_id, name)
ORDER BY total_ns DESC, name, trace_id
