-- question: When was allocated memory at its peak, and which operators had allocated the live memory?
-- params trace
-- param top (integer, default 20): how many operators of a device
-- columns trace_id, device_type, device_id
-- column peak_at_ns (ns): when the most was allocated, for the first time
-- column peak_bytes (bytes): how much, as the allocator counts
-- columns reserved_bytes
-- column operator (text): the operator that allocated; `before recording`: live when recording began
-- column tensors (count): allocations of it that were live at the peak
-- column live_bytes (bytes): how much these take; a device's rows add up to the peak (over all operators)
-- doubts: no_memory_events
WITH memory AS (SELECT * FROM memory_events WHERE trace_id = coalesce(getvariable('trace'), trace_id)
    AND allocated_bytes IS NOT NULL),
peak AS (
    SELECT trace_id, device_type, device_id, p.allocated_bytes AS peak_bytes, p.ts_ns AS at_ns,
           p.event_id AS peak_id, p.reserved_bytes
    FROM (
        SELECT trace_id, device_type, device_id, arg_max(m, (allocated_bytes, -ts_ns, -event_id)) AS p
        FROM memory AS m GROUP BY trace_id, device_type, device_id
    )
),
-- An address is live from its allocation to the next event of it.
held AS MATERIALIZED (
    SELECT *, lead(ts_ns) OVER later AS next_ns, lead(event_id) OVER later AS next_id
    FROM memory WINDOW later AS (PARTITION BY trace_id, device_type, device_id, address
        ORDER BY ts_ns, event_id)
),
-- With the innermost slice of the thread then.
placed AS MATERIALIZED (
    SELECT h.*, s.event_id AS slice_id FROM held AS h ASOF LEFT JOIN host_segment AS s
      ON h.trace_id = s.trace_id AND h.pid = s.pid AND h.tid = s.tid AND h.ts_ns >= s.start_ns
),
live AS MATERIALIZED (
    SELECT h.trace_id, h.device_type, h.device_id, h.slice_id, h.bytes
    FROM placed AS h JOIN peak AS p USING (trace_id, device_type, device_id)
    WHERE h.bytes > 0 AND (h.ts_ns, h.event_id) <= (p.at_ns, p.peak_id)
        AND (next_ns IS NULL OR (next_ns, next_id) > (p.at_ns, p.peak_id))
),
owner AS (
    SELECT p.trace_id, p.device_type, p.device_id, p.bytes, coalesce(o.name, 'no operator') AS operator
    FROM live AS p LEFT JOIN host_site AS s ON p.trace_id = s.trace_id AND p.slice_id = s.event_id
    LEFT JOIN event AS o ON s.trace_id = o.trace_id AND s.cpu_op_id = o.event_id
),
summed AS (
    SELECT trace_id, device_type, device_id, operator, count(*) AS tensors, sum(bytes)::BIGINT AS live_bytes
    FROM owner GROUP BY ALL
    UNION ALL
    SELECT trace_id, device_type, device_id, 'before recording', NULL,
           any_value(peak_bytes) - coalesce(sum(o.bytes), 0)::BIGINT
    FROM peak LEFT JOIN owner AS o USING (trace_id, device_type, device_id) GROUP BY ALL
)
SELECT trace_id, device_type, device_id, at_ns AS peak_at_ns, peak_bytes, reserved_bytes, operator, tensors,
       live_bytes
FROM peak JOIN summed USING (trace_id, device_type, device_id)
QUALIFY row_number() OVER (PARTITION BY trace_id, device_type, device_id ORDER BY live_bytes DESC, operator)
    <= coalesce(getvariable('top'), 20)
ORDER BY trace_id, device_type, device_id, live_bytes DESC, operator
