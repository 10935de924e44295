-- fact: The work of inputs of a matrix product, or of a gated MLP.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND regexp_matches(work,
--     '^(add|b|baddb|packed_)?mm(_out)?$|^(linear|mv)$|^gated_')
-- `a` and `b` are the two factors of a product; operators of engines get the output first (`mm_out`). Packed
-- weights of 4 bits are (outputs / 8, ...) ints. DOUBLE holds the FLOPs of any shape that a trace may claim.
WITH factored AS (
    SELECT *,
           CASE WHEN kind IN ('mm', 'bmm', 'packed_mm') THEN d[1]
                WHEN kind IN ('addmm', 'baddbmm', 'mm_out') THEN d[2]
                WHEN kind = 'mv' THEN d[CASE WHEN len(d[1]) = 2 THEN 1 ELSE 2 END]
                WHEN kind = 'linear' THEN [elements(d[1]) // d[1][-1], d[1][-1]] END::DOUBLE[] AS a,
           CASE WHEN kind IN ('mm', 'bmm') THEN d[2] WHEN kind IN ('addmm', 'baddbmm', 'mm_out') THEN d[3]
                WHEN kind = 'mv' THEN [a[2], 1]
                WHEN kind = 'packed_mm' THEN [a[2], d[2][1] * 8::DOUBLE]
                WHEN kind = 'linear' THEN list_reverse(d[2]) END::DOUBLE[] AS b,
           kind IN ('bmm', 'baddbmm') AS is_batched
    FROM _scratch.operator_input
    WHERE kind IN ('mm', 'addmm', 'linear', 'bmm', 'baddbmm', 'mm_out', 'mv', 'packed_mm')
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       CASE WHEN is_batched AND len(a) = 3 AND len(b) = 3 THEN 2 * a[1] * a[2] * a[3] * b[3]
            WHEN NOT is_batched AND len(a) = 2 AND len(b) = 2 THEN 2 * a[1] * a[2] * b[2] END AS flops,
       -- Further tensors are scales, or the destination of the result (out=).
       CASE WHEN kind IN ('mm', 'bmm') THEN CASE WHEN len(sizes) >= 2 THEN sizes[1] + sizes[2] END
            WHEN kind = 'mm_out' THEN sizes[2] + sizes[3] ELSE list_sum(sizes[:3]) END AS read,
       -- A product of integers is an int.
       CASE WHEN is_batched THEN a[1] * a[2] * b[3] ELSE a[1] * b[2] END
           * CASE WHEN name = 'aten::_int_mm' THEN 4 ELSE size END AS written,
       CASE WHEN is_batched THEN 0 WHEN kind IN ('mm', 'linear', 'packed_mm') THEN sizes[2]
           WHEN kind = 'mv' THEN 0 ELSE sizes[3] END AS weights,
       TRUE AS is_exact
FROM factored
UNION ALL
-- Gated MLPs in one operator: x with the weights of gate, up and down; or with both outputs in one tensor.
SELECT name, dims, types, concrete, type, kind <> 'gated_packed' AS is_matrix,
       CASE kind WHEN 'gated_packed' THEN elements(d[1]) // 2
           ELSE 2 * elements(d[1]) * d[2][1] * CASE kind WHEN 'gated_products' THEN 2 ELSE 3 END END AS flops,
       list_sum(sizes[:CASE kind WHEN 'gated_packed' THEN 1 WHEN 'gated_products' THEN 3 ELSE 4 END]) AS read,
       CASE kind WHEN 'gated_packed' THEN sizes[1] // 2
           WHEN 'gated_products' THEN elements(d[1]) // d[2][2] * d[2][1] * size ELSE sizes[1] END AS written,
       coalesce(list_sum(sizes[2:CASE kind WHEN 'gated_packed' THEN 1 WHEN 'gated_products' THEN 3
           ELSE 4 END]), 0) AS weights, TRUE AS is_exact
FROM _scratch.operator_input WHERE kind IN ('gated_packed', 'gated_products', 'gated_mlp')
