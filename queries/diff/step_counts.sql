-- question: How many operators, launches, waits, allocations, kernels and copied bytes does a step have?
-- since: 0.1
-- columns figure, class, name, total
-- column steps (count): number of steps; 1 if no steps are marked
-- columns per_step
-- doubts: no_gpu_ops, no_runtime_calls, no_operators, no_steps, unlinked_gpu_ops
-- Host work counts in the step in which it begins, device work in the step that launched it.
SELECT trace_id, figure, class, name, sum(amount)::BIGINT AS total, any_value(steps) AS steps,
       sum(amount) / any_value(steps) AS per_step
FROM counted_work WHERE is_asked(trace_id)
GROUP BY trace_id, figure, class, name
ORDER BY trace_id, figure, total DESC, name, class
