-- fact: A kernel of a graph's replay with the captured launch that it came from.
-- needs: gpu_op_launch, gpu_ops, thread_slice, slice_label, graph_node
-- of: graph_captures
-- when: call = 'launch_graph'
-- scope: all
-- The captured launch is in its own trace or in another one of the database. Both are known by the node of
-- the graph where both name it: a replay's graph may have another number than the captured one, but its
-- nodes keep theirs within it. Else by place: launches in order, kernels in the order of nodes or of starts.
-- Where the capture tells the kernel, the names must agree: by the launch call (ROCm), or by an operator that
-- is named like its Triton kernel. `matched_share` is the share of these places that agree, `told_share` the
-- share of all places at which the capture tells the kernel. Captures of the replay's own trace come first.
-- If captures of other operators or shapes agree as well, there is no row. A capture that tells no kernel
-- counts only for replays in its own trace.
CREATE TABLE captured_kernel (
    trace_id      INTEGER, -- the trace
    event_id      BIGINT,  -- the kernel
    launch_id     BIGINT,  -- the replay
    device_id BIGINT,
    place         BIGINT,  -- in the replay, from 1
    name VARCHAR, dur_ns BIGINT, capture_trace_id INTEGER, capture_id BIGINT,
    capture_launch_id BIGINT,
    cpu_op_id     BIGINT,  -- the captured operator
    cpu_op VARCHAR, dims VARCHAR,
    modules       VARCHAR[], -- the modules around the captured launch, from the outermost
    python_line VARCHAR,
    by_node       BOOLEAN, -- known by the node of the graph; else by order
    matched_share DOUBLE,  -- of the places at which the capture tells the kernel, those that agree
    told_share    DOUBLE   -- of all places
);
WITH RECURSIVE launch AS MATERIALIZED (
    FROM captured_launches WHERE EXISTS (SELECT 1 FROM launches WHERE launched_kind = 'graph')
),
around AS MATERIALIZED (
    SELECT l.*, h.cpu_op_id AS op_id, h.python_id, h.module_id
    FROM launch AS l LEFT JOIN host_site AS h USING (trace_id, event_id)
),
-- The modules around a module, as far out as there are some.
nested_module AS (
    SELECT DISTINCT trace_id, module_id AS inner_id, module_id, 0 AS distance FROM around
    WHERE module_id IS NOT NULL
    UNION ALL
    SELECT m.trace_id, m.inner_id, h.module_id, distance + 1
    FROM nested_module AS m JOIN host_site AS h ON m.trace_id = h.trace_id AND m.module_id = h.event_id
    WHERE h.module_id IS NOT NULL
),
named AS MATERIALIZED (
    SELECT trace_id, event_id, l.name, ts_ns AS start_ns, args->>'Input Dims' AS dims
    FROM event_row JOIN slice_label AS l USING (label_id) SEMI JOIN (
        SELECT trace_id, op_id AS event_id FROM around UNION SELECT trace_id, python_id FROM around
        UNION SELECT trace_id, module_id FROM nested_module
    ) USING (trace_id, event_id)
),
module AS (
    SELECT m.trace_id, inner_id, list(module_name(n.name) ORDER BY distance DESC) AS modules
    FROM nested_module AS m JOIN named AS n ON m.trace_id = n.trace_id AND m.module_id = n.event_id
    GROUP BY ALL
),
site AS MATERIALIZED (
    SELECT l.trace_id, l.capture_id, l.event_id, l.place, l.node_id, l.start_ns,
           coalesce(l.kernel, CASE WHEN starts_with(o.name, 'triton_') THEN 'triton_' END) AS kernel,
           l.kernel IS NOT NULL AS is_name, o.event_id AS cpu_op_id, o.name AS cpu_op, o.dims, m.modules,
           p.name AS python_line
    -- An operator around the whole capture is none of the launch.
    FROM around AS l LEFT JOIN named AS o
      ON l.trace_id = o.trace_id AND l.op_id = o.event_id AND o.start_ns >= l.capture_start_ns
    LEFT JOIN named AS p ON l.trace_id = p.trace_id AND l.python_id = p.event_id
    LEFT JOIN module AS m ON l.trace_id = m.trace_id AND l.module_id = m.inner_id
),
capture AS MATERIALIZED (
    SELECT trace_id, capture_id, count(*) AS kernels, min(start_ns) AS start_ns, count(kernel) > 0 AS is_told,
           min(node_id >> 32) AS graph,
           hash(list({'op': cpu_op, 'dims': dims, 'modules': modules, 'kernel': kernel,
               'node': node_id % (1::UBIGINT << 32)} ORDER BY place)) AS work
    FROM site GROUP BY ALL
),
-- Each place twice: by its number, and by the node if there is one.
captured AS MATERIALIZED (
    SELECT s.*, by_node, CASE WHEN by_node THEN node_id % (1::UBIGINT << 32) ELSE place END AS key
    FROM site AS s CROSS JOIN (VALUES (TRUE), (FALSE)) AS way(by_node)
    WHERE NOT by_node OR node_id IS NOT NULL
),
replayed AS MATERIALIZED (
    SELECT k.* EXCLUDE (args) REPLACE (coalesce(n.root_id, k.node_id) AS node_id)
    FROM replayed_kernels AS k LEFT JOIN graph_node AS n USING (trace_id, node_id)
),
replay AS MATERIALIZED (
    SELECT trace_id, launch_id, device_id, min(launch_start_ns) AS start_ns, count(*) AS kernels,
           min(node_id >> 32) AS graph,
           hash(list({'name': name, 'node': node_id} ORDER BY place)) AS sequence
    FROM replayed GROUP BY trace_id, launch_id, device_id
),
-- Replays repeat, and so do captures: each sequence is compared once.
ran AS MATERIALIZED (
    SELECT r.trace_id, r.sequence, r.kernels, r.graph, by_node, k.name,
           CASE WHEN by_node THEN node_id % (1::UBIGINT << 32) ELSE place END AS key
    FROM (FROM replay QUALIFY row_number()
          OVER (PARTITION BY trace_id, sequence ORDER BY launch_id, device_id) = 1) AS r
    JOIN replayed AS k USING (trace_id, launch_id, device_id)
    CROSS JOIN (VALUES (TRUE), (FALSE)) AS way(by_node)
    WHERE NOT by_node OR node_id IS NOT NULL
),
compared AS (
    SELECT r.trace_id, r.sequence, r.by_node, c.trace_id AS capture_trace_id, c.work, c.graph,
           r.trace_id = c.trace_id AS is_own, by_node AND is_own AND c.graph = r.graph AS is_same, r.kernels,
           count(*) AS met, count(s.kernel) AS known,
           count(*) FILTER (CASE WHEN is_name THEN r.name = s.kernel ELSE starts_with(r.name, s.kernel) END)
               AS agreeing
    FROM ran AS r JOIN captured AS s USING (by_node, key)
    JOIN (FROM capture QUALIFY row_number()
          OVER (PARTITION BY trace_id, work, graph ORDER BY capture_id) = 1) AS c
      ON s.trace_id = c.trace_id AND s.capture_id = c.capture_id
    WHERE is_same OR (r.kernels = c.kernels AND (is_own OR c.is_told))
    GROUP BY ALL
),
fitting AS (
    SELECT *, agreeing / nullif(known, 0) AS matched_share, known / kernels AS told_share
    FROM compared
    WHERE agreeing >= thresholds().graph_match_share * known
        AND met >= thresholds().graph_match_share * kernels
    QUALIFY rank() OVER (PARTITION BY trace_id, sequence
        ORDER BY by_node DESC, is_same DESC, is_own DESC, agreeing DESC, met DESC) = 1
),
-- Captures of the same operators and shapes are as good as each other.
chosen AS (
    SELECT trace_id, sequence, any_value(by_node) AS by_node, any_value(work) AS work,
           CASE WHEN bool_and(is_same) THEN any_value(graph) END AS graph,
           min(capture_trace_id) AS capture_trace_id,
           any_value(matched_share) AS matched_share, any_value(told_share) AS told_share
    FROM fitting GROUP BY trace_id, sequence HAVING count(DISTINCT work) = 1
),
-- The last capture before the replay; the first of all if the replay came before, or is of another trace.
taken AS (
    SELECT r.trace_id, r.launch_id, r.device_id, w.capture_trace_id, w.by_node, w.matched_share, w.told_share,
           coalesce(
               arg_max(c.capture_id, c.start_ns)
                   FILTER (c.trace_id = r.trace_id AND c.start_ns <= r.start_ns),
               arg_min(c.capture_id, c.start_ns)) AS capture_id
    FROM replay AS r JOIN chosen AS w USING (trace_id, sequence)
    JOIN capture AS c ON w.capture_trace_id = c.trace_id AND w.work = c.work
        AND c.graph IS NOT DISTINCT FROM coalesce(w.graph, c.graph)
    GROUP BY ALL
)
SELECT k.trace_id, k.event_id, k.launch_id, k.device_id, k.place, k.name, k.dur_ns,
       t.capture_trace_id, t.capture_id,
       s.event_id AS capture_launch_id, s.cpu_op_id, s.cpu_op, s.dims, s.modules, s.python_line, t.by_node,
       t.matched_share, t.told_share
FROM taken AS t JOIN replayed AS k USING (trace_id, launch_id, device_id)
JOIN captured AS s
  ON t.capture_trace_id = s.trace_id AND t.capture_id = s.capture_id AND t.by_node = s.by_node
    AND CASE WHEN t.by_node THEN k.node_id % (1::UBIGINT << 32) ELSE k.place END = s.key
