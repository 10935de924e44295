-- fact: An allocation of memory, from its start until the memory was freed.
-- of: memory_recorded
-- needs: segment_block, stack_frame, thread_segment, thread_slice
CREATE TABLE allocation (
    trace_id INTEGER, event_id BIGINT, -- its record; NULL: it was made before the recording
    device_type BIGINT,  -- 0 is the host
    device_id BIGINT, address UBIGINT, bytes BIGINT,
    start_ns    BIGINT,  -- NULL: before the recording
    end_ns      BIGINT,  -- NULL: after it
    at_peak     BOOLEAN, -- live when the device first had most allocated
    end_id      BIGINT,  -- the record that freed it; NULL: none did
    slice_id    BIGINT,  -- the innermost slice of the host that made it; NULL: none was recorded
    stack_id    BIGINT,  -- the stack that made it, in a snapshot; NULL or 0: none was recorded
    -- The line of the program; without stacks, the module or the outermost operator; in stacks without lines,
    -- the backward node or the operator.
    place       VARCHAR,
    cpu_op      VARCHAR  -- the innermost operator
);
WITH memory AS MATERIALIZED (FROM memory_events WHERE bytes <> 0 AND allocated_bytes IS NOT NULL),
-- An address is live from its allocation to its next event.
held AS MATERIALIZED (
    SELECT *, lead(ts_ns) OVER later AS next_ns, lead(event_id) OVER later AS next_id,
           lag(bytes) OVER later AS former_bytes
    FROM memory
    WINDOW later AS (PARTITION BY trace_id, device_type, device_id, address ORDER BY ts_ns, event_id)
),
made AS (
    -- With the thread's innermost slice at that time.
    SELECT h.trace_id, h.event_id, device_type, device_id, address, bytes, ts_ns AS start_ns,
           next_ns AS end_ns, next_id, s.event_id AS slice_id, stack_id
    FROM (FROM held LEFT JOIN (SELECT trace_id, pid, tid, thread FROM host_thread) USING (trace_id, pid, tid)
        WHERE bytes > 0) AS h
    ASOF LEFT JOIN thread_segment AS s ON h.thread = s.thread AND h.ts_ns >= s.start_ns
    UNION ALL
    SELECT trace_id, NULL, device_type, device_id, address, -bytes, NULL, ts_ns, event_id, NULL, NULL
    FROM held WHERE bytes < 0 AND former_bytes IS NULL
    UNION ALL
    SELECT trace_id, NULL, 1, device_id, address, requested_bytes, NULL, NULL, NULL, NULL, stack_id
    FROM segment_block ANTI JOIN (FROM held WHERE bytes > 0 AND next_ns IS NULL)
        USING (trace_id, device_id, address)
    WHERE state <> 'inactive'
)
SELECT m.trace_id, m.event_id, device_type, device_id, address, bytes, start_ns, end_ns,
       -- Without recorded actions, only the end is known.
       CASE WHEN p.at_ns IS NULL THEN end_ns IS NULL
           ELSE (start_ns IS NULL OR (start_ns, m.event_id) <= (p.at_ns, p.event_id))
               AND (end_ns IS NULL OR (end_ns, next_id) > (p.at_ns, p.event_id)) END,
       CASE WHEN end_ns IS NOT NULL THEN next_id END, slice_id, m.stack_id,
       coalesce(f.place, s.place, 'not recorded'), coalesce(f.cpu_op, s.cpu_op)
FROM made AS m LEFT JOIN highest('memory') AS p USING (trace_id, device_type, device_id)
LEFT JOIN call_site AS s ON m.trace_id = s.trace_id AND m.slice_id = s.event_id
LEFT JOIN stack_frame AS f ON m.trace_id = f.trace_id AND m.stack_id = f.stack_id
