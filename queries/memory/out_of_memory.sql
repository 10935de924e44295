-- question: Where did the program run out of memory, in a memory snapshot?
-- since: 0.1
-- columns device_id, at_ns
-- column requested_bytes (bytes): size of the failed allocation
-- column device_free_bytes (bytes): free memory left in the driver; NULL: unknown
-- column allocated_bytes (bytes): memory that the program used at that time; NULL: no earlier action was
--     recorded
-- columns reserved_bytes, place
-- doubts: no_memory_events
WITH failed AS (
    SELECT trace_id, event_id, ts_ns, (args->>'Device Id')::BIGINT AS device_id,
           (args->>'size')::BIGINT AS requested_bytes, (args->>'device_free')::BIGINT AS device_free_bytes,
           (args->>'stack')::BIGINT AS stack_id
    FROM event WHERE category = 'memory_snapshot' AND name = 'oom' AND is_asked(trace_id)
)
SELECT o.trace_id, o.device_id, o.ts_ns AS at_ns, requested_bytes, device_free_bytes, m.allocated_bytes,
       m.reserved_bytes, place
FROM failed AS o ASOF LEFT JOIN memory_events AS m
  ON o.trace_id = m.trace_id AND o.device_id = m.device_id AND o.event_id > m.event_id
LEFT JOIN stack_frame AS f ON o.trace_id = f.trace_id AND o.stack_id = f.stack_id
ORDER BY o.trace_id, at_ns, o.event_id
