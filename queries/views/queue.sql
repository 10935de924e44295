-- GPU ops with their delay after the launch as it was: without what a late clock of the device adds.
CREATE OR REPLACE VIEW on_time_ops AS
SELECT * EXCLUDE (late_ns) REPLACE (launch_delay_ns - coalesce(late_ns, 0) AS launch_delay_ns)
FROM gpu_ops LEFT JOIN late_clock USING (trace_id, device_id);

-- The queue between host and device: per stream, the launches on which the device has not begun to work. A
-- graph is one launch. Ops that start before their launch (clocks differ) do not count as queued.
CREATE OR REPLACE VIEW queued_launches AS
SELECT {'trace_id': trace_id, 'device_id': device_id, 'stream': stream} AS key, launch_start_ns AS start_ns,
       launch_start_ns + min(launch_delay_ns) AS end_ns, min(launch_delay_ns) >= 0 AS is_queued
FROM on_time_ops WHERE launch_id IS NOT NULL AND is_asked(trace_id)
GROUP BY trace_id, device_id, stream, launch_id, launch_start_ns;

-- Launch calls of kernels that take as long as loading code does, from `call_ns` on, though their kernel
-- starts within `wait_ns` after them; `is_first`: they launch a kernel for the first time. And calls that
-- load code or ask about it.
CREATE OR REPLACE MACRO cold_calls(call_ns, wait_ns) AS TABLE
WITH launched AS (
    SELECT trace_id, launch_id, event_id, device_id, name, launch_start_ns, queue_wait_ns,
           launch_end_ns - launch_start_ns AS ns
    FROM gpu_ops WHERE is_asked(trace_id) AND kind = 'kernel' AND NOT is_graph
),
slow AS (FROM launched WHERE ns >= call_ns AND queue_wait_ns < wait_ns)
SELECT trace_id, launch_id, FALSE AS loads, bool_or(event_id = first_id) AS is_first, any_value(ns) AS ns
FROM slow JOIN (
    SELECT trace_id, device_id, name, arg_min(event_id, (launch_start_ns, event_id)) AS first_id
    FROM launched SEMI JOIN slow USING (trace_id, device_id, name) GROUP BY ALL
) USING (trace_id, device_id, name)
GROUP BY trace_id, launch_id
UNION ALL
SELECT trace_id, event_id, TRUE, FALSE, dur_ns FROM runtime_calls
WHERE is_asked(trace_id) AND label_id IN (SELECT label_id FROM slice_label
    WHERE regexp_matches(name, '^(cu|hip)(Module|Library)Load|FuncGetAttributes'));

-- The launch calls of each stream that do not wait for their own op: the number of launches queued when the
-- call begins (`met`), and the number, itself included, when it returns (`left_waiting`).
CREATE OR REPLACE VIEW queued_calls AS
WITH call AS (
    SELECT trace_id, device_id, stream, launch_id, launch_start_ns AS start_ns,
           any_value(launch_end_ns) AS end_ns, launch_start_ns + min(launch_delay_ns) AS op_start_ns
    FROM on_time_ops WHERE is_asked(trace_id) AND NOT is_blocking
    GROUP BY trace_id, device_id, stream, launch_id, launch_start_ns
),
placed AS (
    SELECT *, count(*) OVER (queue ORDER BY op_start_ns) AS ops,
           row_number() OVER (queue ORDER BY start_ns, op_start_ns) AS place
    FROM call WINDOW queue AS (PARTITION BY trace_id, device_id, stream)
)
SELECT c.trace_id, c.device_id, c.stream, c.launch_id, c.start_ns, c.end_ns,
       c.place - 1 - coalesce(b.ops, 0) AS met, c.place - coalesce(e.ops, 0) AS left_waiting
FROM placed AS c
ASOF LEFT JOIN placed AS b ON c.trace_id = b.trace_id AND c.device_id = b.device_id AND c.stream = b.stream
    AND c.start_ns > b.op_start_ns
ASOF LEFT JOIN placed AS e ON c.trace_id = e.trace_id AND c.device_id = e.device_id AND c.stream = e.stream
    AND c.end_ns >= e.op_start_ns;
