-- CUDA and HIP graphs: what a capture recorded, and what a replay ran.

-- The node of a graph that an event's arguments name: the graph's number, and in the low half that within the
-- graph, as cudaGraphNodeGetToolsId gives it. Some profilers write the latter alone, beside the graph's.
-- https://docs.nvidia.com/cupti/api/structCUpti__ActivityKernel10.html (graphNodeId, graphId)
CREATE OR REPLACE MACRO graph_node_id(args) AS nullif(
    TRY_CAST(args->>'graph node id' AS UBIGINT)
        | CASE WHEN TRY_CAST(args->>'graph node id' AS UBIGINT) >> 32 > 0 THEN 0::UBIGINT
            ELSE coalesce(TRY_CAST(args->>'graph id' AS UINTEGER), 0)::UBIGINT << 32 END, 0);

-- Launches of kernels that a graph's capture recorded instead of running: those of the capture's process,
-- during the capture, that have no GPU op. `place` counts them within the capture, from 1; `kernel` is the
-- kernel's name, which ROCm's launch calls carry and CUDA's do not; `node_id` is the node that the launch
-- made, where its arguments name one, or a node was recorded as it was made in the call; `cpu_op_id` and
-- `outer_op_id` are the innermost and outermost operator around it, if they began in the capture.
CREATE OR REPLACE VIEW captured_launches AS
WITH recorded AS (
    SELECT l.trace_id, capture_id, l.event_id, l.pid, l.tid, l.start_ns, l.dur_ns, l.name,
           l.args->>'kernel' AS kernel, graph_node_id(l.args) AS own_node_id, c.start_ns AS capture_start_ns
    FROM (FROM launches SEMI JOIN graph_captures USING (trace_id)) AS l ASOF JOIN graph_captures AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.start_ns >= c.start_ns
    WHERE launched_kind = 'kernel' AND l.start_ns < c.end_ns
),
captured_node AS (
    SELECT l.trace_id, l.event_id, min(n.node_id) AS node_id
    FROM (FROM graph_node WHERE node_id = root_id) AS n ASOF JOIN recorded AS l
      ON n.trace_id = l.trace_id AND n.pid = l.pid AND n.tid = l.tid AND n.made_ns >= l.start_ns
    WHERE n.made_ns <= l.start_ns + l.dur_ns GROUP BY ALL
)
SELECT r.* EXCLUDE (own_node_id), coalesce(own_node_id, node_id) AS node_id,
       row_number() OVER (PARTITION BY r.trace_id, capture_id ORDER BY r.start_ns, r.event_id) AS place,
       o.event_id AS cpu_op_id, w.event_id AS outer_op_id
FROM recorded AS r LEFT JOIN captured_node AS m USING (trace_id, event_id)
LEFT JOIN thread_slice AS h USING (trace_id, event_id)
LEFT JOIN event_row AS o
  ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id AND o.ts_ns >= capture_start_ns
LEFT JOIN event_row AS w
  ON h.trace_id = w.trace_id AND h.outer_op_id = w.event_id AND w.ts_ns >= capture_start_ns
WHERE (r.trace_id, r.event_id) NOT IN (SELECT (trace_id, launch_id) FROM launch_call);

-- Whether a slice of the host begins in a capture of its process, or closer to one than this.
CREATE OR REPLACE MACRO is_capturing(of_trace, of_process, began_ns, by_ns) AS EXISTS (
    FROM graph_captures AS c(c_trace, capture_id, c_pid, c_tid, from_ns, to_ns)
    WHERE c_trace = of_trace AND c_pid = of_process AND began_ns BETWEEN from_ns - by_ns AND to_ns + by_ns);

-- Kernels that a graph's replay ran, in the order of its nodes, or by start where those are not numbered.
CREATE OR REPLACE VIEW replayed_kernels AS
SELECT g.trace_id, g.launch_id, g.device_id, g.event_id, g.name, g.dur_ns, g.launch_start_ns,
       graph_node_id(e.args) AS node_id, e.args,
       row_number() OVER (PARTITION BY g.trace_id, g.launch_id, g.device_id
           ORDER BY graph_node_id(e.args), g.start_ns, g.event_id) AS place
FROM gpu_ops AS g JOIN event_row AS e ON g.trace_id = e.trace_id AND g.event_id = e.event_id
WHERE g.is_graph AND g.kind = 'kernel';

-- A call of a module, with the names of all modules around it and its own, from the outermost.
CREATE OR REPLACE VIEW module_paths AS
WITH RECURSIVE called AS MATERIALIZED (
    SELECT trace_id, event_id, module_id AS around_id, module_name(name) AS name
    FROM python_frames JOIN thread_slice USING (trace_id, event_id) WHERE is_module
),
path AS (
    SELECT trace_id, event_id AS module_id, [name] AS modules FROM called WHERE around_id IS NULL
    UNION ALL
    SELECT c.trace_id, c.event_id, list_append(p.modules, c.name)
    FROM path AS p JOIN called AS c ON p.trace_id = c.trace_id AND p.module_id = c.around_id
)
FROM path;

-- A captured launch with its operator, the operator's shapes, the modules around it and its Python frame.
CREATE OR REPLACE VIEW captured_site AS
WITH around AS MATERIALIZED (
    SELECT l.*, h.python_id, h.module_id
    FROM captured_launches AS l LEFT JOIN thread_slice AS h USING (trace_id, event_id)
),
named AS MATERIALIZED (
    SELECT trace_id, event_id, l.name, args->>'Input Dims' AS dims
    FROM event_row JOIN slice_label AS l USING (label_id) SEMI JOIN (
        SELECT trace_id, cpu_op_id AS event_id FROM around UNION SELECT trace_id, python_id FROM around
    ) USING (trace_id, event_id)
)
SELECT l.trace_id, l.capture_id, l.event_id, l.place, l.node_id, l.start_ns,
       coalesce(l.kernel, CASE WHEN starts_with(o.name, 'triton_') THEN 'triton_' END) AS kernel,
       l.kernel IS NOT NULL AS is_name, l.cpu_op_id, o.name AS cpu_op, o.dims, m.modules,
       p.name AS python_line
FROM around AS l LEFT JOIN named AS o ON l.trace_id = o.trace_id AND l.cpu_op_id = o.event_id
LEFT JOIN named AS p ON l.trace_id = p.trace_id AND l.python_id = p.event_id
LEFT JOIN module_paths AS m ON l.trace_id = m.trace_id AND l.module_id = m.module_id;

-- Whether captures recur: in most of at least `fewest` marked steps, or in `least` quarters of the launches.
CREATE OR REPLACE MACRO recurs(steps, in_steps, quarters, fewest, least) AS
    CASE WHEN steps >= fewest THEN 2 * in_steps > steps ELSE quarters >= least END;
