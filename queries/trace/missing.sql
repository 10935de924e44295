-- question: Which data that some questions need was not recorded in this trace?
-- since: 0.1
-- columns code, message
WITH named AS (
    SELECT trace_id, phase, l.name, category IS NOT DISTINCT FROM 'memory_snapshot' AS is_of_snapshot,
           coalesce(s.kind, 'other') AS kind, activity, call, class, compiled, traits
    FROM label AS l LEFT JOIN slice_label AS s USING (label_id) WHERE is_asked(trace_id)
),
seen AS (
    SELECT
        trace_id,
        trace_id IN (SELECT trace_id FROM setting WHERE (name, value) = ('recorded', 'shapes')) AS no_shapes,
        coalesce(bool_or(has(traits, 'module')), FALSE) AS no_modules,
        bool_or(kind = 'annotation') AS no_annotations, bool_or(kind = 'cpu_op') AS no_operators,
        bool_or(kind IN ('runtime', 'driver')) AS no_runtime_calls,
        coalesce(bool_or(kind IN ('cpu_op', 'annotation') AND compiled IS NOT NULL), FALSE)
            AS no_compiled_code,
        coalesce(bool_or(activity = 'input'), FALSE) AS no_data_loading,
        bool_or((phase = 'i' AND name = '[memory]') OR is_of_snapshot) AS no_memory_events,
        bool_or(kind IN ('memcpy', 'memset')) AS no_copies,
        coalesce(bool_or(class = 'communication'), FALSE) AS no_communication,
        coalesce(bool_or(call = 'launch_graph'), FALSE) AS no_graphs,
        NOT no_graphs OR trace_id IN (SELECT trace_id FROM graph_site) AS unknown_graphs,
        bool_or(kind = 'counter_range' OR phase = 'C') AS no_counters,
        trace_id IN (SELECT trace_id FROM device_peaks WHERE hardware IS NOT NULL) AS unknown_device,
        trace_id IN (SELECT trace_id FROM jobs QUALIFY count(*) OVER (PARTITION BY job) > 1) AS one_rank
    FROM named GROUP BY trace_id
),
absent AS (SELECT trace_id, code FROM (UNPIVOT seen ON * EXCLUDE trace_id INTO NAME code VALUE is_there)
    WHERE NOT is_there),
explained (code, message) AS (VALUES
    ('no_shapes', 'no input shapes were recorded'),
    ('no_modules', 'no calls of nn.Module were recorded'),
    ('no_annotations', 'no range of the code is annotated'),
    ('no_operators', 'no operators were recorded'),
    ('no_runtime_calls', 'no calls of a runtime or driver were recorded'),
    ('no_compiled_code', 'no code in it was compiled by torch.compile'),
    ('no_data_loading', 'no data loading is in it: no DataLoader was used, or not while recording'),
    ('no_memory_events', 'no allocations were recorded'),
    ('no_copies', 'no copy or fill ran on a device'),
    ('no_communication', 'no collective ran on a device'),
    ('no_graphs', 'no CUDA graph was launched'),
    ('unknown_graphs', 'nothing tells of which operators and modules the kernels inside its graphs are '
        || '(record their capture, or torch.cuda.graph(enable_annotations=True))'),
    ('no_counters', 'no counters were recorded'),
    ('unknown_device',
        'the peaks of its device are not known, so work is held against nothing (--hardware adds a device)'),
    ('one_rank', 'no other rank of its job is in the database: load the traces of several ranks together')
)
SELECT trace_id, code,
       if(code = 'no_shapes' AND record_shapes, 'no operator in it has input shapes',
           message || coalesce(' (' || coalesce(
               if(engine IN ('vLLM', 'SGLang'), switch_of(engine, code), NULL),
               switch_of(profiler, code)) || ')', '')) AS message
FROM absent JOIN explained USING (code) JOIN trace USING (trace_id)
LEFT JOIN (SELECT trace_id, any_value(value) AS engine FROM setting WHERE name = 'engine' GROUP BY ALL)
    USING (trace_id)
ORDER BY trace_id, code
