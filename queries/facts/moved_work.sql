-- fact: The work of inputs of an operator that reads and writes some of them whole.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work LIKE 'moves%'
-- queries/names/operators.csv says which inputs are read and written: operators of engines are given their
-- output, and others have one of the size of an input. `moves_at_least`: how much else an operator moves
-- depends on values, as where an index repeats. A norm that is given no output returns it: its places differ.
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       elements(d[coalesce(reads[1], writes[1]).place]) AS flops, moved_bytes(reads, d, t) AS read,
       moved_bytes(writes, d, t) AS written, 0 AS weights, kind = 'moves' AS is_exact
FROM (SELECT *, places_of(told, 'reads') AS reads, places_of(told, 'writes') AS writes
      FROM _scratch.operator_input WHERE kind IN ('moves', 'moves_at_least'))
WHERE NOT contains(name, 'norm') OR len(writes) = 0 OR len(d[writes[1].place]) = len(d[reads[1].place])
