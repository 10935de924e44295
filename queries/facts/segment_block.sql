-- fact: A block of a segment when a memory snapshot was taken: memory in use, or free to be used again.
-- of: memory_before
CREATE TABLE segment_block (
    trace_id INTEGER, device_id BIGINT, segment_address UBIGINT, address UBIGINT, bytes BIGINT,
    requested_bytes BIGINT,  -- requested by the program
    state           VARCHAR, -- active_allocated, active_pending_free (another stream uses it) or inactive
    stack_id        BIGINT   -- the stack that allocated it; 0: not recorded
);
SELECT trace_id, (args->>'Device Id')::BIGINT, (args->>'segment')::UBIGINT, (args->>'Addr')::UBIGINT,
       (args->>'bytes')::BIGINT, (args->>'requested')::BIGINT, args->>'state', (args->>'stack')::BIGINT
FROM event WHERE category = 'memory_snapshot' AND name = 'block'
