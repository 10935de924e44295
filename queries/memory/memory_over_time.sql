-- question: How much memory was allocated and reserved over time, in equal parts of it?
-- param trace (integer, default all): the trace_id to look at
-- param bins (integer, default thresholds().drawn_bins): how many parts
-- column trace_id (id): the trace
-- column device_type (id): c10::DeviceType: 0 CPU, 1 CUDA or ROCm ...
-- column device_id (id): the device of that type
-- column start_ns (ns): where the part begins; parts in which nothing was recorded are left out
-- column allocated_max_bytes (bytes): the most that tensors had allocated in it
-- column allocated_min_bytes (bytes): the least
-- column reserved_max_bytes (bytes): the most that the caching allocator held
-- doubts: no_memory_events
WITH span AS (
    SELECT trace_id, min(ts_ns) AS from_ns,
           greatest(1, ceil((max(ts_ns) + 1 - min(ts_ns))
               / coalesce(getvariable('bins'), thresholds().drawn_bins)))::BIGINT AS bin_ns
    FROM memory_events WHERE trace_id = coalesce(getvariable('trace'), trace_id) GROUP BY trace_id
)
SELECT trace_id, device_type, device_id, from_ns + (ts_ns - from_ns) // bin_ns * bin_ns AS start_ns,
       max(allocated_bytes) AS allocated_max_bytes, min(allocated_bytes) AS allocated_min_bytes,
       max(reserved_bytes) AS reserved_max_bytes
FROM memory_events JOIN span USING (trace_id)
GROUP BY ALL
ORDER BY trace_id, device_type, device_id, start_ns
