-- fact: The work of inputs of attention.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work LIKE 'attention%'
-- Query, key and value are (batch, heads, sequence, features), or heads third. The memory-efficient kernel is
-- given a type of mask, 1 and 2 of which are causal. Without a batch, (tokens, heads, features) are of
-- several sequences, whose number `starts` tells: they have the fewest pairs if all are as long.
WITH named AS (
    SELECT *, d[CASE WHEN is_backward THEN 2 ELSE 1 END]::DOUBLE[] AS q,
           d[CASE WHEN is_backward THEN 3 ELSE 2 END]::DOUBLE[] AS k,
           d[CASE WHEN is_backward THEN 4 ELSE 3 END]::DOUBLE[] AS v,
           CASE WHEN contains(kind, 'bshd') THEN 2 ELSE 3 END AS sequence_at,
           coalesce(lower(c[setting['causal']]) IN ('true', '1', '2'), FALSE) AS is_causal,
           q[sequence_at] AS sq, k[sequence_at] AS sk, d[setting['starts']][1] - 1 AS sequences
    FROM _scratch.operator_input WHERE family = 'attention'
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       CASE WHEN len(q) = 4 AND len(k) = 4 AND len(v) = 4 THEN
           2 * elements(q) / q[4] * sk * (q[4] + v[4]) * CASE WHEN is_backward THEN 2.5 ELSE 1 END
           * CASE WHEN is_causal AND sq = sk THEN (sk + 1) / (2 * sk) ELSE 1 END
       WHEN len(q) = 3 AND len(k) = 3 AND len(v) = 3 AND q[1] = k[1] AND sequences > 0 THEN
           2 * elements(q) / q[3] * (q[3] + v[3]) * CASE WHEN is_backward THEN 2.5 ELSE 1 END
           * CASE WHEN is_causal THEN (q[1] / sequences + 1) / 2 ELSE q[1] / sequences END
       END AS flops,
       list_sum(sizes[:coalesce(setting['inputs'], 99)]) AS read,
       CASE WHEN is_backward THEN elements(q) + elements(k) + elements(v)
            ELSE elements(q) / q[-1] * v[-1] END * size AS written,
       -- Few queries of many keys read a cache.
       CASE WHEN sq < sk AND len(q) = 4 THEN (elements(k) + elements(v)) * size ELSE 0 END AS weights,
       len(q) = 4 AS is_exact
FROM named
