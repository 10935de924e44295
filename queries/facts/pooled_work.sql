-- fact: The work of inputs of an operator that pools or resizes images.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND regexp_matches(work, '^(pooling|resized|sampled)')
-- Images are (batch, channels, rows, columns), or without a batch, and may have 1 or 3 dimensions. A window
-- starts inside the image or in the padding before it.
-- https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
WITH pooled AS (
    SELECT *, regexp_extract(name, '([123])d', 1)::INTEGER AS dimensions,
           d[1][len(d[1]) - dimensions + 1:] AS x,
           integers_of(c[place_of(told, 'kernel')]) AS kernel,
           integers_of(c[place_of(told, 'padding')]) AS padding,
           integers_of(c[place_of(told, 'stride')]) AS given,
           CASE WHEN len(given) > 0 THEN given ELSE kernel END AS stride,
           CASE WHEN place_of(told, 'dilation') IS NULL THEN [1]
                ELSE integers_of(c[place_of(told, 'dilation')]) END AS dilation,
           lower(c[place_of(told, 'rounded_up')]) IN ('true', '1') AS is_rounded_up
    FROM _scratch.operator_input WHERE kind = 'pooling'
),
counted AS (
    SELECT *, elements(d[1]) / elements(x) * list_product(list_transform(range(1, dimensions + 1), lambda k:
               CASE WHEN is_rounded_up THEN
                   least((x[k] + coalesce(padding[k], padding[-1]) - 1) // coalesce(stride[k], stride[-1]),
                       ceil((x[k] + 2 * coalesce(padding[k], padding[-1])
                           - coalesce(dilation[k], dilation[-1]) * (coalesce(kernel[k], kernel[-1]) - 1) - 1)
                           / coalesce(stride[k], stride[-1])))
               ELSE (x[k] + 2 * coalesce(padding[k], padding[-1])
                   - coalesce(dilation[k], dilation[-1]) * (coalesce(kernel[k], kernel[-1]) - 1) - 1)
                   // coalesce(stride[k], stride[-1]) END + 1)) AS out
    FROM pooled WHERE len(kernel) > 0 AND len(stride) > 0 AND len(padding) > 0 AND len(dilation) > 0
),
resized AS (
    SELECT *, CASE kind WHEN 'sampled' THEN d[1][2] * elements(d[2]) / d[2][-1]
               WHEN 'resized_backward' THEN elements(integers_of(c[3]))
               ELSE elements(d[1][:len(d[1]) - len(integers_of(c[2]))]) * elements(integers_of(c[2]))
               END AS out
    FROM _scratch.operator_input WHERE kind IN ('resized', 'resized_backward', 'sampled')
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, tensors[1].elements AS flops, sizes[1] AS read,
       out * (size + coalesce(place_of(told, 'indices'), 0)) AS written, 0 AS weights, TRUE AS is_exact
FROM counted
UNION ALL
-- A smaller image may leave some of the input out, and a grid may show any part of it.
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, out AS flops,
       CASE WHEN kind = 'sampled' THEN sizes[2] WHEN kind = 'resized_backward' OR contains(name, 'pool')
           THEN sizes[1] ELSE least(sizes[1], out * size) END AS read,
       out * size AS written, 0 AS weights, kind <> 'sampled' AS is_exact
FROM resized
