-- question: Which kernels take the most GPU time in the whole trace, and which in each step?
-- since: 0.1
-- param top (integer, default 20): number of kernels for the trace and for each step
-- column step (text): the step in which the host launched them; NULL: the whole trace
-- columns name, class, count, total_ns, mean_ns, max_ns
-- column share_of_kernel_time (fraction of summed kernel time): total_ns over all kernels in the trace or
--     step
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
WITH kernel AS (
    SELECT trace_id, name, class, dur_ns, launch_start_ns AS at_ns
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
),
by_step AS MATERIALIZED (
    SELECT k.trace_id, CASE WHEN k.at_ns < s.end_ns THEN s.name END AS step, k.name, class,
           count(*) AS count, sum(k.dur_ns)::BIGINT AS total_ns, max(k.dur_ns) AS max_ns
    FROM kernel AS k ASOF LEFT JOIN steps AS s ON k.trace_id = s.trace_id AND k.at_ns >= s.start_ns
    GROUP BY ALL
),
part AS (
    FROM by_step WHERE step IS NOT NULL
    UNION ALL
    SELECT trace_id, NULL, name, class, sum(count)::BIGINT, sum(total_ns)::BIGINT, max(max_ns) FROM by_step
    GROUP BY ALL
)
SELECT trace_id, step, name, class, count, total_ns, total_ns // count AS mean_ns, max_ns,
       total_ns / nullif(sum(total_ns) OVER (PARTITION BY trace_id, step), 0) AS share_of_kernel_time
FROM part
QUALIFY row_number() OVER (PARTITION BY trace_id, step ORDER BY total_ns DESC, name)
    <= coalesce(getvariable('top'), 20)
ORDER BY trace_id, step NULLS FIRST, total_ns DESC, name
