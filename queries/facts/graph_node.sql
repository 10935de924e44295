-- fact: A node of a graph that a profiler saw being made, or cloned when the graph was made executable.
-- needs: slice_label
-- when: kind = 'graph_node'
-- Nsight Systems records both; a replay's kernels name the clone.
-- https://docs.nvidia.com/nsight-systems/UserGuide (CUDA_GRAPH_NODE_EVENTS; "Find CUDA API calls that
-- resulted in original graph node creation")
CREATE TABLE graph_node (
    trace_id INTEGER, node_id UBIGINT, -- the node, as `graph_node_id` gives it
    root_id  UBIGINT, -- the captured node that it was cloned from; its own id: it was captured
    pid BIGINT, tid BIGINT,
    made_ns  BIGINT   -- when it was made
);
WITH RECURSIVE node AS MATERIALIZED (
    SELECT trace_id, graph_node_id(args) AS node_id, pid, tid, min(ts_ns) AS made_ns,
           max(nullif(TRY_CAST(args->>'original graph node id' AS UBIGINT), 0)) AS cloned_id
    FROM event_row WHERE label_id IN (SELECT label_id FROM slice_label WHERE kind = 'graph_node')
    GROUP BY ALL HAVING node_id IS NOT NULL
),
-- UNION makes a set, so the recursion ends even if nodes name each other in a circle; they have no root.
line AS (
    SELECT trace_id, node_id, node_id AS above_id FROM node
    UNION
    SELECT l.trace_id, l.node_id, m.cloned_id FROM line AS l JOIN node AS m
      ON l.trace_id = m.trace_id AND l.above_id = m.node_id
    WHERE m.cloned_id IS NOT NULL
)
SELECT m.trace_id, m.node_id, r.node_id AS root_id, m.pid, m.tid, m.made_ns
FROM node AS m JOIN line AS l USING (trace_id, node_id)
JOIN node AS r ON l.trace_id = r.trace_id AND l.above_id = r.node_id AND r.cloned_id IS NULL
