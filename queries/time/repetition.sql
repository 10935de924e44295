-- question: Does the run repeat itself?
-- params trace
-- columns trace_id
-- column gpu_ops (count): kernels, copies and fills
-- column repeated (count): those whose name occurs three times or more on their device
-- columns steps
-- column names (count): different names of these ops on a device; without GPU ops, of operators
-- column once (count): those that occur once: a pass that is repeated has none
-- doubts: no_gpu_ops
WITH op AS (
    SELECT trace_id, TRUE AS is_gpu, count(*) AS times FROM gpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) GROUP BY trace_id, device_id, name
    UNION ALL
    SELECT trace_id, FALSE, count(*) FROM slices
    SEMI JOIN (SELECT label_id FROM slice_label WHERE kind = 'cpu_op') USING (label_id)
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
      AND trace_id NOT IN (SELECT trace_id FROM gpu_ops)
    GROUP BY trace_id, name
),
step AS (SELECT trace_id, count(*) AS steps FROM steps GROUP BY trace_id)
SELECT op.trace_id, coalesce(sum(times) FILTER (is_gpu), 0)::BIGINT AS gpu_ops,
       coalesce(sum(times) FILTER (is_gpu AND times >= thresholds().fewest_alike), 0)::BIGINT AS repeated,
       coalesce(any_value(steps), 0) AS steps, count(*) AS names, count(*) FILTER (times = 1) AS once
FROM op LEFT JOIN step USING (trace_id)
GROUP BY op.trace_id
ORDER BY op.trace_id
