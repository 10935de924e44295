-- fact: The work of inputs of an operator that moves what an index names.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work IN ('index_select', 'gather', 'topk', 'put')
-- What an index names may repeat, and is then read from a cache: certain are the index and the output, and of
-- gather the output alone, because its index may be expanded. Values are written where they belong:
-- index_put's destination does not count.
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       CASE kind WHEN 'topk' THEN tensors[1].elements ELSE 0 END AS flops,
       CASE kind WHEN 'put' THEN elements(d[3]) * element_bytes(t[3]) WHEN 'topk' THEN sizes[1]
           WHEN 'index_select' THEN elements(d[3]) * element_bytes(t[3]) ELSE 0 END AS read,
       CASE kind WHEN 'put' THEN elements(d[3]) * element_bytes(t[3])
           WHEN 'topk' THEN tensors[1].elements / length * TRY_CAST(c[2] AS BIGINT) * (size + 8)
           WHEN 'index_select' THEN coalesce(tensors[1].elements / length, 1) * elements(d[3]) * size
           ELSE elements(d[CASE name WHEN 'aten::take' THEN 2 ELSE 3 END]) * size END AS written,
       0 AS weights, kind IN ('put', 'topk') AS is_exact
FROM (
    SELECT *, TRY_CAST(c[CASE kind WHEN 'topk' THEN 3 ELSE 2 END] AS BIGINT) AS dimension,
           d[1][CASE WHEN dimension < 0 THEN len(d[1]) + dimension ELSE dimension END + 1] AS length
    FROM _scratch.operator_input
    WHERE kind IN ('index_select', 'gather', 'topk') OR kind = 'put' AND len(d[3]) = len(d[1])
)
