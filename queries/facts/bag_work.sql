-- fact: The work of inputs of an operator on bags of embeddings, or on lists of numbers of rows.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND regexp_matches(work, '^(embedding_bag|lookup|permuted)')
-- Rows may repeat, and are then read from a cache: certain are the numbers and the output.
-- fbgemm's operators: github.com/pytorch/FBGEMM/tree/main/fbgemm_gpu (codegen, src/sparse_ops)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       CASE kind WHEN 'permuted' THEN 0 ELSE elements(d[CASE kind WHEN 'lookup' THEN 12
           WHEN 'embedding_bag' THEN 2 ELSE 1 END]) END AS flops,
       CASE kind WHEN 'lookup'
               THEN elements(d[12]) * element_bytes(t[12]) + elements(d[13]) * element_bytes(t[13])
           WHEN 'permuted' THEN list_sum(sizes[:2]) + values_bytes
           WHEN 'embedding_bag' THEN sizes[2] + sizes[3] ELSE list_sum(sizes[:3]) END AS read,
       -- The last offset may be the end. A batch of rows has the features of all tables, which may be halves.
       CASE kind WHEN 'lookup'
               THEN coalesce((d[13][1] - 1) // (d[7][1] - 1) * TRY_CAST(c[8] AS BIGINT) * 2, 0)
           WHEN 'permuted'
               THEN elements(d[1]) * elements(d[2]) / d[2][1] * element_bytes(t[2]) + values_bytes
           WHEN 'embedding_bag' THEN (d[3][1] - 1) * d[1][2] * size
           ELSE TRY_CAST(c[6] AS BIGINT) * d[1][-1] * size END AS written,
       0 AS weights, kind = 'embedding_bag_backward' AS is_exact
FROM (
    -- All values are moved unless the permutation leaves some lists out.
    SELECT *, CASE WHEN kind = 'permuted' AND elements(d[1]) >= d[2][1]
        THEN elements(d[3]) * element_bytes(t[3]) ELSE 0 END AS values_bytes
    FROM _scratch.operator_input
    WHERE kind IN ('embedding_bag', 'embedding_bag_backward', 'lookup', 'permuted')
)
