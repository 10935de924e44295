-- fact: The work of a call of cat or stack whose list has no recorded shapes: the backward pass tells it.
-- into: call_work
-- of: operator_call
-- when: has(traits, 'gradient_of_joined') OR has(traits, 'joins_inputs')
-- The node that autograd records for cat is given the gradient of the joined tensor, with its shape. Of the
-- calls with the node's sequence number the last one made the node: those before it need no gradient. The
-- nodes of split and unbind join the gradients of all parts: a part without one becomes zeros.
-- https://docs.pytorch.org/docs/stable/autograd.profiler.html (Sequence number)
WITH node AS (
    SELECT c.trace_id, pid, tid, start_ns, end_ns, name, args->>'Sequence number' AS sequence,
           list_transform(list_zip(shapes_of(args->'Input Dims'), texts_of(args->'Input type')), lambda x:
               if(len(x[1]) > 0, elements(x[1]) * element_bytes(x[2]), NULL)) AS sizes,
           list_sum(sizes) AS bytes, len(sizes) = list_count(sizes) AS is_whole,
           texts_of(args->'Input type')[1] AS type, has(n.traits, 'joins_inputs') AS is_around
    FROM cpu_ops AS c JOIN (SELECT DISTINCT name, traits FROM slice_label
        WHERE has(traits, 'gradient_of_joined') OR has(traits, 'joins_inputs')) AS n USING (name)
    WHERE bytes > 0
),
call AS (
    SELECT trace_id, pid, tid, o.event_id, name, o.start_ns, o.end_ns,
           e.args->>'Sequence number' AS sequence
    FROM _scratch.operator_call AS o JOIN event_row AS e USING (trace_id, event_id, pid, tid)
    WHERE name IN ('aten::cat', 'aten::stack') AND (dims->0)::VARCHAR = '[]'
),
recorded AS (
    SELECT trace_id, pid, name, sequence, arg_max(event_id, start_ns) AS event_id FROM call
    WHERE sequence IS NOT NULL GROUP BY ALL HAVING min(tid) = max(tid)
),
told AS (
    SELECT trace_id, event_id, any_value(type) AS type, min(bytes) AS bytes, bool_and(is_whole) AS is_exact
    FROM recorded AS r JOIN node AS n USING (trace_id, pid, sequence)
    WHERE NOT is_around AND starts_with(n.name, if(r.name = 'aten::cat', 'Cat', 'Stack'))
    GROUP BY ALL HAVING min(bytes) = max(bytes)
    UNION ALL
    SELECT c.trace_id, c.event_id, n.type, n.bytes, is_whole
    FROM call AS c ASOF JOIN (FROM node WHERE is_around) AS n
      ON c.trace_id = n.trace_id AND c.pid = n.pid AND c.tid = n.tid AND c.start_ns >= n.start_ns
    WHERE c.end_ns <= n.end_ns AND c.name = 'aten::cat'
    QUALIFY count(*) OVER (PARTITION BY n.trace_id, n.pid, n.tid, n.start_ns) = 1
)
SELECT trace_id, event_id, any_value(type), FALSE AS is_matrix, 0 AS flops, max(bytes) AS read,
       max(bytes) AS written, 0 AS weights, bool_or(is_exact) AS is_exact
FROM told GROUP BY trace_id, event_id
