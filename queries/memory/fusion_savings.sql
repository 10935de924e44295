-- question: Which adjacent operators pass intermediates through memory, and what would fusing them save?
-- params trace, top
-- columns trace_id, device_id
-- column first (text): the operator that writes the intermediate
-- column second (text): the next one on its stream, which reads it
-- column shapes (JSON): dimensions of the second one's inputs
-- columns count
-- column intermediate_bytes (bytes): written by the first and read back by the second, over all calls
-- column gpu_ns (ns): time of both operators
-- column saved_ns (ns): an upper bound: the intermediate's share of each operator's bytes, in that operator's
--     time; nothing else may read it
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops
WITH pair AS (FROM fusable_pair WHERE trace_id = coalesce(getvariable('trace'), trace_id))
SELECT
    trace_id, device_id, first, name AS second, dims AS shapes, count(*) AS count,
    (2 * sum(intermediate))::BIGINT AS intermediate_bytes, sum(first_ns + second_ns)::BIGINT AS gpu_ns,
    sum(first_ns * intermediate / first_bytes + second_ns * intermediate / second_bytes)::BIGINT AS saved_ns
FROM pair
GROUP BY trace_id, device_id, first, name, dims
ORDER BY saved_ns DESC, first, second, shapes, trace_id, device_id
LIMIT coalesce(getvariable('top'), 20)
