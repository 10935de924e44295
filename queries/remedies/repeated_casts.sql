-- question: Which weights are cast to another type again though they have not changed?
-- since: 0.1
-- title: Cast weights once, not in every pass
-- causes: dispatch, launch, memory-bandwidth
-- when: has(traits, 'casts'); name = 'aten::_to_copy'; work IN ('linear', 'convolution')
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
-- risks: A model in bf16 also computes in bf16 what autocast leaves in fp32, such as softmax and norms:
--     compare outputs. The cache of autocast keeps the cast weights in memory until its region ends.
-- check: tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
--     https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html
-- doubts: no_gpu_ops, no_shapes, no_stacks
-- A weight: cast inside a linear layer or a convolution, with the shape of its weight or bias and not of its
-- input. It has not changed where the trace has no backward pass and no optimizer, or where the same module
-- cast it already since the optimizer's last step.
WITH operator AS (
    SELECT o.trace_id, o.event_id, parent_id, o.name, o.pid, o.tid, o.start_ns, o.dur_ns, work,
           shapes_of(input_dims) AS d, texts_of(input_types) AS t
    FROM cpu_ops AS o JOIN thread_slice USING (trace_id, event_id) WHERE is_asked(o.trace_id)
        AND (o.name IN ('aten::to', 'aten::_to_copy', 'aten::copy_') OR work IN ('linear', 'convolution'))
),
-- aten::linear, aten::to, aten::_to_copy, aten::copy_: each inside the previous one.
weight AS (
    SELECT whole.* EXCLUDE (d, t), c.d[1] AS shape, c.t[2] AS source, c.t[1] AS goal, whole.dur_ns AS ns,
           list_position(layer.d, shape) AS operand,
           peak_name(source) || ' to ' || peak_name(goal) || ', mostly ' || shape::VARCHAR AS told
    FROM operator AS c JOIN operator AS half ON c.trace_id = half.trace_id AND c.parent_id = half.event_id
    JOIN operator AS whole ON half.trace_id = whole.trace_id AND half.parent_id = whole.event_id
    JOIN operator AS layer ON whole.trace_id = layer.trace_id AND whole.parent_id = layer.event_id
    WHERE c.name = 'aten::copy_' AND half.name = 'aten::_to_copy' AND whole.name = 'aten::to'
        AND layer.work IN ('linear', 'convolution') AND shape <> layer.d[1]
        AND list_contains(layer.d[2:], shape) AND shape = c.d[2] AND len(shape) > 0 AND source <> goal
        AND peak_name(source) IS NOT NULL AND peak_name(goal) IS NOT NULL
),
update_step AS (
    SELECT trace_id, start_ns, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns) AS number
    FROM slices WHERE has(traits, 'optimizer_step')
),
again AS (
    SELECT w.*, place FROM weight AS w LEFT JOIN call_site USING (trace_id, event_id)
    LEFT JOIN event AS m ON w.trace_id = m.trace_id AND module_id = m.event_id
    ASOF LEFT JOIN update_step AS u ON w.trace_id = u.trace_id AND w.start_ns >= u.start_ns
    QUALIFY w.trace_id NOT IN (FROM learning_traces) OR m.name IS NOT NULL AND row_number() OVER (
        PARTITION BY w.trace_id, m.name, operand, shape, u.number ORDER BY w.start_ns) > 1
)
SELECT trace_id, place, detail, 'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM detailed('again')
