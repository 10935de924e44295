-- question: How much memory was allocated and reserved, over time?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_type (id): c10::DeviceType: 0 CPU, 1 CUDA or ROCm ...
-- column device_id (id): the device of that type
-- column at_ns (ns): when an allocation or a free was recorded
-- column change_bytes (bytes): allocated; negative: freed
-- column allocated_bytes (bytes): allocated by tensors after it, as the allocator counts
-- column reserved_bytes (bytes): held by the caching allocator then
-- doubts: no_memory_events
SELECT trace_id, device_type, device_id, ts_ns AS at_ns, bytes AS change_bytes, allocated_bytes,
       reserved_bytes
FROM memory_events
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
ORDER BY trace_id, device_type, device_id, ts_ns, event_id
