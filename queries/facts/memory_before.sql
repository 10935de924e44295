-- fact: A device's memory in a memory snapshot before the first recorded action.
CREATE TABLE memory_before (
    trace_id INTEGER, device_id BIGINT, allocated_bytes BIGINT, reserved_bytes BIGINT
);
SELECT trace_id, (args->>'Device Id')::BIGINT, (args->>'allocated')::BIGINT, (args->>'reserved')::BIGINT
FROM event WHERE category = 'memory_snapshot' AND name = 'before'
