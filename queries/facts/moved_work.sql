-- fact: The work of inputs of an operator that reads and writes some of them whole.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work = 'moves'
-- `reads` and `writes` are the places of tensors among the inputs: operators of engines are given their
-- output. What index_put writes are its values: the destination stays where it is. A cache keeps its own
-- format.
WITH placed AS (
    SELECT *,
           CASE WHEN regexp_matches(name, 'index_put') THEN [3]
               WHEN regexp_matches(name, 'fused_add_rms_?norm') THEN [1, 2, 3]
               WHEN regexp_matches(name, 'add_rms_?norm') THEN [2, 3, 5]
               WHEN regexp_matches(name, 'rms_?norm') THEN [2, 3]
               WHEN regexp_matches(name, '_and_mul') THEN [2]
               WHEN regexp_matches(name, 'rotary') THEN [2, 3] ELSE [1, 2] END AS reads,
           CASE WHEN regexp_matches(name, 'index_put') THEN [3]
               WHEN regexp_matches(name, 'fused_add_rms_?norm') THEN [1, 2]
               WHEN regexp_matches(name, 'add_rms_?norm') THEN [1, 4]
               WHEN regexp_matches(name, 'rms_?norm|_and_mul') THEN [1]
               WHEN regexp_matches(name, 'rotary') THEN [2, 3] END AS writes,
           list_transform(range(1, len(d) + 1), lambda i: elements(d[i])) AS counts
    FROM _scratch.operator_input
    -- Few values may be written to many places; a norm that is given no output returns it.
    WHERE kind = 'moves' AND (NOT contains(name, 'index_put') OR len(d[3]) = len(d[1]))
        AND (NOT contains(name, 'norm') OR d[1] = d[2])
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, counts[reads[1]] AS flops,
       list_sum(list_transform(reads, lambda i: counts[i] * element_bytes(t[i]))) AS read,
       CASE WHEN writes IS NULL THEN counts[1] * element_bytes(t[3]) + counts[2] * element_bytes(t[4])
            ELSE list_sum(list_transform(writes, lambda i: counts[i] * element_bytes(t[i]))) END AS written,
       0 AS weights, TRUE AS is_exact
FROM placed
