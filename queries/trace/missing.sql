-- question: What was not recorded in this trace, that some questions need?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column code (text): what is missing
-- column message (text): what that is, and how to record it
WITH named AS (
    SELECT trace_id, phase, category, name, event_kind(category, name) AS kind, shaped FROM (
        SELECT trace_id, phase, category, name,
               bool_or(lower(category) IN ('cpu_op', 'operator') AND contains(args, '"Input Dims"')) AS shaped
        FROM event WHERE trace_id = coalesce(getvariable('trace'), trace_id) GROUP BY ALL
    )
),
seen AS (
    SELECT
        trace_id, bool_or(shaped) AS no_shapes,
        bool_or(kind = 'python' AND is_module_frame(name)) AS no_modules,
        bool_or(kind = 'annotation') AS no_annotations, bool_or(kind = 'cpu_op') AS no_operators,
        bool_or(kind IN ('runtime', 'driver')) AS no_runtime_calls,
        bool_or(kind IN ('cpu_op', 'annotation')
            AND compiled_part(kind, name) IS NOT NULL) AS no_compiled_code,
        bool_or(kind IN ('cpu_op', 'annotation', 'python')
            AND host_activity(kind, name) = 'input') AS no_data_loading,
        bool_or(phase = 'i' AND name = '[memory]') AS no_memory_events,
        bool_or(kind IN ('memcpy', 'memset')) AS no_copies,
        bool_or(kind = 'kernel' AND kernel_class(name) = 'communication') AS no_communication,
        bool_or(kind IN ('runtime', 'driver') AND contains(name, 'GraphLaunch')) AS no_graphs,
        bool_or(kind = 'counter_range' OR phase = 'C') AS no_counters,
        trace_id IN (SELECT trace_id FROM device_peaks WHERE hardware IS NOT NULL) AS unknown_device,
        trace_id IN (SELECT a.trace_id FROM jobs AS a
            JOIN jobs AS b ON a.job = b.job AND a.trace_id <> b.trace_id) AS one_rank
    FROM named GROUP BY trace_id
),
absent AS (SELECT trace_id, code FROM (UNPIVOT seen ON * EXCLUDE trace_id INTO NAME code VALUE is_there)
    WHERE NOT is_there),
explained (code, message) AS (VALUES
    ('no_shapes', 'no input shapes were recorded (record_shapes=True)'),
    ('no_modules', 'no calls of nn.Module were recorded (with_stack=True, with_modules=True)'),
    ('no_annotations', 'no range of the code is annotated (torch.profiler.record_function)'),
    ('no_operators', 'no operators were recorded (ProfilerActivity.CPU)'),
    ('no_runtime_calls', 'no calls of a runtime or driver were recorded'),
    ('no_compiled_code', 'no code in it was compiled by torch.compile'),
    ('no_data_loading', 'no data loading is in it: no DataLoader was used, or not while recording'),
    ('no_memory_events', 'no allocations were recorded (profile_memory=True)'),
    ('no_copies', 'no copy or fill ran on a device'),
    ('no_communication', 'no collective ran on a device'),
    ('no_graphs', 'no CUDA graph was launched'),
    ('no_counters', 'no counters were recorded'),
    ('unknown_device',
        'the peaks of its device are not known, so work is held against nothing (--hardware adds a device)'),
    ('one_rank', 'no other rank of its job is in the database: load the traces of several ranks together')
)
SELECT trace_id, code, message
FROM absent JOIN explained USING (code)
ORDER BY trace_id, code
