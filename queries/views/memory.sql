-- Allocations of memory.

-- Allocator records of profile_memory=True, and of memory snapshots.
CREATE OR REPLACE VIEW memory_events AS
SELECT e.trace_id, event_id, pid, tid, ts_ns,
       m."Device Type" AS device_type,   -- c10::DeviceType: 0 CPU, 1 CUDA
       m."Device Id" AS device_id, m."Addr" AS address,
       m."Bytes" AS bytes,               -- negative: freed; 0: of a segment
       m."Total Allocated" + coalesce(b.allocated_bytes, 0) AS allocated_bytes,
       m."Total Reserved" + coalesce(b.reserved_bytes, 0) AS reserved_bytes,
       m.stack AS stack_id               -- only in snapshots
FROM (
    SELECT trace_id, event_id, pid, tid, ts_ns, json_transform(args, '{
        "Device Type": "BIGINT", "Device Id": "BIGINT", "Addr": "UBIGINT", "Bytes": "BIGINT",
        "Total Allocated": "BIGINT", "Total Reserved": "BIGINT", "stack": "BIGINT"}') AS m
    FROM event WHERE phase = 'i' AND name = '[memory]'
) AS e LEFT JOIN memory_before AS b ON e.trace_id = b.trace_id AND m."Device Id" = b.device_id;

-- The time when a device's allocated memory first peaked, from memory_events.
CREATE OR REPLACE MACRO highest(events) AS TABLE
SELECT trace_id, device_type, device_id, p.ts_ns AS at_ns, p.event_id, p.allocated_bytes AS peak_bytes,
       p.reserved_bytes
FROM (
    SELECT trace_id, device_type, device_id, arg_max(
            {'ts_ns': ts_ns, 'event_id': event_id, 'allocated_bytes': allocated_bytes,
             'reserved_bytes': reserved_bytes}, (allocated_bytes, -ts_ns, -event_id)) AS p
    FROM query_table(events) WHERE allocated_bytes IS NOT NULL GROUP BY trace_id, device_type, device_id
);
CREATE OR REPLACE VIEW memory_high AS FROM highest('memory_events');
