-- fact: The work of inputs of a matrix product from a template of Inductor.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work = 'template'
-- Templates get their two factors side by side, perhaps a bias before them, more operands behind, and the
-- output last. The factors are those that fit it.
SELECT name, dims, types, concrete, type, TRUE AS is_matrix, 2 * elements(d[-1]) * fit.k AS flops,
       list_sum(sizes[:-2]) AS read, sizes[-1] AS written, 0 AS weights, TRUE AS is_exact
FROM (
    SELECT *, list_filter(
        list_transform([1, 2], lambda i: {
            'k': elements(d[i]) * d[-1][-1] // elements(d[-1]), 'a': elements(d[i]),
            'b': elements(d[i + 1])}),
        lambda x: x.k > 0 AND x.k * elements(d[-1]) = x.a * d[-1][-1]
            AND x.b IN (x.k * d[-1][-1], x.k * elements(d[-1]) // d[-1][-2]))[1] AS fit
    FROM (SELECT * REPLACE (list_filter(d, lambda each: len(each) > 0) AS d)
          FROM _scratch.operator_input WHERE kind = 'template' AND NOT contains(name, 'attention'))
    WHERE len(d) > 2 AND len(d) = len(sizes)
)
