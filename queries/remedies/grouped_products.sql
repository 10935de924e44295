-- question: Where are weights copied for each token or row before a batched product (a mixture of experts)?
-- since: 0.1
-- title: Use grouped products, gather no weights
-- causes: memory-bandwidth, math
-- when: work = 'bmm'
-- effort: high
-- needs: Tokens that can be sorted by expert, so that each expert's weights meet all of its tokens at once.
-- caveat: A lower bound: only the copies are counted. The grouped product also reads each weight once,
--     instead of once for each token; sorting the tokens takes a little.
-- before:
--     w = weights[expert_of_token]                       # copies a matrix for each token
--     y = torch.bmm(x[:, None], w)
-- after:
--     order = expert_of_token.argsort()                  # tokens of one expert side by side
--     y = torch._grouped_mm(x[order], weights, offs=ends_of_experts)
--     # or, with few experts: for e in range(experts): y[mask[e]] = x[mask[e]] @ weights[e]
-- risks: Sums are taken in another order, so results differ in the last bits. A loop over experts that
--     selects by a mask makes the host wait for sizes; the grouped product does not.
-- check: tracekit query after.json roofline; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
--     https://arxiv.org/abs/2211.15841
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, no_stacks
-- The product's batch is made of slices of a tensor of three dimensions that was indexed just before it.
-- Without shapes: of rows as large as a matrix, and the next op is a batched product.
WITH product AS (
    SELECT trace_id, event_id, gpu_op_ids[1] AS product_id, device_id, stream, first_ns,
           shapes_of(dims)[2] AS b
    FROM all_work WHERE kind = 'bmm' AND is_asked(trace_id)
),
gather AS (
    SELECT trace_id, device_id, stream, min(start_ns) AS first_ns, min(event_id) AS gather_id,
           list(event_id ORDER BY event_id) AS gpu_op_ids, any_value(shapes_of(dims)[1]) AS weights
    FROM gpu_op_origin
    WHERE cpu_op IN ('aten::index', 'aten::index_select', 'aten::embedding', 'aten::gather')
        AND trace_id IN (SELECT trace_id FROM product) AND len(shapes_of(dims)[1]) = 3
    -- A captured operator runs in each replay.
    GROUP BY trace_id, device_id, stream, coalesce(cpu_op_id, event_id), CASE WHEN is_graph THEN launch_id END
),
-- A copy and the product after it belong together, rather than one of another shape that reads it turned.
pair AS (
    SELECT p.trace_id, p.event_id, g.gpu_op_ids, g.weights, p.b[1] AS copies
    FROM (
        SELECT *, unnest([FALSE, TRUE]) AS is_turned,
               CASE WHEN is_turned THEN list_reverse(b[2:]) ELSE b[2:] END AS shape
        FROM product
    ) AS p
    ASOF JOIN gather AS g ON p.trace_id = g.trace_id AND p.device_id = g.device_id AND p.stream = g.stream
        AND p.shape = g.weights[2:] AND p.first_ns > g.first_ns
    QUALIFY row_number() OVER (PARTITION BY p.trace_id, product_id ORDER BY is_turned) = 1
        AND row_number() OVER (PARTITION BY g.trace_id, gather_id ORDER BY is_turned, p.first_ns) = 1
),
large AS (
    SELECT trace_id, event_id, TRY_CAST(grid AS DOUBLE[])[1] AS copies, b.bytes / copies AS row_bytes
    FROM kernel_bound AS b JOIN gpu_ops AS g USING (trace_id, event_id)
    WHERE contains(g.name, 'vectorized_gather_kernel') AND row_bytes >= thresholds().matrix_bytes
        AND is_asked(trace_id)
),
followed AS (
    SELECT o.trace_id, o.event_id, copies, row_bytes, lead(if(copies IS NULL, o.cpu_op, NULL) IGNORE NULLS)
               OVER behind AS product,
           lead(if(copies IS NULL, o.cpu_op_id, NULL) IGNORE NULLS) OVER behind AS product_id
    FROM gpu_op_origin AS o LEFT JOIN large USING (trace_id, event_id)
    WHERE trace_id IN (SELECT trace_id FROM large)
    WINDOW behind AS (PARTITION BY trace_id, o.device_id, o.stream ORDER BY o.start_ns, o.event_id)
),
copied AS (
    SELECT trace_id, event_id, unnest(gpu_op_ids) AS gpu_op_id,
           format('at least: {} copies of {}', copies, weights[2:]::VARCHAR) AS told
    FROM pair
    UNION ALL
    SELECT trace_id, product_id, event_id,
           format('at least: {:.0f} copies of {}', copies, format_bytes(row_bytes::BIGINT))
    FROM followed WHERE copies IS NOT NULL AND product = 'aten::bmm'
),
op AS (
    SELECT c.*, 'op' AS target, g.start_ns, g.dur_ns, g.dur_ns AS ns, 0 AS factor
    FROM copied AS c JOIN gpu_ops AS g ON c.trace_id = g.trace_id AND c.gpu_op_id = g.event_id
)
FROM changed_ops('op')
