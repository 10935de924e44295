-- fact: A kernel of a graph's replay with what is known of where it came from.
-- needs: gpu_op_launch, gpu_ops, thread_slice, host_thread, slice_label, graph_node, graph_captures
-- when: call = 'launch_graph'
-- scope: all
-- Of each, the first that tells it: the program's annotation in the trace, one in a file beside it, the
-- graph's capture by nodes, the capture by order. Kernels of which nothing is known have no row.
CREATE TABLE graph_site (
    trace_id      INTEGER, -- the trace
    event_id      BIGINT,  -- the kernel
    launch_id     BIGINT,  -- the replay
    device_id BIGINT,
    place         BIGINT,  -- in the replay, from 1
    name VARCHAR, dur_ns BIGINT, capture_trace_id INTEGER, capture_id BIGINT,
    capture_launch_id BIGINT,
    cpu_op_id     BIGINT,  -- the captured operator
    cpu_op VARCHAR, dims VARCHAR,
    op_from       VARCHAR, -- how it is known: capture by node, or capture by order
    modules       VARCHAR[], -- the modules around it, from the outermost
    modules_from  VARCHAR, -- how they are known: annotation, annotations file, or as op_from
    is_backward   BOOLEAN, -- it is of the backward pass of the innermost
    python_line   VARCHAR, -- the Python frame around it
    line_from     VARCHAR, -- as modules_from
    matched_share DOUBLE,  -- of the places at which the capture tells the kernel, those that agree
    told_share    DOUBLE   -- of all places
);
WITH captured AS (
    SELECT *, CASE WHEN by_node THEN 'capture by node' ELSE 'capture by order' END AS known_from
    FROM captured_kernel
)
SELECT k.trace_id, k.event_id, k.launch_id, k.device_id, k.place, k.name, k.dur_ns, c.capture_trace_id,
       c.capture_id, c.capture_launch_id, c.cpu_op_id, c.cpu_op, c.dims,
       CASE WHEN c.cpu_op IS NOT NULL THEN c.known_from END AS op_from,
       coalesce(a.modules, c.modules) AS modules,
       coalesce(modules_from, CASE WHEN c.modules IS NOT NULL THEN c.known_from END) AS modules_from,
       coalesce(a.is_backward, FALSE) AS is_backward,
       coalesce(a.python_line, c.python_line) AS python_line,
       coalesce(line_from, CASE WHEN c.python_line IS NOT NULL THEN c.known_from END) AS line_from,
       c.matched_share, c.told_share
FROM replayed_kernels AS k LEFT JOIN captured AS c USING (trace_id, event_id)
LEFT JOIN annotated_kernel AS a USING (trace_id, event_id)
WHERE c.event_id IS NOT NULL OR a.event_id IS NOT NULL
