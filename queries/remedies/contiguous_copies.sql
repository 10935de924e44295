-- question: Which copies only put a transposed tensor in order, beside a matrix product or attention?
-- since: 0.1
-- title: Avoid copies that only reorder a tensor
-- causes: memory-bandwidth
-- when: has(traits, 'makes_contiguous'); name = 'aten::clone'; class IN ('gemm', 'attention')
-- effort: medium
-- needs: A product or attention that takes the tensor in its current layout: matmul, einsum and
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
-- check: tracekit query after.json copies; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/tensor_view.html
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
-- doubts: no_gpu_ops, no_stacks, unlinked_gpu_ops
-- contiguous() and reshape() copy only what is not in order: aten::contiguous, aten::clone, aten::copy_, each
-- in the one before it. On the stream, a product or attention comes right before or after such copies. Those
-- of the backward pass are left out, since no line of the program makes them.
WITH operator AS (
    SELECT s.trace_id, s.event_id, parent_id, s.name, s.pid, s.tid, s.start_ns, s.dur_ns
    FROM cpu_ops AS s JOIN thread_slice USING (trace_id, event_id) WHERE is_asked(s.trace_id)
        AND s.name IN ('aten::copy_', 'aten::clone', 'aten::contiguous', 'aten::reshape', 'aten::flatten',
            'aten::_reshape_copy')
),
-- Copying a tensor that is already in order is a plain memcpy; this one is a kernel.
moved AS (
    SELECT clone.*, c.event_id AS copy_id, whole.name AS operator, l.event_id AS gpu_op_id
    FROM operator AS c JOIN operator AS clone ON c.trace_id = clone.trace_id AND c.parent_id = clone.event_id
    JOIN operator AS whole ON clone.trace_id = whole.trace_id AND clone.parent_id = whole.event_id
    JOIN gpu_op_module AS l ON c.trace_id = l.trace_id AND c.event_id = l.cpu_op_id
    WHERE c.name = 'aten::copy_' AND clone.name = 'aten::clone' AND l.kind = 'kernel'
        AND whole.name NOT IN ('aten::copy_', 'aten::clone')
),
near AS (
    SELECT m.*, g.dur_ns AS ns,
           CASE WHEN m.gpu_op_id IS NULL THEN class IN ('gemm', 'attention') END AS is_product,
           last_value(is_product IGNORE NULLS) OVER (stream ROWS UNBOUNDED PRECEDING) AS follows,
           first_value(is_product IGNORE NULLS) OVER (
               stream ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS precedes
    FROM gpu_ops AS g LEFT JOIN moved AS m ON g.trace_id = m.trace_id AND g.event_id = m.gpu_op_id
    WHERE g.trace_id IN (SELECT trace_id FROM moved)
    WINDOW stream AS (PARTITION BY g.trace_id, device_id, stream ORDER BY g.start_ns, g.event_id)
    QUALIFY gpu_op_id IS NOT NULL AND (follows OR precedes)
),
shaped AS (
    SELECT f.*, place,
           nullif(concat_ws(', ', nullif(operator, place), 'mostly ' || (e.args->'Input Dims'->>0)), '')
               AS told
    FROM near AS f LEFT JOIN call_site USING (trace_id, event_id)
    JOIN event_row AS e ON f.trace_id = e.trace_id AND f.copy_id = e.event_id
    WHERE place NOT IN (SELECT name FROM slice_label WHERE has(traits, 'backward'))
)
SELECT DISTINCT trace_id, place, detail, 'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM detailed('shaped')
