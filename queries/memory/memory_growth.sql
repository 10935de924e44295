-- question: Which lines of a memory snapshot allocate the same again and again, and free none of it?
-- since: 0.1
-- params top
-- columns device_id, place, cpu_op
-- column phase (text): what the program did then: forward, backward, optimizer ...; NULL: no frame tells
-- columns allocations
-- column each_bytes (bytes): size of each
-- columns live_bytes
-- column passes (count): number of forward passes in which, or after which, they were made
-- doubts: no_memory_events
-- Parameters, gradients and optimizer states stay on purpose. One pass through many layers allocates often,
-- too: only repeated passes show growth.
WITH site AS (
    SELECT trace_id, device_id, place, cpu_op, bytes, any_value(phase) AS phase,
           sum(allocations)::BIGINT AS allocations, sum(freed) AS freed, max(passes) AS passes,
           bool_or(role NOT IN ('unknown', 'activations', 'inputs')) AS is_meant, bool_and(evidence NOT IN (
               'allocated before the recording', 'its stack was not recorded')) AS is_told
    FROM memory_role WHERE is_asked(trace_id) GROUP BY ALL
)
SELECT trace_id, device_id, place, cpu_op, phase, allocations, bytes AS each_bytes,
       (allocations * bytes)::BIGINT AS live_bytes, passes
FROM site
WHERE freed = 0 AND is_told AND NOT is_meant AND passes >= thresholds().fewest_alike
ORDER BY live_bytes DESC, trace_id, device_id, place, cpu_op, each_bytes
LIMIT coalesce(getvariable('top'), 20)
