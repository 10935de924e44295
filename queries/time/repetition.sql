-- question: Does the run repeat itself?
-- params trace
-- columns trace_id
-- column gpu_ops (count): kernels, copies and fills
-- column repeated (count): those whose name occurs three times or more on their device
-- columns steps
-- doubts: no_gpu_ops
WITH op AS (
    SELECT trace_id, count(*) OVER (PARTITION BY trace_id, device_id, name) AS times FROM gpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
step AS (SELECT trace_id, count(*) AS steps FROM steps GROUP BY trace_id)
SELECT op.trace_id, count(*) AS gpu_ops, count(*) FILTER (times >= thresholds().fewest_alike) AS repeated,
       coalesce(any_value(steps), 0) AS steps
FROM op LEFT JOIN step USING (trace_id)
GROUP BY op.trace_id
ORDER BY op.trace_id
