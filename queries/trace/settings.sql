-- question: What does the run already use: which framework, compiler, graphs, formats and kernels?
-- since: 0.1
-- column name (text): framework, engine, mode, compiler, cuda graphs, products, attention, optimizer, loader,
--     parallelism or recorded
-- column value (text): what it is
-- column share (fraction of whole): how much of the run it is; NULL: no matter of degree
-- column whole (text): what the share is of: GPU ops, or the time of products or attention; NULL: no share
-- column event_id (id): an event that shows it
-- doubts: no_gpu_ops, no_operators, no_stacks
-- Only what ran is evidence: a package in the metadata may be installed and not used.
WITH named AS (
    SELECT n.label_id, n.name, kind, class, traits, trace_id
    FROM slice_label AS n JOIN label USING (label_id) WHERE is_asked(trace_id)
),
-- The spellings of a name, the most certain one.
meaning AS (
    SELECT label_id, facet, arg_min(meaning, rank) AS meaning
    FROM (FROM named WHERE kind = 'kernel' AND class IN ('gemm', 'convolution', 'attention')) AS n
    JOIN (FROM spelling WHERE facet IN ('backend', 'format')) AS s ON regexp_matches(n.name, pattern)
    GROUP BY ALL
),
-- Names that show a setting by themselves.
shown AS (
    SELECT trace_id, label_id, unnest([
        if(kind = 'cpu_op' AND starts_with(name, 'aten::'), {'n': 'framework', 'v': 'PyTorch'}, NULL),
        if(has(traits, 'of_vllm'), {'n': 'engine', 'v': 'vLLM'}, NULL),
        if(kind = 'python' AND regexp_matches(name, '(^|/)sglang/'), {'n': 'engine', 'v': 'SGLang'}, NULL),
        if(list_has_any(traits, ['backward', 'backward_kernel', 'optimizer_step']),
            {'n': 'mode', 'v': 'training'}, NULL),
        if(list_has_any(traits, ['norm_of_training', 'norm_statistics'])
                AND trace_id NOT IN (FROM learning_traces),
            {'n': 'mode', 'v': 'training mode without a backward pass'}, NULL),
        if(has(traits, 'prefetched_input'), {'n': 'loader', 'v': 'worker processes'}, NULL),
        if(has(traits, 'own_input'), {'n': 'loader', 'v': 'the process itself'}, NULL),
        if(starts_with(name, 'torch.distributed.ddp.reducer'), {'n': 'parallelism', 'v': 'DDP'}, NULL),
        if(starts_with(name, 'FSDP::'), {'n': 'parallelism', 'v': 'FSDP'}, NULL),
        if(kind = 'python', {'n': 'recorded', 'v': 'stacks'}, NULL),
        if(has(traits, 'module'), {'n': 'recorded', 'v': 'modules'}, NULL)
    ]) AS setting FROM named
),
op AS (
    SELECT g.trace_id, event_id, launch_id, pid, tid, launch_start_ns, is_graph, class, dur_ns,
           b.meaning AS backend, f.meaning AS format, count(*) OVER (PARTITION BY g.trace_id) AS ops,
           regexp_matches(name, '^triton_(poi|red|per|mix|tem|for|fox)_') AS is_generated
    FROM gpu_ops AS g LEFT JOIN (FROM meaning WHERE facet = 'backend') AS b USING (label_id)
    LEFT JOIN (FROM meaning WHERE facet = 'format') AS f USING (label_id) WHERE is_asked(g.trace_id)
),
compiled_call AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices
    WHERE compiled IN ('wrapper', 'generated') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
compiled AS (
    SELECT o.trace_id, o.event_id, o.ops FROM op AS o ASOF LEFT JOIN compiled_call AS c
      ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.tid = c.tid AND o.launch_start_ns >= c.start_ns
    WHERE o.is_generated OR o.launch_start_ns < c.end_ns
),
stepped AS (
    SELECT s.trace_id, s.event_id, regexp_extract(s.name, '^Optimizer\.step#(\w+)', 1) AS optimizer,
           CASE WHEN bool_or(contains(o.name, '_fused_')) THEN ', fused'
                WHEN bool_or(contains(o.name, '_foreach_')) THEN ', foreach'
                WHEN count(o.name) > 0 THEN ', one by one' ELSE '' END AS way
    FROM slices AS s LEFT JOIN cpu_ops AS o ON s.trace_id = o.trace_id AND s.pid = o.pid AND s.tid = o.tid
        AND o.start_ns BETWEEN s.start_ns AND s.end_ns
    WHERE has(s.traits, 'optimizer_step') AND optimizer <> '' AND is_asked(s.trace_id) GROUP BY ALL
),
listed AS (
    SELECT s.trace_id, setting.n AS name, setting.v AS value, NULL AS share, NULL AS whole,
           min(e.event_id) AS event_id
    FROM shown AS s JOIN event_row AS e USING (label_id) WHERE setting IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'framework', 'JAX', NULL, NULL, NULL FROM trace
    WHERE profiler = 'jax' AND is_asked(trace_id)
    UNION ALL
    SELECT trace_id, 'compiler', 'torch.compile', count(*) / any_value(ops), 'GPU ops', min(event_id)
    FROM compiled GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'cuda graphs',
           count(DISTINCT launch_id) || if(count(DISTINCT launch_id) = 1, ' launch', ' launches'),
           count(*) / any_value(ops), 'GPU ops', min(event_id)
    FROM op WHERE is_graph GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'products', coalesce(format, 'unknown'),
           sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY trace_id), 'time of products', min(event_id)
    FROM op WHERE class IN ('gemm', 'convolution') GROUP BY trace_id, format
    UNION ALL
    SELECT trace_id, 'attention', coalesce(backend, 'unknown'),
           sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY trace_id), 'time of attention', min(event_id)
    FROM op WHERE class = 'attention' GROUP BY trace_id, backend
    UNION ALL
    SELECT trace_id, 'optimizer', optimizer || way, NULL, NULL, min(event_id) FROM stepped GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'recorded', 'shapes', NULL, NULL, min(event_id) FROM cpu_ops
    WHERE input_dims IS NOT NULL AND is_asked(trace_id) GROUP BY trace_id
)
FROM listed
ORDER BY trace_id, array_position(['framework', 'engine', 'mode', 'compiler', 'cuda graphs', 'products',
    'attention', 'optimizer', 'loader', 'parallelism', 'recorded'], name), share DESC, value
