-- Where each GPU op came from: op -> launch -> CPU op -> module and Python line -> step. What the
-- trace does not tell is NULL.
CREATE OR REPLACE TEMP VIEW cpu_op_layer AS SELECT * FROM host_layer WHERE kind = 'cpu_op';
CREATE OR REPLACE TEMP TABLE cpu_op_edge AS SELECT * FROM slice_edges('cpu_op_layer');
CREATE OR REPLACE TEMP VIEW python_layer AS SELECT * FROM host_layer WHERE kind = 'python';
CREATE OR REPLACE TEMP TABLE python_edge AS SELECT * FROM slice_edges('python_layer');
CREATE OR REPLACE TEMP VIEW module_layer AS SELECT * FROM python_layer WHERE name LIKE 'nn.Module: %';
CREATE OR REPLACE TEMP TABLE module_edge AS SELECT * FROM slice_edges('module_layer');

-- The slices that are innermost of their layer from `at_ns` on (NULL: none).
CREATE OR REPLACE MACRO innermost(edges) AS TABLE
    SELECT e.trace_id, e.pid, e.tid, e.at_ns, max_by(CASE WHEN e.step = 1 THEN e.event_id ELSE p.parent_id END, e.place) AS event_id
    FROM query_table(edges) AS e LEFT JOIN slice_parents(edges) AS p USING (trace_id, pid, tid, event_id)
    GROUP BY ALL;

CREATE OR REPLACE TABLE gpu_op_host AS
WITH launch AS (
    SELECT DISTINCT trace_id, launch_id, pid, tid, launch_start_ns AS at_ns FROM gpu_op_link
)
SELECT
    launch.trace_id, launch.launch_id, o.event_id AS cpu_op_id, p.event_id AS python_id, m.event_id AS module_id
FROM launch
ASOF LEFT JOIN innermost('cpu_op_edge') AS o
  ON launch.trace_id = o.trace_id AND launch.pid = o.pid AND launch.tid = o.tid AND launch.at_ns >= o.at_ns
ASOF LEFT JOIN innermost('python_edge') AS p
  ON launch.trace_id = p.trace_id AND launch.pid = p.pid AND launch.tid = p.tid AND launch.at_ns >= p.at_ns
ASOF LEFT JOIN innermost('module_edge') AS m
  ON launch.trace_id = m.trace_id AND launch.pid = m.pid AND launch.tid = m.tid AND launch.at_ns >= m.at_ns;

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
