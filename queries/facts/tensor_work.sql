-- fact: The work of inputs of an operator other than a product: elementwise, a normalization, a copy ...
-- into: input_work
-- of: operator_input
-- Elementwise work is over the broadcast shape of all inputs
-- (https://docs.pytorch.org/docs/stable/notes/broadcasting.html), reductions are over some dimensions or, if
-- none are named, over all. Normalizations and softmax write as many rows as they read.
WITH elementwise AS (
    SELECT *, coalesce(list_product(list_transform(
               range(1, list_max(list_transform(operands, lambda each: len(each.shape))) + 1),
               lambda k: list_max(list_transform(
                   operands, lambda each: coalesce(list_reverse(each.shape)[k], 1)))
           )), 1) AS out,
           -- A number arrives as a tensor without dimensions, and does not widen the others.
           list_max(list_transform(operands, lambda each:
               CASE WHEN len(each.shape) > 0
                   OR elements(operands[1].shape) = 1 THEN each.size END)) AS promoted
    FROM _scratch.operator_input WHERE kind IN ('elementwise', 'comparison')
),
reduction AS (
    SELECT *, coalesce(integers_of(c[2]), [TRY_CAST(c[2] AS BIGINT)]) AS dimensions
    FROM _scratch.operator_input WHERE kind = 'reduction'
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, out AS flops,
       list_sum(list_transform(operands, lambda each: each.elements * each.size)) AS read,
       out * CASE WHEN kind = 'comparison' THEN 1 WHEN ends_with(name, '_') THEN size
           ELSE promoted END AS written, 0 AS weights, TRUE AS is_exact
FROM elementwise
UNION ALL
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, tensors[1].elements AS flops, sizes[1] AS read,
       elements(d[1]) / coalesce(list_product(list_transform(
           CASE WHEN len(dimensions) > 0 AND dimensions[1] IS NOT NULL THEN dimensions
               ELSE range(len(d[1])) END,
           lambda i: d[1][CASE WHEN i < 0 THEN len(d[1]) + i + 1 ELSE i + 1 END]
       )), 1) * size AS written, 0 AS weights, TRUE AS is_exact
FROM reduction
UNION ALL
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       tensors[1].elements * CASE kind WHEN 'normalization' THEN 8 WHEN 'normalization_backward' THEN 16
           ELSE 5 END
       AS flops,
       CASE kind WHEN 'softmax' THEN sizes[1] WHEN 'softmax_backward' THEN sizes[1] + sizes[2]
                 ELSE input_bytes END AS read,
       sizes[1] AS written, 0 AS weights, TRUE AS is_exact
FROM _scratch.operator_input WHERE family IN ('normalization', 'softmax')
UNION ALL
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, 0 AS flops,
       CASE kind
           -- A source is read once, however often it is repeated.
           WHEN 'copy' THEN least(elements(d[1]), elements(d[2])) * element_bytes(t[2])
           WHEN 'fill' THEN 0
           -- Rows may repeat, and are then read from a cache: certain are the indices and the output.
           WHEN 'embedding' THEN sizes[2]
           ELSE input_bytes END AS read,
       CASE kind WHEN 'embedding' THEN CASE WHEN len(d[1]) = 2 AND len(tensors) = 2
                     THEN tensors[2].elements * d[1][2] * size END
                 WHEN 'embedding_backward' THEN TRY_CAST(c[3] AS BIGINT) * d[1][-1] * size
                 ELSE sizes[1] END AS written, 0 AS weights, kind <> 'embedding' AS is_exact
FROM _scratch.operator_input WHERE kind IN ('copy', 'fill', 'embedding', 'embedding_backward')
