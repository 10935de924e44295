-- fact: The work of a call of attention with paged keys and values.
-- into: call_work
-- of: operator_input, operator_call
-- needs: server_step
-- when: kind = 'cpu_op' AND work LIKE 'paged_attention%'
-- Queries are (tokens, heads, features), and keys and values have fewer heads. The cache does not tell how
-- many keys there are: the name of the server's step does ("sq32sk55086sqsq32sqsk55086": sums over requests
-- of queries, keys, queries squared, and queries times keys). Without it, or where layers may attend to a
-- window alone, certain is that each token attends to itself.
WITH called AS (
    SELECT c.trace_id, c.event_id, type, size, d[1] AS q, d[2] AS k, d[3] AS v,
           -- Positions that are given: a window, or -1 for none.
           c[place_of(told, 'window')] = '-1' AS is_whole, element_bytes(t[2]) AS key_size,
           c.pid, c.tid, c.start_ns,
           lower(i.c[place_of(told, 'causal')]) IN ('true', '1') AS is_causal
    FROM _scratch.operator_call AS c JOIN _scratch.operator_input AS i
      ON c.name = i.name AND c.dims = i.dims AND c.types IS NOT DISTINCT FROM i.types
        AND c.concrete IS NOT DISTINCT FROM i.concrete
    WHERE i.kind = 'paged_attention' AND len(d[1]) = 3 AND len(d[2]) = 3 AND len(d[3]) = 3
),
summed AS (
    SELECT c.*, q[2] * (q[3] + v[3]) AS head, k[2] * (k[3] + v[3]) * key_size AS key_bytes,
           CASE WHEN is_whole AND c.start_ns < s.end_ns THEN [
               sum_in(s.name, '\(sq(\d+)sk'), sum_in(s.name, '\(sq\d+sk(\d+)'),
               sum_in(s.name, 'sqsq(\d+)'), sum_in(s.name, 'sqsk(\d+)')] END AS sums
    FROM called AS c ASOF LEFT JOIN server_step AS s
      ON c.trace_id = s.trace_id AND c.pid = s.pid AND c.tid = s.tid AND c.start_ns >= s.start_ns
)
SELECT trace_id, event_id, type, TRUE AS is_matrix,
       2 * head * CASE WHEN NOT is_known THEN q[1] WHEN is_causal THEN sums[4] - (sums[3] - sums[1]) / 2
           ELSE sums[4] END AS flops,
       elements(q) * size + weights AS read, q[1] * q[2] * v[3] * size AS written, weights, FALSE AS is_exact
FROM (SELECT *, coalesce(sums[1] = q[1], FALSE) AS is_known,
             CASE WHEN is_known THEN sums[2] ELSE q[1] END * key_bytes AS weights FROM summed)
