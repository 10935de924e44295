-- question: Which call sites hold the memory, at the peak or at the end?
-- since: 0.1
-- params top, moment
-- columns device_type, device_id, place, cpu_op, allocations, live_bytes
-- column share_of_live (fraction of all live bytes of the device): live_bytes over the live bytes of all call
--     sites
-- doubts: no_memory_events
SELECT trace_id, device_type, device_id, place, cpu_op, count(*) AS allocations,
       sum(bytes)::BIGINT AS live_bytes,
       live_bytes / sum(sum(bytes)) OVER (PARTITION BY trace_id, device_type, device_id) AS share_of_live
FROM allocation WHERE is_asked(trace_id)
    AND if(coalesce(getvariable('moment'), 'peak') = 'end', end_ns IS NULL, at_peak)
GROUP BY trace_id, device_type, device_id, place, cpu_op
ORDER BY live_bytes DESC, trace_id, device_type, device_id, place, cpu_op
LIMIT coalesce(getvariable('top'), 20)
