-- question: Which weights are cast to another type again though they have not changed?
-- title: Cast weights once, not in every pass
-- causes: dispatch, launch, memory-bandwidth
-- when: has(traits, 'casts')
-- effort: low
-- needs: Weights that do not change between the casts: inference, or several passes before the optimizer's
--     step.
-- blind: no_shapes
-- before:
--     for batch in loader:
--         with torch.autocast("cuda", dtype=torch.bfloat16):   # casts each weight again
--             output = model(batch)
-- after:
--     model = model.to(torch.bfloat16)                         # inference: once
--     for batch in loader:
--         output = model(batch.to(torch.bfloat16))
--
--     # Training with accumulation: one autocast region around all passes before the step keeps its cache.
--     with torch.autocast("cuda", dtype=torch.bfloat16):
--         losses = [loss_of(model(part)) for part in parts]
-- risks: A model in bf16 also computes what autocast leaves in fp32, such as softmax and norms: compare
--     outputs. The cache of autocast keeps the cast weights in memory until its region ends.
-- check: tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
--     https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html
-- params trace
-- columns trace_id, place
-- column detail (text): the types, and the shape of the weights that take most time
-- column target (text): call: the cast with its GPU ops
-- columns event_id, pid, tid, start_ns, dur_ns, factor
-- doubts: no_gpu_ops, no_shapes, no_stacks
-- A weight: cast inside a linear layer or a convolution, with the shape of its weight or bias and not of its
-- input. It has not changed where the trace has no backward pass and no optimizer, or where the same module
-- cast it already since the optimizer's last step.
WITH shaped AS MATERIALIZED (
    SELECT o.*, parent_id, shapes_of(dims) AS d, texts_of(types) AS t
    FROM (SELECT *, input_dims AS dims, input_types AS types, work AS kind FROM cpu_ops
        WHERE name = 'aten::copy_' OR work IN ('linear', 'convolution')) AS o
    JOIN host_slice AS h USING (trace_id, event_id)
    WHERE dims IS NOT NULL AND o.trace_id = coalesce(getvariable('trace'), o.trace_id)
),
cast_copy AS (
    SELECT trace_id, event_id, parent_id, d[1] AS shape, t[2] AS source, t[1] AS goal FROM shaped
    WHERE name = 'aten::copy_' AND t[1] <> t[2] AND peak_name(t[1]) IS NOT NULL
        AND peak_name(t[2]) IS NOT NULL AND d[1] = d[2] AND len(d[1]) > 0
),
-- aten::linear, aten::to, aten::_to_copy, aten::copy_: each in the one before it.
inside AS (
    SELECT c.*, whole.event_id AS to_id, outer_one.parent_id AS layer_id
    FROM cast_copy AS c
    JOIN slices AS inner_one ON c.trace_id = inner_one.trace_id AND c.parent_id = inner_one.event_id
        AND inner_one.name = 'aten::_to_copy'
    JOIN host_slice AS h ON c.trace_id = h.trace_id AND c.parent_id = h.event_id
    JOIN slices AS whole ON c.trace_id = whole.trace_id AND h.parent_id = whole.event_id
        AND whole.name = 'aten::to'
    JOIN host_slice AS outer_one ON c.trace_id = outer_one.trace_id AND whole.event_id = outer_one.event_id
),
weight AS MATERIALIZED (
    SELECT i.trace_id, i.to_id AS event_id, i.shape, i.source, i.goal,
           list_position(layer.d, i.shape) AS operand
    FROM inside AS i JOIN shaped AS layer ON i.trace_id = layer.trace_id AND i.layer_id = layer.event_id
    WHERE layer.kind IN ('linear', 'convolution') AND i.shape <> layer.d[1]
        AND list_contains(layer.d[2:], i.shape)
),
learning AS (
    SELECT DISTINCT trace_id FROM slices
    WHERE has(traits, 'backward') OR kind IN ('cpu_op', 'annotation') AND starts_with(name, 'Optimizer.')
),
update_step AS (
    SELECT trace_id, start_ns, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns) AS number
    FROM slices WHERE has(traits, 'optimizer_step')
),
site AS (FROM call_site('weight')),
place AS (FROM places_of('weight')),
counted AS (
    SELECT w.*, s.pid, s.tid, s.start_ns, s.dur_ns, place,
           w.trace_id NOT IN (FROM learning) AS is_fixed,
           row_number() OVER (
               PARTITION BY w.trace_id, module, operand, shape, u.number ORDER BY s.start_ns) > 1
               AND module IS NOT NULL AS is_repeated
    FROM weight AS w JOIN slices AS s ON w.trace_id = s.trace_id AND w.event_id = s.event_id
    JOIN site ON w.trace_id = site.trace_id AND w.event_id = site.event_id
    JOIN place ON w.trace_id = place.trace_id AND w.event_id = place.event_id
    ASOF LEFT JOIN update_step AS u ON w.trace_id = u.trace_id AND s.start_ns >= u.start_ns
),
summed AS (
    SELECT *, sum(dur_ns) OVER (PARTITION BY trace_id, place, shape, source, goal) AS ns
    FROM counted WHERE is_fixed OR is_repeated
)
SELECT trace_id, place,
       arg_max(peak_name(source) || ' to ' || peak_name(goal) || ', mostly ' || shape::VARCHAR, ns)
           OVER (PARTITION BY trace_id, place) AS detail,
       'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM summed
ORDER BY trace_id, place, start_ns
