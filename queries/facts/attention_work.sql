-- fact: The work of inputs of attention.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work LIKE 'attention%'
-- Query, key and value are (batch, heads, sequence, features), or heads third. The memory-efficient kernel is
-- given a type of mask, 1 and 2 of which are causal.
WITH named AS (
    SELECT *, d[CASE WHEN is_backward THEN 2 ELSE 1 END] AS q,
           d[CASE WHEN is_backward THEN 3 ELSE 2 END] AS k,
           d[CASE WHEN is_backward THEN 4 ELSE 3 END] AS v,
           CASE WHEN contains(kind, 'bshd') THEN 2 ELSE 3 END AS sequence_at,
           coalesce(lower(c[setting['causal']]) IN ('true', '1', '2'), FALSE) AS is_causal,
           q[sequence_at] AS sq, k[sequence_at] AS sk
    FROM _scratch.operator_input WHERE family = 'attention'
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       CASE WHEN len(q) = 4 AND len(k) = 4 AND len(v) = 4 THEN
           2 * elements(q) / q[4] * sk * (q[4] + v[4]) * CASE WHEN is_backward THEN 2.5 ELSE 1 END
           * CASE WHEN is_causal AND sq = sk THEN (sk + 1) / (2 * sk) ELSE 1 END
       END AS flops,
       input_bytes AS read,
       CASE WHEN is_backward THEN elements(q) + elements(k) + elements(v)
            ELSE elements(q) / q[4] * v[4] END * size AS written,
       -- Few queries of many keys read a cache.
       CASE WHEN sq < sk THEN (elements(k) + elements(v)) * size ELSE 0 END AS weights, TRUE AS is_exact
FROM named
