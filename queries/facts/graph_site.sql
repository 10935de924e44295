-- fact: A kernel of a graph's replay with what is known of where it came from.
-- needs: gpu_ops, launch_call, thread_slice, host_thread, slice_label, graph_node, graph_captures
-- when: call = 'launch_graph'
-- scope: all
-- Each column comes from the first of these sources that knows it: the program's annotation in the trace, one
-- in a file next to it, the graph's capture by nodes, the capture by order. Kernels that no source knows have
-- no row.
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
WITH RECURSIVE captured AS MATERIALIZED (
    SELECT *, CASE WHEN by_node THEN 'capture by node' ELSE 'capture by order' END AS known_from
    FROM captured_kernel
),
launch AS MATERIALIZED (
    SELECT DISTINCT capture_trace_id AS trace_id, capture_id, capture_launch_id AS event_id FROM captured
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
FROM replayed_kernels AS k LEFT JOIN captured AS c USING (trace_id, event_id)
LEFT JOIN annotated_kernel AS a USING (trace_id, event_id)
LEFT JOIN path AS p ON capture_trace_id = p.trace_id AND capture_launch_id = p.event_id
WHERE c.event_id IS NOT NULL OR a.event_id IS NOT NULL
