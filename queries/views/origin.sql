-- Where each GPU op came from: op -> launch -> CPU op -> module and Python line -> step. Unknown values are
-- NULL.

CREATE OR REPLACE VIEW gpu_op_origin AS
SELECT
    op.trace_id, op.event_id, op.kind, op.activity, op.class, op.name, op.device_id, op.stream, op.start_ns,
    op.end_ns, op.dur_ns,
    l.launch_id, l.launch_name, l.launch_start_ns, l.launch_end_ns, l.is_graph, l.launch_delay_ns,
    l.queue_wait_ns,
    h.cpu_op_id, o.name AS cpu_op, m.event_id AS module_id, module_name(m.name) AS module,
    p.event_id AS python_id, p.name AS python_line,
    CASE WHEN l.launch_start_ns < s.end_ns THEN s.step END AS step
FROM gpu_ops AS op
LEFT JOIN gpu_op_launch AS l ON op.trace_id = l.trace_id AND op.event_id = l.event_id
LEFT JOIN host_site AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
LEFT JOIN slice_label AS o ON h.op_label = o.label_id
LEFT JOIN event AS p ON h.trace_id = p.trace_id AND h.python_id = p.event_id
LEFT JOIN event AS m ON h.trace_id = m.trace_id AND h.module_id = m.event_id
-- The step in which the host launched it.
ASOF LEFT JOIN steps AS s ON op.trace_id = s.trace_id AND l.launch_start_ns >= s.start_ns;
