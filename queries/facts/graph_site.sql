-- fact: A kernel in a graph's replay with its known origin.
-- needs: launch_call, thread_slice, graph_node
-- when: call = 'launch_graph'
-- scope: all
-- Each column comes from the first source that has it: the program's annotation in the trace, an annotation
-- in a file next to it, the graph's capture by nodes, the capture by order. Kernels unknown to all sources
-- have no row.
CREATE TABLE graph_site (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    launch_id     BIGINT,  -- the replay
    device_id BIGINT,
    place         BIGINT,  -- in the replay, from 1
    name VARCHAR, dur_ns BIGINT, capture_trace_id INTEGER, capture_id BIGINT, capture_launch_id BIGINT,
    cpu_op_id     BIGINT,  -- the captured operator
    cpu_op VARCHAR, dims VARCHAR,
    op_from       VARCHAR, -- how it is known: capture by node, or capture by order
    modules       VARCHAR[], -- the modules around it, from the outermost
    modules_from  VARCHAR, -- how they are known: annotation, annotations file, or as op_from
    is_backward   BOOLEAN, -- it is of the backward pass of the innermost
    python_line   VARCHAR, -- the Python frame around it
    line_from     VARCHAR, -- as modules_from
    matched_share DOUBLE,  -- of the places at which the capture tells the kernel, those that agree
    told_share    DOUBLE,  -- of all places
    capture_from  VARCHAR, -- how the captured launch is known: capture by node, or capture by order
    operators     VARCHAR[], -- the operators around it that began in the capture, from the outermost
    operator_ids  BIGINT[],
    ranges        VARCHAR[], -- the annotated ranges
    range_ids     BIGINT[]
);
-- The captured launch is in its own trace or in another one of the database. Both are known by the node of
-- the graph where both name it: a replay's graph may have another number than the captured one, but its
-- nodes keep theirs within it. Else by place: launches in order, kernels in the order of nodes or of starts.
-- Where the capture tells the kernel, the names must agree: by the launch call (ROCm), or by an operator that
-- is named like its Triton kernel. `matched_share` is the share of these places that agree, `told_share` the
-- share of all places at which the capture tells the kernel. Captures of the replay's own trace come first.
-- If captures of other operators or shapes agree as well, there is no row. A capture that tells no kernel
-- counts only for replays in its own trace.
WITH RECURSIVE site AS MATERIALIZED (FROM captured_site),
capture AS MATERIALIZED (
    SELECT trace_id, capture_id, count(*) AS kernels, min(start_ns) AS start_ns, count(kernel) > 0 AS is_told,
           min(node_id >> 32) AS graph,
           hash(list({'op': cpu_op, 'dims': dims, 'modules': modules, 'kernel': kernel,
               'node': node_id % (1::UBIGINT << 32)} ORDER BY place)) AS work
    FROM site GROUP BY ALL
),
-- Two rows for each place: one by its number, and one by its node if it has one.
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
-- The last capture before the replay. If there is none, or captures are in another trace, the first of all.
chosen_capture AS (
    SELECT r.trace_id, r.launch_id, r.device_id, w.capture_trace_id, w.by_node, w.matched_share, w.told_share,
           coalesce(
               arg_max(c.capture_id, c.start_ns)
                   FILTER (c.trace_id = r.trace_id AND c.start_ns <= r.start_ns),
               arg_min(c.capture_id, c.start_ns)) AS capture_id
    FROM replay AS r JOIN chosen AS w USING (trace_id, sequence)
    JOIN capture AS c ON w.capture_trace_id = c.trace_id AND w.work = c.work
        AND c.graph IS NOT DISTINCT FROM coalesce(w.graph, c.graph)
    GROUP BY ALL
),
origin AS MATERIALIZED (
    SELECT k.trace_id, k.event_id, t.capture_trace_id, t.capture_id, s.event_id AS capture_launch_id,
           s.cpu_op_id, s.cpu_op, s.dims, s.modules, s.python_line, t.matched_share, t.told_share,
           CASE WHEN t.by_node THEN 'capture by node' ELSE 'capture by order' END AS known_from
    FROM chosen_capture AS t JOIN replayed AS k USING (trace_id, launch_id, device_id)
    JOIN captured AS s
      ON t.capture_trace_id = s.trace_id AND t.capture_id = s.capture_id AND t.by_node = s.by_node
        AND CASE WHEN t.by_node THEN k.node_id % (1::UBIGINT << 32) ELSE k.place END = s.key
),
-- A kernel of a graph's replay that the program annotated when it captured the graph.
-- `torch.cuda.graph_annotations.mark_kernels` names the nodes of a graph: a text, or a dictionary with a name
-- or module_fqn. Exporting a trace merges that into the arguments of the replay's kernels; otherwise
-- a file next to the trace has it (graph_annotation), by the node of the graph.
-- https://docs.pytorch.org/docs/main/generated/torch.cuda.graph_annotations.mark_kernels.html
annotation AS (
    SELECT trace_id, event_id, args, 'annotation' AS known_from, 1 AS rank FROM replayed_kernels
    UNION ALL
    SELECT k.trace_id, k.event_id, a.annotation, 'annotations file', 2
    FROM replayed_kernels AS k JOIN graph_annotation AS a USING (trace_id, node_id)
),
known AS (
    SELECT trace_id, event_id, known_from, rank, args->>'autograd_phase' = 'backward' AS is_backward,
           nullif(coalesce(args->>'module_fqn', args->>'name', args->>'annotation'), '') AS module,
           -- Frames are written file:line:function, the innermost first.
           regexp_extract(args->>'stack', '^([^\n]*):(\d+):([^\n]*)', ['file', 'line', 'function']) AS frame,
           CASE WHEN frame['file'] <> '' THEN format('{}({}): {}', frame['file'], frame['line'],
               frame['function']) END AS line
    FROM annotation
),
-- If both a file and the kernel's arguments have annotations, the arguments win.
told AS (
    SELECT trace_id, event_id, arg_min({'is_backward': is_backward, 'path': module, 'from': known_from}, rank)
               FILTER (module IS NOT NULL) AS module,
           arg_min({'name': line, 'from': known_from}, rank) FILTER (line IS NOT NULL) AS line
    FROM known WHERE module IS NOT NULL OR line IS NOT NULL
    GROUP BY trace_id, event_id
),
annotated AS (
    -- A path has the modules around it: layers.0.attention is in layers.0.
    SELECT trace_id, event_id,
           CASE WHEN regexp_matches(module.path, '^\w+(\.\w+)+$') THEN list_transform(
                   range(1, len(string_split(module.path, '.')) + 1),
                   lambda n: array_to_string(string_split(module.path, '.')[:n], '.'))
               WHEN module IS NOT NULL THEN [module.path] END AS modules,
           module['from'] AS modules_from, module.is_backward, line.name AS python_line,
           line['from'] AS line_from
    FROM told
),
launch AS MATERIALIZED (
    SELECT DISTINCT capture_trace_id AS trace_id, capture_id, capture_launch_id AS event_id FROM origin
),
slice AS MATERIALIZED (
    SELECT DISTINCT s.trace_id, s.event_id, s.pid, s.tid, s.kind, s.name, s.start_ns, s.end_ns, s.dur_ns
    FROM (FROM graph_captures SEMI JOIN launch USING (trace_id, capture_id)) AS c JOIN slices AS s
      ON c.trace_id = s.trace_id AND c.pid = s.pid AND s.start_ns >= c.start_ns AND s.start_ns < c.end_ns
    WHERE s.kind IN ('cpu_op', 'annotation')
),
inner_slice AS (
    SELECT * EXCLUDE (kind, name) FROM slice
    UNION ALL
    SELECT trace_id, event_id, pid, tid, ts_ns, ts_ns, 0 FROM launch JOIN event_row USING (trace_id, event_id)
),
nest AS MATERIALIZED (FROM nested('inner_slice')),
around AS (
    SELECT trace_id, event_id, parent_id AS around_id, 1 AS distance
    FROM nest SEMI JOIN launch USING (trace_id, event_id) WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT a.trace_id, a.event_id, n.parent_id, distance + 1
    FROM around AS a JOIN nest AS n ON a.trace_id = n.trace_id AND a.around_id = n.event_id
    WHERE n.parent_id IS NOT NULL
),
path AS (
    SELECT a.trace_id, a.event_id, list(name ORDER BY distance DESC) FILTER (kind = 'cpu_op') AS operators,
           list(around_id ORDER BY distance DESC) FILTER (kind = 'cpu_op') AS operator_ids,
           list(name ORDER BY distance DESC) FILTER (kind = 'annotation') AS ranges,
           list(around_id ORDER BY distance DESC) FILTER (kind = 'annotation') AS range_ids
    FROM around AS a JOIN slice AS s ON a.trace_id = s.trace_id AND around_id = s.event_id GROUP BY ALL
)
SELECT k.trace_id, k.event_id, k.launch_id, k.device_id, k.place, k.name, k.dur_ns, c.capture_trace_id,
       c.capture_id, c.capture_launch_id, c.cpu_op_id, c.cpu_op, c.dims,
       CASE WHEN c.cpu_op IS NOT NULL THEN c.known_from END AS op_from,
       coalesce(a.modules, c.modules) AS modules,
       coalesce(modules_from, CASE WHEN c.modules IS NOT NULL THEN c.known_from END) AS modules_from,
       coalesce(a.is_backward, FALSE) AS is_backward,
       coalesce(a.python_line, c.python_line) AS python_line,
       coalesce(line_from, CASE WHEN c.python_line IS NOT NULL THEN c.known_from END) AS line_from,
       c.matched_share, c.told_share, c.known_from, operators, operator_ids, ranges, range_ids
FROM replayed_kernels AS k LEFT JOIN origin AS c USING (trace_id, event_id)
LEFT JOIN annotated AS a USING (trace_id, event_id)
LEFT JOIN path AS p ON capture_trace_id = p.trace_id AND capture_launch_id = p.event_id
WHERE c.event_id IS NOT NULL OR a.event_id IS NOT NULL
