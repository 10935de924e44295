-- question: How do the figures of b and a differ?
-- since: 0.1
-- of: several traces
-- params a, b
-- column metric (text): the figure: a column of run_metrics down to copied_bytes, with its unit at the end;
--     without those of devices where no run has GPU ops, and without span_ns where one's is a step's and the
--     other's is not
-- column a (the metric's unit): value in a
-- column b (the metric's unit): value in b
-- column change (the metric's unit): b minus a
-- column ratio (b over a): NULL where a is 0
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration, cold_first_step,
--     profiler_dilation
WITH figure AS (
    SELECT *, row_number() OVER () AS place
    FROM run_figures UNPIVOT INCLUDE NULLS (
        figure FOR metric IN (* EXCLUDE (trace_id, unit, units, unit_ns, tokens, samples))
    )
)
SELECT metric, any_value(figure) FILTER (side = 'a') AS a, any_value(figure) FILTER (side = 'b') AS b,
       any_value(figure) FILTER (side = 'b') - any_value(figure) FILTER (side = 'a') AS change,
       any_value(figure) FILTER (side = 'b') / nullif(any_value(figure) FILTER (side = 'a'), 0) AS ratio
FROM figure JOIN compared_runs USING (trace_id)
GROUP BY metric
HAVING count(figure) > 0
   AND (metric <> 'span_ns'
        OR (SELECT count(DISTINCT kind) FROM run_windows SEMI JOIN compared_runs USING (trace_id)
            WHERE is_compared) = 1)
ORDER BY min(place)
