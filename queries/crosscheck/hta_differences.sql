-- question: By which of its rules does HTA arrive at other numbers than tracekit on this trace?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column code (text): the rule
-- column analyses (list of text): HTA's analyses that the rule touches
-- column count (count): events or ops to which it applies
-- column message (text): the rule
-- A rule is listed only where the trace has something that it applies to. The rules themselves are in the
-- other queries of this topic and in views/hta.sql.
WITH held AS (SELECT * FROM hta_events()),
typed AS (SELECT name, hta_kernel_type(name) AS hta_type FROM (SELECT DISTINCT name FROM gpu_ops)),
op AS (
    SELECT o.*, h.stream AS hta_stream, h.start_ns AS hta_start_ns, h.end_ns AS hta_end_ns, h.copies, h.linked_id,
           hta_type, launch_name, launch_start_ns
    FROM gpu_ops AS o JOIN typed ON o.name IS NOT DISTINCT FROM typed.name
    LEFT JOIN held AS h ON o.trace_id = h.trace_id AND o.event_id = h.event_id
    LEFT JOIN gpu_op_link AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    WHERE o.trace_id = coalesce(getvariable('trace'), o.trace_id)
),
rule(code, analyses, message) AS (
    VALUES
    ('rounding', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], 'shrinks GPU ops to whole microseconds'),
    ('last_step', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
     'leaves out GPU ops that were not launched before the last profiler step'),
    ('host_events', ['temporal', 'kernels', 'overlap'], 'counts host events that name a stream as GPU work'),
    ('sync', ['temporal', 'kernels', 'overlap'], 'counts the device''s waits as GPU work'),
    ('mtia_sync', ['idle', 'launches', 'queue'], 'counts the waits and records of MTIA''s command processor as GPU ops'),
    ('no_stream', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], 'leaves out GPU ops whose arguments name no stream'),
    ('devices', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], 'takes several devices for one'),
    ('communication', ['temporal', 'kernels', 'overlap'], 'takes only ^nccl.*Kernel for communication, and other collectives for compute'),
    ('types', ['temporal', 'kernels', 'overlap'], 'tells copies from kernels by their names'),
    ('copies', ['idle', 'launches', 'queue'], 'counts a GPU op once for each host event with its correlation'),
    ('pairs', ['launches', 'queue'], 'takes every host event with the correlation of a GPU op for a launch of it'),
    ('launched_sync', ['launches', 'queue'], 'takes the device''s waits that have the correlation of a launch for GPU ops'),
    ('streams', ['idle'], 'looks at each stream alone, and tracekit at the device'),
    ('overlap_on_stream', ['idle'], 'counts ops of one stream that overlap as negative idle time'),
    ('first_event', ['idle'], 'takes the first event of the file for the launch of GPU ops that have none'),
    ('first_op', ['queue'], 'leaves out the GPU op that is the first event of the file'),
    ('instants', ['queue'], 'has no launch waiting whose op starts at the same instant, where tracekit has it waiting'),
    ('thresholds', ['idle'], 'calls a gap kernel_wait when it is short, where tracekit asks only whether the op had been launched'),
    ('launch_names', ['launches'], 'leaves out launches by other names than its five'),
    ('queue_names', ['queue'], 'leaves out launches by other names than its eleven')
),
of_ops AS (
    SELECT
        trace_id, count(*) FILTER (hta_start_ns <> start_ns OR hta_end_ns <> end_ns) AS rounding,
        count(*) FILTER (copies IS NULL) AS last_step,
        count(*) FILTER (hta_stream = -1) AS no_stream, nullif(count(DISTINCT device_id), 1) AS devices,
        count(*) FILTER (kind = 'kernel' AND (activity = 'communication') <> (hta_type = 'COMMUNICATION')) AS communication,
        count(*) FILTER ((kind = 'kernel') <> (hta_type IN ('COMPUTATION', 'COMMUNICATION'))) AS types,
        count(*) FILTER (copies > 1) AS copies,
        nullif(count(DISTINCT stream), 1) AS streams, count(*) FILTER (is_early) AS overlap_on_stream,
        count(*) FILTER (event_id = 0 AND launch_name IS NOT NULL) AS first_op, count(*) FILTER (start_ns = launch_start_ns) AS instants,
        count(*) AS thresholds, count(*) FILTER (NOT is_hta_launch(launch_name)) AS launch_names,
        count(*) FILTER (NOT is_hta_queue_launch(launch_name)) AS queue_names
    FROM (SELECT *, start_ns < lag(end_ns) OVER (PARTITION BY trace_id, stream ORDER BY start_ns, event_id) AS is_early FROM op)
    GROUP BY trace_id
),
other AS (
    SELECT trace_id, stream, on_device, linked_id, category, event_kind(category, name) AS kind
    FROM (SELECT * FROM held WHERE stream <> -1 OR category ILIKE '%sync' OR category = 'mtia_ccp_events')
    WHERE kind = 'device_sync' OR (stream <> -1 AND kind NOT IN ('kernel', 'memcpy', 'memset'))
),
found AS (
    SELECT trace_id, code, count FROM (UNPIVOT of_ops ON * EXCLUDE trace_id INTO NAME code VALUE count) WHERE count > 0
    UNION ALL
    SELECT trace_id, CASE WHEN kind = 'device_sync' THEN 'sync' ELSE 'host_events' END AS code, count(*) FROM other
    WHERE stream <> -1 GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'mtia_sync', count(*) FROM other WHERE category = 'mtia_ccp_events' GROUP BY trace_id
    UNION ALL
    SELECT o.trace_id, 'launched_sync', count(*) FROM other AS o
    JOIN gpu_op_link AS l ON o.trace_id = l.trace_id AND o.linked_id = l.launch_id
    WHERE on_device AND o.kind = 'device_sync' GROUP BY o.trace_id
    UNION ALL
    SELECT trace_id, 'pairs', count(*)
    FROM (SELECT trace_id, correlation FROM held WHERE stream = -1 AND correlation <> -1 GROUP BY ALL HAVING count(*) > 1)
    JOIN op USING (trace_id, correlation) GROUP BY trace_id
    UNION ALL
    SELECT o.trace_id, 'first_event', count(*) FROM op AS o SEMI JOIN held AS h ON o.trace_id = h.trace_id AND o.linked_id = h.event_id
    WHERE linked_id = 0 GROUP BY o.trace_id
)
SELECT trace_id, code, analyses, count, message FROM found JOIN rule USING (code) ORDER BY trace_id, code = 'thresholds', count DESC, code
