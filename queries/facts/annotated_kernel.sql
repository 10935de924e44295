-- fact: A kernel of a graph's replay that the program annotated when it captured the graph.
-- needs: gpu_op_launch, gpu_ops
-- when: call = 'launch_graph'
-- `torch.cuda.graph_annotations.mark_kernels` names the nodes of a graph: a text, or a dictionary with a name
-- or module_fqn. Exporting a trace merges that into the arguments of the replay's kernels; where it did not,
-- a file beside the trace has it (graph_annotation), by the node of the graph.
-- https://docs.pytorch.org/docs/main/generated/torch.cuda.graph_annotations.mark_kernels.html
CREATE TABLE annotated_kernel (
    trace_id INTEGER, -- the trace
    event_id BIGINT,  -- the kernel
    modules     VARCHAR[], -- the module's path, from the outermost
    modules_from VARCHAR,  -- how it is known: annotation (in the trace) or annotations file
    is_backward  BOOLEAN,  -- it is of the module's backward pass
    python_line VARCHAR,   -- the innermost frame of the recorded stack
    line_from   VARCHAR    -- as modules_from
);
WITH told AS (
    SELECT trace_id, event_id, args AS told, 'annotation' AS known_from, 1 AS rank FROM replayed_kernels
    UNION ALL
    SELECT k.trace_id, k.event_id, a.annotation, 'annotations file', 2
    FROM replayed_kernels AS k JOIN graph_annotation AS a USING (trace_id, node_id)
),
known AS (
    SELECT trace_id, event_id, known_from, rank, told->>'autograd_phase' = 'backward' AS is_backward,
           nullif(coalesce(told->>'module_fqn', told->>'name', told->>'annotation'), '') AS module,
           -- Frames are written file:line:function, the innermost first.
           regexp_extract(told->>'stack', '^([^\n]*):(\d+):([^\n]*)', ['file', 'line', 'function']) AS frame,
           CASE WHEN frame['file'] <> '' THEN format('{}({}): {}', frame['file'], frame['line'],
               frame['function']) END AS line
    FROM told
),
-- Of a file and the kernel's arguments, the latter come first.
chosen AS (
    SELECT trace_id, event_id, arg_min({'is_backward': is_backward, 'path': module, 'from': known_from}, rank)
               FILTER (module IS NOT NULL) AS module,
           arg_min({'name': line, 'from': known_from}, rank) FILTER (line IS NOT NULL) AS line
    FROM known WHERE module IS NOT NULL OR line IS NOT NULL
    GROUP BY trace_id, event_id
)
-- A path has the modules around it: layers.0.attention is in layers.0.
SELECT trace_id, event_id,
       CASE WHEN regexp_matches(module.path, '^\w+(\.\w+)+$') THEN list_transform(
               range(1, len(string_split(module.path, '.')) + 1),
               lambda n: array_to_string(string_split(module.path, '.')[:n], '.'))
           WHEN module IS NOT NULL THEN [module.path] END AS modules,
       module['from'] AS modules_from, module.is_backward, line.name AS python_line, line['from'] AS line_from
FROM chosen
