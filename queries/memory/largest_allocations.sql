-- question: Which single allocations take the most memory, at the peak or at the end?
-- since: 0.1
-- params top, moment
-- columns device_type, device_id, place, cpu_op, address
-- column allocated_bytes (bytes): size of the allocation
-- columns start_ns, end_ns
-- doubts: no_memory_events
SELECT trace_id, device_type, device_id, place, cpu_op, address, bytes AS allocated_bytes, start_ns, end_ns
FROM allocation WHERE is_asked(trace_id)
    AND if(coalesce(getvariable('moment'), 'peak') = 'end', end_ns IS NULL, at_peak)
ORDER BY bytes DESC, trace_id, device_type, device_id, start_ns NULLS FIRST, address
LIMIT coalesce(getvariable('top'), 20)
