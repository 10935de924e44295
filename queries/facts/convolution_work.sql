-- fact: The work of inputs of a convolution.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work LIKE 'convolution%'
-- An input `x` with a weight `w` (backward: both after the output's gradient); `mask`: the gradients wanted.
-- A transposed one has its input's channels first in its weight, and those of a group of its output second.
WITH named AS (
    SELECT *, d[CASE WHEN is_backward THEN 2 ELSE 1 END]::DOUBLE[] AS x,
           d[CASE WHEN is_backward THEN 3 ELSE 2 END]::DOUBLE[] AS w,
           integers_of(c[setting['stride']])::DOUBLE[] AS stride,
           integers_of(c[setting['padding']])::DOUBLE[] AS padding,
           CASE WHEN setting['dilation'] IS NULL THEN [1]
                ELSE integers_of(c[setting['dilation']]) END::DOUBLE[] AS dilation,
           contains(name, 'transpose')
               OR coalesce(lower(c[CASE WHEN is_backward THEN 8 ELSE setting['transposed'] END])
                   IN ('true', '1'), FALSE) AS is_transposed,
           integers_of(c[setting['added']])::DOUBLE[] AS added,
           TRY_CAST(c[setting['groups']] AS DOUBLE) AS groups,
           CASE WHEN is_backward THEN
               list_transform(string_split(trim(c[11], '[]'), ','), lambda m: lower(trim(m)) IN ('true', '1'))
           END AS mask
    FROM _scratch.operator_input WHERE family = 'convolution'
),
measured AS (
    SELECT *,
           CASE WHEN is_backward THEN elements(d[1])
                WHEN len(stride) > 0 AND len(padding) > 0 AND len(dilation) > 0
                    THEN x[1] * CASE WHEN is_transposed THEN w[2] * groups ELSE w[1] END
                    * list_product(list_transform(
                        range(1, len(x) - 1),
                        lambda k: CASE WHEN is_transposed THEN
                            (x[k + 2] - 1) * coalesce(stride[k], stride[-1])
                            - 2 * coalesce(padding[k], padding[-1])
                            + coalesce(dilation[k], dilation[-1]) * (w[k + 2] - 1)
                            + coalesce(added[k], added[-1]) + 1
                        ELSE floor((x[k + 2] + 2 * coalesce(padding[k], padding[-1])
                            - coalesce(dilation[k], dilation[-1]) * (w[k + 2] - 1) - 1)
                            / coalesce(stride[k], stride[-1])) + 1 END
                    )) END AS out
    FROM named
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       -- Each position of the output (transposed: of the input) takes one product with the weight.
       CASE WHEN len(x) BETWEEN 3 AND 5 AND len(w) = len(x) THEN
           CASE WHEN is_backward THEN mask[1]::INTEGER + mask[2]::INTEGER ELSE 1 END * 2 * elements(w)
           * CASE WHEN is_transposed THEN elements(x) / x[2] ELSE out / w[1] END
       END AS flops,
       input_bytes AS read,
       CASE WHEN is_backward THEN mask[1]::INTEGER * sizes[2] + mask[2]::INTEGER * sizes[3]
            ELSE out * size END AS written,
       sizes[CASE WHEN is_backward THEN 3 ELSE 2 END] AS weights, TRUE AS is_exact
FROM measured
