-- question: At which lines of the program does a step run what step_counts counts?
-- since: 0.1
-- columns figure, name, place, total, per_step
-- doubts: no_operators, no_stacks, no_steps, unlinked_gpu_ops
WITH counted AS (FROM counted_work WHERE is_asked(trace_id))
SELECT trace_id, figure, name, place, sum(amount)::BIGINT AS total, sum(amount) / any_value(steps) AS per_step
FROM counted LEFT JOIN call_site USING (trace_id, event_id)
GROUP BY trace_id, figure, name, place
ORDER BY trace_id, figure, total DESC, name, place
