-- question: How many operators, launches, waits, allocations, kernels and copied bytes does a step have?
-- params trace
-- columns trace_id
-- column figure (text): operators, launches, synchronisations (calls in which the host waits for a device),
--     allocations (of device memory, past the caching allocator), copied_bytes, kernels, or compiled_regions
-- column class (text): the class of kernels; NULL: something else
-- column name (text): what is counted: the operator, the call, the kernel, the copy's direction, the region
-- column total (count): the number in all steps, for copied_bytes the bytes; without steps, in the whole
--     trace
-- column steps (count): steps; 1 if there are none
-- column per_step (count per step): total over steps
-- doubts: no_gpu_ops, no_runtime_calls, no_operators, no_steps, unlinked_gpu_ops
-- What the host does counts in the step in which it begins, what a device does in the step that launched it.
WITH span AS (
    SELECT t.trace_id, s.start_ns, s.end_ns
    FROM trace AS t LEFT JOIN steps AS s USING (trace_id)
    WHERE t.trace_id = coalesce(getvariable('trace'), t.trace_id)
),
counted AS (
    SELECT trace_id, 'operators' AS figure, NULL AS class, name, start_ns AS at_ns, 1 AS amount FROM cpu_ops
    UNION ALL
    SELECT trace_id, 'launches', NULL, name, start_ns, 1 FROM launches
    UNION ALL
    SELECT trace_id, 'synchronisations', NULL, name, start_ns, 1 FROM syncs WHERE side = 'host'
    UNION ALL
    SELECT trace_id, 'allocations', NULL, name, start_ns, 1 FROM runtime_calls WHERE activity = 'allocation'
    UNION ALL
    SELECT trace_id, 'compiled_regions', NULL, name, start_ns, 1 FROM slices
    WHERE has(traits, 'compiled_region')
    UNION ALL
    SELECT trace_id, 'kernels', op.class, op.name, coalesce(launch_start_ns, op.start_ns), 1
    FROM gpu_ops AS op LEFT JOIN gpu_op_launch AS l USING (trace_id, event_id) WHERE op.kind = 'kernel'
    UNION ALL
    SELECT trace_id, 'copied_bytes', NULL, m.copy_kind, coalesce(launch_start_ns, m.start_ns), m.bytes
    FROM memcpys AS m LEFT JOIN gpu_op_launch AS l USING (trace_id, event_id) WHERE m.bytes IS NOT NULL
)
SELECT c.trace_id, figure, class, name, sum(amount)::BIGINT AS total, any_value(r.steps) AS steps,
       sum(amount) / any_value(r.steps) AS per_step
FROM counted AS c JOIN span AS s ON c.trace_id = s.trace_id
  AND (s.start_ns IS NULL OR (at_ns >= s.start_ns AND at_ns < s.end_ns))
JOIN run_steps AS r ON c.trace_id = r.trace_id
GROUP BY c.trace_id, figure, class, name
ORDER BY c.trace_id, figure, total DESC, name, class
