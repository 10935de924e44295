-- question: Which call sites hold more or less memory, from a to b?
-- since: 0.1
-- of: several traces
-- params a, b, top, moment
-- columns place
-- column a_allocations (count): live allocations of this call site in a at that moment, on all devices
-- column b_allocations (count): live allocations in b
-- column a_bytes (bytes): size of these allocations in a
-- column b_bytes (bytes): size in b
-- column change_bytes (bytes): b_bytes minus a_bytes
-- column a_total_bytes (bytes): size over all call sites in a
-- column b_total_bytes (bytes): size over all call sites in b
-- doubts: no_memory_events
SELECT place, count(*) FILTER (side = 'a') AS a_allocations, count(*) FILTER (side = 'b') AS b_allocations,
       coalesce(sum(bytes) FILTER (side = 'a'), 0)::BIGINT AS a_bytes,
       coalesce(sum(bytes) FILTER (side = 'b'), 0)::BIGINT AS b_bytes, b_bytes - a_bytes AS change_bytes,
       (sum(a_bytes) OVER ())::BIGINT AS a_total_bytes, (sum(b_bytes) OVER ())::BIGINT AS b_total_bytes
FROM allocation JOIN compared_runs USING (trace_id)
WHERE if(coalesce(getvariable('moment'), 'peak') = 'end', end_ns IS NULL, at_peak)
GROUP BY place
ORDER BY abs(change_bytes) DESC, b_bytes DESC, place
LIMIT coalesce(getvariable('top'), 20)
