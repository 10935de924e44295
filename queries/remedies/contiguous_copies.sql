-- question: Which copies only put a transposed tensor in order, beside a matrix product or attention?
-- title: Avoid copies that only reorder a tensor
-- causes: memory-bandwidth
-- when: has(traits, 'makes_contiguous')
-- effort: medium
-- needs: A product or attention that takes the tensor as it lies: matmul, einsum and
--     scaled_dot_product_attention take transposed views.
-- caveat: An upper bound: some copies cannot be avoided, and reading a transposed tensor may be slower.
-- blind: no_runtime_calls
-- before:
--     k = k.view(b, s, h, d).permute(0, 2, 3, 1).contiguous()
--     scores = torch.matmul(q, k)
-- after:
--     k = k.view(b, s, h, d).transpose(1, 2)                 # a view
--     scores = torch.matmul(q, k.transpose(-1, -2))          # the product reads it transposed
-- risks: A view that the next reshape() has to merge is copied there instead. Choose the order of dimensions
--     once, where the tensor is made (the projection's output, say).
-- check: tracekit query copies after.json; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/tensor_view.html
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
-- params trace
-- columns trace_id, place
-- column detail (text): the operator that copies, and the shape that takes most time
-- column target (text): call: the copy with its GPU ops
-- column event_id (id): the copy's aten::clone
-- columns pid, tid, start_ns, dur_ns, factor
-- doubts: no_gpu_ops, no_stacks, unlinked_gpu_ops
-- contiguous() and reshape() copy only what is not in order: aten::contiguous, aten::clone, aten::copy_, each
-- in the one before it. On the stream, a product or attention comes right before or after such copies. Those
-- of the backward pass are left out, since no line of the program makes them.
WITH inner_copy AS (
    SELECT s.trace_id, s.event_id AS copy_id, clone.event_id, clone.pid, clone.tid, clone.start_ns,
           clone.dur_ns, whole.name AS operator
    FROM slices AS s
    JOIN host_slice AS h ON s.trace_id = h.trace_id AND s.event_id = h.event_id
    JOIN slices AS clone ON h.trace_id = clone.trace_id AND h.parent_id = clone.event_id
    JOIN host_slice AS above ON clone.trace_id = above.trace_id AND clone.event_id = above.event_id
    JOIN slices AS whole ON above.trace_id = whole.trace_id AND above.parent_id = whole.event_id
    WHERE s.name = 'aten::copy_' AND s.kind = 'cpu_op' AND clone.name = 'aten::clone'
        AND whole.name IN ('aten::contiguous', 'aten::reshape', 'aten::flatten', 'aten::_reshape_copy')
        AND s.trace_id = coalesce(getvariable('trace'), s.trace_id)
),
-- A copy of what is in order already is a plain memcpy; this one is a kernel.
moved AS MATERIALIZED (
    SELECT c.*, l.event_id AS gpu_op_id
    FROM inner_copy AS c
    JOIN host_site AS s ON c.trace_id = s.trace_id AND c.copy_id = s.cpu_op_id
    JOIN gpu_op_launch AS l ON s.trace_id = l.trace_id AND s.event_id = l.launch_id
    WHERE l.kind = 'kernel'
),
near AS (
    SELECT g.trace_id, g.event_id, m.gpu_op_id IS NOT NULL AS is_copy,
           CASE WHEN NOT is_copy THEN class IN ('gemm', 'attention') END AS is_product,
           last_value(is_product IGNORE NULLS) OVER (stream ROWS UNBOUNDED PRECEDING) AS follows,
           first_value(is_product IGNORE NULLS) OVER (
               stream ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS precedes
    FROM gpu_ops AS g LEFT JOIN moved AS m ON g.trace_id = m.trace_id AND g.event_id = m.gpu_op_id
    WHERE g.trace_id IN (SELECT trace_id FROM moved)
    WINDOW stream AS (PARTITION BY g.trace_id, device_id, stream ORDER BY g.start_ns, g.event_id)
),
found AS MATERIALIZED (
    SELECT m.* FROM moved AS m JOIN near AS n ON m.trace_id = n.trace_id AND m.gpu_op_id = n.event_id
    WHERE follows OR precedes
),
place AS (FROM places_of('found')),
shaped AS (
    SELECT f.*, place,
           operator || coalesce(', mostly ' || (e.args->'Input Dims'->>0), '') AS told,
           sum(g.dur_ns) OVER (PARTITION BY f.trace_id, place, told) AS ns
    FROM found AS f JOIN place AS p ON f.trace_id = p.trace_id AND f.event_id = p.event_id
    JOIN gpu_ops AS g ON f.trace_id = g.trace_id AND f.gpu_op_id = g.event_id
    JOIN event_row AS e ON f.trace_id = e.trace_id AND f.copy_id = e.event_id
    WHERE place NOT IN (SELECT name FROM slice_label WHERE has(traits, 'backward'))
)
SELECT trace_id, place, arg_max(told, ns) OVER (PARTITION BY trace_id, place) AS detail, 'call' AS target,
       event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM shaped
ORDER BY trace_id, place, start_ns
