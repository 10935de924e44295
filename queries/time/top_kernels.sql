-- question: Which kernels take the most GPU time?
-- since: 0.1
-- params top
-- columns name, class, count, total_ns, mean_ns, p50_ns, p99_ns, max_ns, share_of_kernel_time
-- column cpu_op (text): the operator that launched the kernel most often
-- columns known_from, module, module_from
-- doubts: no_gpu_ops, absurd_duration
WITH top AS (
    SELECT
        trace_id, name, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, max(dur_ns) AS max_ns,
        percentile(list(dur_ns), 50) AS p50_ns, percentile(list(dur_ns), 99) AS p99_ns,
        sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace_id), 0) AS share_of_kernel_time
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
    GROUP BY trace_id, name, class
    ORDER BY total_ns DESC, name, trace_id
    LIMIT coalesce(getvariable('top'), 20)
),
ran AS MATERIALIZED (SELECT trace_id, name, cpu_op, known_from, module, module_from, count(*) AS times
    FROM gpu_op_module SEMI JOIN top USING (trace_id, name) WHERE kind = 'kernel' GROUP BY ALL),
place AS (
    SELECT trace_id, name,
           arg_min({'op': cpu_op, 'from': known_from}, (-times, cpu_op, known_from))
               FILTER (cpu_op IS NOT NULL) AS op,
           arg_min({'name': module, 'from': module_from}, (-times, module, module_from))
               FILTER (module IS NOT NULL) AS inside
    FROM ran GROUP BY trace_id, name
)
SELECT
    trace_id, name, class, count, total_ns, total_ns // count AS mean_ns, p50_ns, p99_ns, max_ns,
    share_of_kernel_time, op.op AS cpu_op, op['from'] AS known_from, inside.name AS module,
    inside['from'] AS module_from
FROM top LEFT JOIN place USING (trace_id, name)
ORDER BY total_ns DESC, name, trace_id
