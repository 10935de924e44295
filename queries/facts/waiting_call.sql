-- fact: A call of the host that waits for a device: a synchronization, or a copy that returns once done.
-- needs: launch_call, thread_slice
CREATE TABLE waiting_call (
    trace_id INTEGER, event_id BIGINT, -- the call
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    is_sized   BOOLEAN, -- in an operator whose result's size depends on values
    is_printed BOOLEAN, -- in the printing of a tensor
    is_read    BOOLEAN, -- it gives the host a value from the device
    cpu_op_id BIGINT, cpu_op VARCHAR, python_id BIGINT, place VARCHAR -- as in call_site
);
WITH call AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns FROM runtime_calls
    WHERE activity IN ('sync', 'copy', 'launch')
        AND (activity <> 'launch'
            OR (trace_id, event_id) IN (SELECT (trace_id, launch_id) FROM launch_call WHERE is_blocking))
),
reading AS (
    SELECT trace_id, pid, tid, start_ns, end_ns, has(traits, 'tensor_text') AS prints FROM slices
    WHERE has(traits, 'tensor_text') OR has(traits, 'data_dependent_size')
),
known AS (
    SELECT c.*, coalesce(bool_or(NOT prints), FALSE) AS is_sized,
           coalesce(bool_or(prints), FALSE) AS is_printed
    FROM call AS c LEFT JOIN reading AS r ON c.trace_id = r.trace_id AND c.pid = r.pid AND c.tid = r.tid
        AND c.start_ns BETWEEN r.start_ns AND r.end_ns
    GROUP BY ALL
),
-- Operators that copied to the host: the wait in them is for that copy.
copying AS (
    SELECT s.trace_id, s.cpu_op_id FROM gpu_ops AS m
    JOIN thread_slice AS s ON m.trace_id = s.trace_id AND m.launch_id = s.event_id
    WHERE copy_kind = 'DtoH'
)
SELECT k.*, is_printed OR is_sized OR has(op_traits, 'reads_device')
           OR (has(op_traits, 'copies') AND (trace_id, cpu_op_id) IN (FROM copying)) AS is_read,
       cpu_op_id, cpu_op, python_id, place
FROM known AS k
LEFT JOIN (FROM call_site SEMI JOIN call USING (trace_id, event_id)) USING (trace_id, event_id)
