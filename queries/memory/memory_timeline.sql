-- question: How much memory was allocated and reserved, over time?
-- since: 0.1
-- columns device_type, device_id, at_ns
-- column change_bytes (bytes): bytes allocated; negative: freed
-- column allocated_bytes (bytes): memory allocated by tensors after this event, by the allocator's count
-- columns reserved_bytes
-- doubts: no_memory_events
SELECT trace_id, device_type, device_id, ts_ns AS at_ns, bytes AS change_bytes, allocated_bytes,
       reserved_bytes
FROM memory_events WHERE is_asked(trace_id)
ORDER BY trace_id, device_type, device_id, ts_ns, event_id
