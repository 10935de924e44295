-- question: How many operators, launches, waits, allocations, kernels and copied bytes does a step have?
-- column figure (text): operators, launches, synchronisations (calls in which the host waits for a device),
--     allocations (of device memory, past the caching allocator), copied_bytes, kernels, or compiled_regions
-- column class (text): the class of kernels; NULL: something else
-- column name (text): what is counted: the operator, the call, the kernel, the copy's direction, the region
-- column total (count): the number in all steps, for copied_bytes the bytes; without steps, in the trace
-- column steps (count): steps; 1 if there are none
-- columns per_step
-- doubts: no_gpu_ops, no_runtime_calls, no_operators, no_steps, unlinked_gpu_ops
-- What the host does counts in the step in which it begins, what a device does in the step that launched it.
SELECT trace_id, figure, class, name, sum(amount)::BIGINT AS total, any_value(steps) AS steps,
       sum(amount) / any_value(steps) AS per_step
FROM counted_work WHERE is_asked(trace_id)
GROUP BY trace_id, figure, class, name
ORDER BY trace_id, figure, total DESC, name, class
