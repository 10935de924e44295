-- question: Which kernels take the most GPU time?
-- since: 0.1
-- params top
-- columns name, class, count, total_ns, mean_ns, p50_ns, p99_ns, max_ns, share_of_kernel_time
-- column cpu_op (text): the operator that launched the kernel most often
-- columns known_from, module, module_from
-- column flop_per_s (FLOP/s): the FLOPs that are known over the time of the calls whose work is known
-- column bytes_per_s (bytes/s): bytes that they read and write, over the same time; NULL: no work is known
-- column limit_share (fraction of that time): what the device needs for this work at its peaks, without
--     caches; NULL: the peaks are not known
-- column roof (text): math or memory, whichever needs longer for this work
-- column is_exact (boolean): the work is known from shapes; else it is a lower bound
-- doubts: no_gpu_ops, absurd_duration
WITH top AS (
    SELECT
        trace_id, name, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
        max(dur_ns) AS max_ns,
        percentile(list(dur_ns), 50) AS p50_ns, percentile(list(dur_ns), 99) AS p99_ns,
        sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace_id), 0) AS share_of_kernel_time
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
    GROUP BY trace_id, name, class
    ORDER BY total_ns DESC, name, trace_id
    LIMIT coalesce(getvariable('top'), 20)
),
ran AS MATERIALIZED (SELECT trace_id, name, cpu_op, known_from, module, module_from, count(*) AS times
    FROM gpu_op_module SEMI JOIN top USING (trace_id, name) WHERE kind = 'kernel' GROUP BY ALL),
work AS (
    SELECT trace_id, name, round(1e9 * sum(l.flops) / sum(l.dur_ns)) AS flop_per_s,
           round(1e9 * sum(l.bytes) / sum(l.dur_ns)) AS bytes_per_s, bool_and(is_exact) AS is_exact,
           sum(greatest(math_ns, memory_ns)) / sum(l.dur_ns) AS limit_share,
           if(sum(math_ns) > sum(memory_ns), 'math', 'memory') AS roof
    FROM op_limit AS l JOIN gpu_ops AS g USING (trace_id, event_id) SEMI JOIN top USING (trace_id, name)
    WHERE kind = 'kernel' AND l.dur_ns > 0 GROUP BY trace_id, name
),
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
    inside['from'] AS module_from, flop_per_s, bytes_per_s, limit_share, roof, is_exact
FROM top LEFT JOIN place USING (trace_id, name) LEFT JOIN work USING (trace_id, name)
ORDER BY total_ns DESC, name, trace_id
