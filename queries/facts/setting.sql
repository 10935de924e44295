-- fact: What a run already uses: a framework, an engine, a compiler, graphs, formats, a loader ...
-- needs: slice_label
-- Only what ran is evidence: a package in the metadata may be installed and not used. The facts setting_ops,
-- setting_compiled and setting_optimizer add rows.
CREATE TABLE setting (
    trace_id INTEGER,
    name     VARCHAR, -- framework, engine, mode, compiler, cuda graphs, products, attention, optimizer,
                      -- loader, allocator, parallelism or recorded
    value    VARCHAR, -- what it is
    share    DOUBLE,  -- how much of the run it is; NULL: no matter of degree
    whole    VARCHAR, -- what the share is of: GPU ops, or the time of products or attention; NULL: no share
    event_id BIGINT   -- an event that shows it
);
WITH shows (trait, name, value) AS (VALUES
    ('of_pytorch', 'framework', 'PyTorch'),
    ('of_vllm', 'engine', 'vLLM'), ('of_sglang', 'engine', 'SGLang'),
    ('backward', 'mode', 'training'), ('backward_operator', 'mode', 'training'),
    ('backward_kernel', 'mode', 'training'), ('optimizer_step', 'mode', 'training'),
    ('zero_grad', 'mode', 'training'),
    ('norm_of_training', 'mode', 'training mode without a backward pass'),
    ('norm_statistics', 'mode', 'training mode without a backward pass'),
    ('prefetched_input', 'loader', 'worker processes'), ('own_input', 'loader', 'the process itself'),
    ('of_ddp', 'parallelism', 'DDP'), ('of_fsdp', 'parallelism', 'FSDP'),
    ('frame', 'recorded', 'stacks'), ('module', 'recorded', 'modules')
)
SELECT trace_id, s.name, value, NULL, NULL, min(first_id)
FROM (SELECT label_id, first_id, unnest(if(kind = 'python', list_append(traits, 'frame'), traits)) AS trait
    FROM slice_label)
JOIN shows AS s USING (trait) JOIN label USING (label_id)
GROUP BY trace_id, s.name, value
-- In training, norms compute statistics, as they should.
QUALIFY value <> 'training mode without a backward pass'
    OR count_if(value = 'training') OVER (PARTITION BY trace_id) = 0
UNION ALL
SELECT trace_id, 'framework', if(profiler = 'jax', 'JAX', 'TensorFlow'), NULL, NULL, NULL
FROM trace WHERE profiler IN ('jax', 'tensorflow')
UNION ALL
SELECT trace_id, 'recorded', 'shapes', NULL, NULL, min(event_id) FROM event_row
WHERE label_id IN (SELECT label_id FROM slice_label WHERE kind = 'cpu_op') AND contains(args, '"Input Dims"')
GROUP BY trace_id
UNION ALL
-- Without the caching allocator, nearly each launch has a tensor that is allocated and freed for it.
SELECT trace_id, 'allocator', 'no cache', NULL, NULL, min(first_id) FILTER (allocates)
FROM (SELECT *, call = 'allocate' AND has(traits, 'device_memory') AS allocates,
          call IN ('free', 'free_waiting') AND has(traits, 'device_memory') AS frees
    FROM slice_label WHERE call IS NOT NULL)
JOIN label USING (label_id)
GROUP BY trace_id
HAVING sum_where(event_count, allocates) >= thresholds().uncached_allocations
        * sum_where(event_count, activity = 'launch')
    AND sum_where(event_count, frees) >= thresholds().uncached_frees * sum_where(event_count, allocates)
    AND min(first_id) FILTER (allocates) IS NOT NULL
