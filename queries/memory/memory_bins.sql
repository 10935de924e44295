-- question: Between which bounds were allocated and reserved memory, over time?
-- params trace
-- param bins (integer, default 1000): the number of equal bins for the time with recorded allocations
-- columns trace_id, device_type, device_id
-- column step (text): the profiler step of the host in which the bin's middle lies; NULL: in none
-- columns at_ns, end_ns
-- column min_allocated_bytes (bytes): the least that was allocated in it, as the allocator counts
-- column max_allocated_bytes (bytes): the most; the largest is memory_peak's peak_bytes
-- column min_reserved_bytes (bytes): the least that the caching allocator held
-- column max_reserved_bytes (bytes): the most
-- doubts: no_memory_events
WITH memory AS MATERIALIZED (
    SELECT trace_id, device_type, device_id, ts_ns, event_id, allocated_bytes, reserved_bytes
    FROM memory_events
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) AND allocated_bytes IS NOT NULL
),
span AS (
    SELECT trace_id, device_type, device_id, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns,
           (last_ns - first_ns) // coalesce(getvariable('bins'), 1000) + 1 AS bin_ns
    FROM memory GROUP BY ALL
),
bin AS (
    SELECT trace_id, device_type, device_id, unnest(range(first_ns, last_ns + 1, bin_ns)) AS at_ns,
           at_ns + bin_ns AS end_ns
    FROM span
),
-- The values at the start of a bin count in it, too.
known AS (
    SELECT trace_id, device_type, device_id, first_ns + (ts_ns - first_ns) // bin_ns * bin_ns AS at_ns,
           allocated_bytes, reserved_bytes
    FROM memory JOIN span USING (trace_id, device_type, device_id)
    UNION ALL
    SELECT b.trace_id, b.device_type, b.device_id, b.at_ns, m.allocated_bytes, m.reserved_bytes
    FROM bin AS b ASOF JOIN (
        SELECT trace_id, device_type, device_id, ts_ns,
               arg_max(allocated_bytes, event_id) AS allocated_bytes,
               arg_max(reserved_bytes, event_id) AS reserved_bytes
        FROM memory GROUP BY ALL
    ) AS m ON b.trace_id = m.trace_id AND b.device_type = m.device_type AND b.device_id = m.device_id
        AND b.at_ns > m.ts_ns
),
bound AS (
    SELECT trace_id, device_type, device_id, at_ns, min(allocated_bytes) AS min_allocated_bytes,
           max(allocated_bytes) AS max_allocated_bytes, min(reserved_bytes) AS min_reserved_bytes,
           max(reserved_bytes) AS max_reserved_bytes
    FROM known GROUP BY ALL
),
placed AS (
    SELECT *, (at_ns + end_ns) // 2 AS middle_ns
    FROM bound JOIN bin USING (trace_id, device_type, device_id, at_ns)
)
SELECT p.trace_id, device_type, device_id, CASE WHEN middle_ns < s.end_ns THEN s.name END AS step, at_ns,
       p.end_ns, min_allocated_bytes, max_allocated_bytes, min_reserved_bytes, max_reserved_bytes
FROM placed AS p ASOF LEFT JOIN steps AS s ON p.trace_id = s.trace_id AND middle_ns >= s.start_ns
ORDER BY p.trace_id, device_type, device_id, at_ns
