-- fact: A segment: memory that the caching allocator had from the driver when a memory snapshot was taken.
-- of: memory_before
-- needs: segment_block
CREATE TABLE segment (
    trace_id INTEGER, device_id BIGINT, address UBIGINT, bytes BIGINT, stream BIGINT,
    kind         VARCHAR, -- small (for at most 1 MB each) or large
    pool         VARCHAR, -- a CUDA graph's pool, or one of the program; NULL: the common pool
    is_expandable BOOLEAN,
    stack_id     BIGINT,  -- the stack that needed it; 0: not recorded
    blocks       BIGINT,
    used_bytes   BIGINT,  -- in blocks that are in use
    requested_bytes BIGINT, -- requested by the program; the rest of used_bytes is rounding
    free_blocks BIGINT, largest_free_bytes BIGINT
);
WITH known AS (
    SELECT trace_id, (args->>'Device Id')::BIGINT AS device_id, (args->>'address')::UBIGINT AS address,
           (args->>'bytes')::BIGINT AS bytes, (args->>'stream')::BIGINT AS stream, args->>'kind' AS kind,
           args->>'pool' AS pool, (args->>'expandable')::BOOLEAN AS is_expandable,
           (args->>'stack')::BIGINT AS stack_id
    FROM event WHERE category = 'memory_snapshot' AND name = 'segment'
)
SELECT k.*, count(b.bytes), sum_where(b.bytes, state <> 'inactive'),
       sum_where(b.requested_bytes, state <> 'inactive'), count(*) FILTER (state = 'inactive'),
       coalesce(max(b.bytes) FILTER (state = 'inactive'), 0)
FROM known AS k LEFT JOIN segment_block AS b
  ON k.trace_id = b.trace_id AND k.device_id = b.device_id AND k.address = b.segment_address
GROUP BY ALL
