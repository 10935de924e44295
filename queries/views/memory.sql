-- What was allocated.

-- Allocator records of profile_memory=True, and of memory snapshots.
CREATE OR REPLACE VIEW memory_events AS
SELECT trace_id, event_id, pid, tid, ts_ns, device_type, device_id, address, bytes,
       m.allocated_bytes + coalesce(b.allocated_bytes, 0) AS allocated_bytes,
       m.reserved_bytes + coalesce(b.reserved_bytes, 0) AS reserved_bytes, stack_id
FROM (
    SELECT
        trace_id, event_id, pid, tid, ts_ns,
        TRY_CAST(args->>'Device Type' AS BIGINT) AS device_type,   -- c10::DeviceType: 0 CPU, 1 CUDA
        TRY_CAST(args->>'Device Id' AS BIGINT) AS device_id,
        TRY_CAST(args->>'Addr' AS UBIGINT) AS address,
        TRY_CAST(args->>'Bytes' AS BIGINT) AS bytes,               -- negative: freed; 0: of a segment
        TRY_CAST(args->>'Total Allocated' AS BIGINT) AS allocated_bytes,
        TRY_CAST(args->>'Total Reserved' AS BIGINT) AS reserved_bytes,
        TRY_CAST(args->>'stack' AS BIGINT) AS stack_id             -- only in snapshots
    FROM event WHERE phase = 'i' AND name = '[memory]'
) AS m LEFT JOIN memory_before AS b USING (trace_id, device_id);

-- When a device first had most allocated.
CREATE OR REPLACE VIEW memory_high AS
SELECT trace_id, device_type, device_id, p.ts_ns AS at_ns, p.event_id, p.allocated_bytes AS peak_bytes,
       p.reserved_bytes
FROM (
    SELECT trace_id, device_type, device_id, arg_max(m, (allocated_bytes, -ts_ns, -event_id)) AS p
    FROM memory_events AS m WHERE allocated_bytes IS NOT NULL GROUP BY trace_id, device_type, device_id
);
