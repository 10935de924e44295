-- The origin of each GPU op: op -> launch -> CPU op -> module and Python line -> step. Unknown columns
-- are NULL. A graph's kernels share their launch: operator, module and line are those that the
-- program or the graph's capture tells (graph_site), else those around the launch; `known_from`,
-- `module_from` and `line_from` say which. Ids are of slices of the op's own trace.

-- A GPU op with its operator and module. `launch_op` is the operator around the launch.
CREATE OR REPLACE VIEW gpu_op_module AS
SELECT
    op.trace_id, op.event_id, op.kind, op.activity, op.class, op.name, op.device_id, op.stream, op.start_ns,
    op.end_ns, op.dur_ns, op.launch_id, op.is_graph, o.name AS launch_op,
    CASE WHEN g.cpu_op IS NULL THEN h.cpu_op_id WHEN g.capture_trace_id = op.trace_id THEN g.cpu_op_id END
        AS cpu_op_id,
    coalesce(g.cpu_op, o.name) AS cpu_op,
    coalesce(g.op_from, if(o.name IS NULL, NULL, if(op.is_graph, 'graph launch', 'call'))) AS known_from,
    CASE WHEN g.modules IS NULL THEN h.module_id END AS module_id,
    coalesce(g.modules[-1], module_name(m.name)) AS module,
    coalesce(g.modules_from, if(m.name IS NULL, NULL, if(op.is_graph, 'graph launch', 'call'))) AS module_from
FROM gpu_ops AS op
LEFT JOIN graph_site AS g ON op.trace_id = g.trace_id AND op.event_id = g.event_id
LEFT JOIN thread_slice AS h ON op.trace_id = h.trace_id AND op.launch_id = h.event_id
LEFT JOIN slice_label AS o ON h.op_label = o.label_id
LEFT JOIN event_row AS e ON h.trace_id = e.trace_id AND h.module_id = e.event_id
LEFT JOIN slice_label AS m ON e.label_id = m.label_id;

-- The same with its launch, the operator's shapes, Python line (the innermost of the program), step, and the
-- line around the launch.
CREATE OR REPLACE VIEW gpu_op_origin AS
SELECT
    op.*, launch_name, launch_start_ns, launch_end_ns, launch_delay_ns, queue_wait_ns,
    coalesce(g.dims, CASE WHEN g.cpu_op IS NULL THEN o.args->>'Input Dims' END) AS dims,
    CASE WHEN g.python_line IS NULL THEN p.event_id END AS python_id,
    coalesce(g.python_line, frame_name(p.name)) AS python_line,
    coalesce(g.line_from, if(p.name IS NULL, NULL, if(op.is_graph, 'graph launch', 'call'))) AS line_from,
    frame_name(p.name) AS launch_line,
    CASE WHEN l.launch_start_ns < s.end_ns THEN s.step END AS step
FROM gpu_op_module AS op
JOIN gpu_ops AS l ON op.trace_id = l.trace_id AND op.event_id = l.event_id
LEFT JOIN graph_site AS g ON op.trace_id = g.trace_id AND op.event_id = g.event_id
LEFT JOIN thread_slice AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
LEFT JOIN event_row AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id
LEFT JOIN event AS p ON h.trace_id = p.trace_id AND coalesce(h.line_id, h.python_id) = p.event_id
-- The step in which the host launched it.
ASOF LEFT JOIN steps AS s ON op.trace_id = s.trace_id AND l.launch_start_ns >= s.start_ns;
