-- Where each GPU op came from: op -> launch -> CPU op -> module and Python line -> step. What the
-- trace does not tell is NULL.

-- Each launch with what is innermost around it, layer by layer: the last that began at the depth the
-- layer has there.
CREATE OR REPLACE TABLE gpu_op_host AS
SELECT l.trace_id, l.launch_id, o.event_id AS cpu_op_id, p.event_id AS python_id, m.event_id AS module_id
FROM host_launch AS l
ASOF LEFT JOIN (SELECT * FROM host_opening WHERE is_op) AS o
  ON l.thread = o.thread AND l.op_depth = o.op_depth AND l.place > o.place
ASOF LEFT JOIN (SELECT * FROM host_opening WHERE is_python) AS p
  ON l.thread = p.thread AND l.python_depth = p.python_depth AND l.place > p.place
ASOF LEFT JOIN (SELECT * FROM host_opening WHERE is_module) AS m
  ON l.thread = m.thread AND l.module_depth = m.module_depth AND l.place > m.place;

CREATE OR REPLACE VIEW gpu_op_origin AS
SELECT
    op.trace_id, op.event_id, op.kind, op.activity, op.name, op.device_id, op.stream, op.start_ns, op.end_ns, op.dur_ns,
    l.launch_id, l.launch_name, l.launch_start_ns, l.launch_end_ns, l.launch_delay_ns, l.queue_wait_ns,
    o.event_id AS cpu_op_id, o.name AS cpu_op, m.event_id AS module_id, substr(m.name, 12) AS module,
    p.event_id AS python_id, p.name AS python_line,
    CASE WHEN l.launch_start_ns < s.end_ns THEN s.step END AS step
FROM gpu_ops AS op
LEFT JOIN gpu_op_link AS l ON op.trace_id = l.trace_id AND op.event_id = l.event_id
LEFT JOIN gpu_op_host AS h ON l.trace_id = h.trace_id AND l.launch_id = h.launch_id
-- Only what had not ended when the launch began: slices need not nest to the nanosecond.
LEFT JOIN event AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id AND o.dur_ns >= l.launch_start_ns - o.ts_ns
LEFT JOIN event AS p ON h.trace_id = p.trace_id AND h.python_id = p.event_id AND p.dur_ns >= l.launch_start_ns - p.ts_ns
LEFT JOIN event AS m ON h.trace_id = m.trace_id AND h.module_id = m.event_id AND m.dur_ns >= l.launch_start_ns - m.ts_ns
-- The step in which the host launched it.
ASOF LEFT JOIN steps AS s ON op.trace_id = s.trace_id AND l.launch_start_ns >= s.start_ns;
