-- question: Which adjacent operators pass intermediates through memory, and what would fusing them save?
-- since: 0.1
-- params top
-- columns device_id
-- column first (text): the operator that writes the intermediate
-- column second (text): the next one on its stream, which reads it
-- columns shapes, count, known_from
-- column intermediate_bytes (bytes): bytes written by the first and read back by the second, over all calls
-- columns gpu_ns
-- column saved_ns (ns): upper bound: each operator's time, times the intermediate's share of its bytes
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops
SELECT
    trace_id, device_id, first, name AS second, dims AS shapes, count(*) AS count, known_from,
    (2 * sum(intermediate))::BIGINT AS intermediate_bytes, sum(first_ns + second_ns)::BIGINT AS gpu_ns,
    sum(first_ns * intermediate / first_bytes + second_ns * intermediate / second_bytes)::BIGINT AS saved_ns
FROM fusable_pair WHERE is_asked(trace_id)
GROUP BY trace_id, device_id, first, name, dims, known_from
ORDER BY saved_ns DESC, first, second, shapes, known_from, trace_id, device_id
LIMIT coalesce(getvariable('top'), 20)
