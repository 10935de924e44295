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
-- made, where its arguments name one, or a node was recorded as it was made in the call.
CREATE OR REPLACE VIEW captured_launches AS
WITH recorded AS (
    SELECT l.trace_id, capture_id, l.event_id, l.pid, l.tid, l.start_ns, l.dur_ns, l.name,
           l.args->>'kernel' AS kernel, graph_node_id(l.args) AS own_node_id, c.start_ns AS capture_start_ns
    FROM (FROM launches SEMI JOIN graph_captures USING (trace_id)) AS l ASOF JOIN graph_captures AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.start_ns >= c.start_ns
    WHERE launched_kind = 'kernel' AND l.start_ns < c.end_ns
),
made AS (
    SELECT l.trace_id, l.event_id, min(n.node_id) AS node_id
    FROM (FROM graph_node WHERE node_id = root_id) AS n ASOF JOIN recorded AS l
      ON n.trace_id = l.trace_id AND n.pid = l.pid AND n.tid = l.tid AND n.made_ns >= l.start_ns
    WHERE n.made_ns <= l.start_ns + l.dur_ns GROUP BY ALL
)
SELECT r.* EXCLUDE (own_node_id), coalesce(own_node_id, node_id) AS node_id,
       row_number() OVER (PARTITION BY trace_id, capture_id ORDER BY start_ns, event_id) AS place
FROM recorded AS r LEFT JOIN made USING (trace_id, event_id)
WHERE NOT EXISTS (SELECT 1 FROM gpu_op_launch AS l
                  WHERE l.trace_id = r.trace_id AND l.launch_id = r.event_id);

-- The slices of a relation (with trace_id, pid and start_ns, by its name) that begin further than this from
-- any capture of their process.
CREATE OR REPLACE MACRO apart_from_captures(host_slices, by_ns) AS TABLE
SELECT s.* FROM query_table(host_slices) AS s ANTI JOIN graph_captures AS c
  ON s.trace_id = c.trace_id AND s.pid = c.pid
    AND s.start_ns BETWEEN c.start_ns - by_ns AND c.end_ns + by_ns;

-- Kernels that a graph's replay ran, in the order of the graph's nodes, or by start where the trace does not
-- number those.
CREATE OR REPLACE VIEW replayed_kernels AS
SELECT g.trace_id, l.launch_id, g.device_id, g.event_id, g.name, g.dur_ns, l.launch_start_ns,
       graph_node_id(e.args) AS node_id, e.args,
       row_number() OVER (PARTITION BY g.trace_id, l.launch_id, g.device_id
           ORDER BY graph_node_id(e.args), g.start_ns, g.event_id) AS place
FROM gpu_op_launch AS l
JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id
JOIN event_row AS e ON g.trace_id = e.trace_id AND g.event_id = e.event_id
WHERE l.is_graph AND g.kind = 'kernel';
