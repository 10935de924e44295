-- question: What were the minimum and maximum of allocated and reserved memory, over time?
-- since: 0.1
-- param bins (integer, default 1000): number of equal bins over the time with recorded allocations
-- columns device_type, device_id
-- column step (text): the step of the host that contains the bin's middle; NULL: none
-- columns start_ns, end_ns
-- column min_allocated_bytes (bytes): minimum allocated memory in the bin, by the allocator's count
-- column max_allocated_bytes (bytes): maximum; the largest is memory_peak's peak_bytes
-- column min_reserved_bytes (bytes): minimum memory reserved by the caching allocator
-- column max_reserved_bytes (bytes): maximum
-- doubts: no_memory_events
WITH memory AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_type': device_type, 'device_id': device_id} AS key,
           ts_ns AS start_ns, coalesce(lead(ts_ns) OVER later, ts_ns) + 1 AS end_ns, allocated_bytes,
           reserved_bytes
    FROM memory_events WHERE is_asked(trace_id) AND allocated_bytes IS NOT NULL
    WINDOW later AS (PARTITION BY trace_id, device_type, device_id ORDER BY ts_ns, event_id)
),
span AS (
    SELECT key, min(start_ns) AS first_ns,
           (max(start_ns) - first_ns) // coalesce(getvariable('bins'), 1000) + 1 AS bin_ns,
           max(start_ns) + bin_ns AS last_ns
    FROM memory GROUP BY key
),
-- Values hold until the next one, so the value at the start of a bin counts in it, too.
placed AS (
    SELECT key.trace_id AS trace_id, key.device_type AS device_type, key.device_id AS device_id,
           from_ns AS start_ns, from_ns + bin_ns AS end_ns, from_ns + bin_ns // 2 AS middle_ns,
           min(allocated_bytes) AS min_allocated_bytes, max(allocated_bytes) AS max_allocated_bytes,
           min(reserved_bytes) AS min_reserved_bytes, max(reserved_bytes) AS max_reserved_bytes
    FROM interval_bins('memory', 'span') GROUP BY ALL
)
SELECT p.trace_id, device_type, device_id, CASE WHEN middle_ns < s.end_ns THEN s.name END AS step,
       p.start_ns, p.end_ns, min_allocated_bytes, max_allocated_bytes, min_reserved_bytes, max_reserved_bytes
FROM placed AS p ASOF LEFT JOIN steps AS s ON p.trace_id = s.trace_id AND middle_ns >= s.start_ns
ORDER BY p.trace_id, device_type, device_id, p.start_ns
