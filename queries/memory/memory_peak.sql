-- question: When was allocated memory at its peak, and which operators had allocated the live memory?
-- since: 0.1
-- param top (integer, default 20): number of operators per device
-- columns device_type, device_id
-- column peak_at_ns (ns): time at which allocated memory first reached its peak
-- column peak_bytes (bytes): memory allocated at that time, by the allocator's count
-- columns reserved_bytes
-- column operator (text): the allocating operator, in a snapshot the line; `before recording`: older memory
-- column tensors (count): number of its allocations that were live at the peak
-- column live_bytes (bytes): size of these allocations; a device's rows add up to the peak (over all
--     operators)
-- doubts: no_memory_events
WITH peak AS MATERIALIZED (FROM memory_high WHERE is_asked(trace_id)),
owner AS (
    SELECT trace_id, device_type, device_id, bytes,
           CASE WHEN stack_id > 0 THEN place ELSE coalesce(cpu_op, 'no operator') END AS operator
    FROM allocation WHERE at_peak AND is_asked(trace_id)
        AND (event_id IS NOT NULL OR stack_id > 0)
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
