-- question: How much of the reserved memory is free in pieces, by device and pool, in a memory snapshot?
-- since: 0.1
-- columns device_id, pool
-- column kind (text): small (segments for allocations of at most 1 MB) or large
-- columns stream
-- column segments (count): number of memory pieces that the allocator got from the driver
-- columns segment_bytes, used_bytes
-- column rounding_bytes (bytes): the part of used_bytes that nobody requested
-- columns free_bytes, largest_free_bytes
-- column free_blocks (count): number of free blocks
-- column share_free (fraction of segment_bytes): free_bytes over segment_bytes
-- doubts: no_memory_events
SELECT trace_id, device_id, pool, kind, stream, count(*) AS segments, sum(bytes)::BIGINT AS segment_bytes,
       sum(used_bytes)::BIGINT AS used_bytes, sum(s.used_bytes - requested_bytes)::BIGINT AS rounding_bytes,
       segment_bytes - sum(s.used_bytes)::BIGINT AS free_bytes, max(largest_free_bytes) AS largest_free_bytes,
       sum(free_blocks)::BIGINT AS free_blocks, free_bytes / nullif(segment_bytes, 0) AS share_free
FROM segment AS s WHERE is_asked(trace_id)
GROUP BY trace_id, device_id, pool, kind, stream
ORDER BY trace_id, device_id, segment_bytes DESC, pool, kind, stream
