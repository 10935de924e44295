-- question: Which segments have the most free memory between their blocks, in a memory snapshot?
-- since: 0.1
-- params top
-- columns device_id, address, stream
-- column kind (text): small (for allocations of at most 1 MB) or large
-- columns pool, segment_bytes, used_bytes, free_bytes, largest_free_bytes
-- column blocks (count): number of blocks, in use or free
-- columns place
-- doubts: no_memory_events
SELECT s.trace_id, device_id, address, stream, kind, pool, bytes AS segment_bytes, used_bytes,
       bytes - used_bytes AS free_bytes, largest_free_bytes, blocks, place
FROM segment AS s LEFT JOIN stack_frame AS f USING (trace_id, stack_id) WHERE is_asked(s.trace_id)
ORDER BY free_bytes DESC, s.trace_id, device_id, address
LIMIT coalesce(getvariable('top'), 20)
