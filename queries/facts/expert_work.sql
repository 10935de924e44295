-- fact: The work of inputs of the products of a mixture of experts.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work IN ('experts', 'grouped_mm', 'grouped_experts')
-- A router chooses experts for each token, so the experts that get tokens are unknown: at least as many as
-- one token is given. Experts get the tokens, both weights as (experts, outputs, inputs), and the chosen
-- experts' shares and numbers. Where a map says that other devices have some of them, nothing is certain.
-- Groups end at offsets that are not recorded, and rows behind the last are padding: certain is one row for
-- each.
WITH expert AS (
    -- Weights of 4 bits are packed along the inputs.
    SELECT *, elements(d[2][2:]) + elements(d[3][2:]) AS weight, d[1][2] // d[2][3] AS packed,
           least(d[2][1], d[4][2]) * weight * element_bytes(t[2]) AS weights
    FROM _scratch.operator_input
    WHERE kind = 'experts' AND len(d[1]) = 2 AND len(d[2]) = 3 AND len(d[3]) = 3 AND len(d[4]) = 2
        AND d[1][2] >= d[2][3]
        AND len(list_filter(list_zip(d[6:], t[6:]), lambda x: len(x[1]) = 1 AND x[1][1] > d[2][1]
            AND x[2] IN ('int', 'long int'))) = 0
),
-- `a` times `b`: one of both is (groups, rows, columns), or the result is.
grouped AS (
    SELECT *, d[1] AS a, d[2] AS b,
           CASE WHEN len(a) = 3 THEN a[1] WHEN len(b) = 3 THEN b[1]
               ELSE list_filter(list_zip(d, t), lambda x: len(x[1]) = 1 AND x[2] = 'int')[1][1][1]
               END AS groups,
           len(a) || '-' || len(b) AS form
    FROM _scratch.operator_input WHERE kind = 'grouped_mm' AND len(d[1]) IN (2, 3) AND len(d[2]) IN (2, 3)
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix, 2 * d[1][1] * d[4][2] * weight * packed AS flops,
       sizes[1] + weights AS read, sizes[1] AS written, weights, FALSE AS is_exact
FROM expert
UNION ALL
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       2 * b[-1] * CASE form WHEN '2-2' THEN a[1] * groups WHEN '3-2' THEN a[2] * a[3]
           WHEN '3-3' THEN elements(a) ELSE groups * a[2] END AS flops,
       CASE form WHEN '2-2' THEN groups * (a[1] + b[-1]) * size
           WHEN '3-2' THEN sizes[1] + b[1] * groups * size WHEN '3-3' THEN sizes[1] + sizes[2]
           ELSE sizes[2] + groups * a[2] * size END AS read,
       CASE form WHEN '2-2' THEN groups * a[1] * b[2] WHEN '3-2' THEN a[2] * groups
           WHEN '3-3' THEN a[1] * a[2] * b[3] ELSE groups * b[3] END * size AS written,
       CASE form WHEN '2-3' THEN sizes[2] ELSE 0 END AS weights, form = '3-3' AS is_exact
FROM grouped WHERE groups > 0
UNION ALL
-- The first of two products, of values in 8 bits: the second is an operator of its own.
SELECT name, dims, types, concrete, type, TRUE AS is_matrix, 2 * elements(d[4]) AS flops,
       (d[4][1] * d[1][2] + elements(d[4])) * size AS read, d[4][1] * d[4][2] * size AS written,
       elements(d[4]) * size AS weights, FALSE AS is_exact
FROM _scratch.operator_input WHERE kind = 'grouped_experts' AND len(d[1]) = 2 AND len(d[4]) = 3
