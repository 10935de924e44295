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
op AS (
    SELECT o.*, h.stream AS hta_stream, h.start_ns AS hta_start_ns, h.end_ns AS hta_end_ns, h.copies, h.linked_id,
           hta_kernel_type(o.name) AS hta_type, launch_name, launch_start_ns
    FROM gpu_ops AS o LEFT JOIN held AS h ON o.trace_id = h.trace_id AND o.event_id = h.event_id
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
found AS (
    SELECT trace_id, 'rounding' AS code, count(*) AS count FROM op WHERE hta_start_ns <> start_ns OR hta_end_ns <> end_ns GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'last_step', count(*) FROM op WHERE copies IS NULL GROUP BY trace_id
    UNION ALL
    SELECT h.trace_id, CASE WHEN s.kind = 'device_sync' THEN 'sync' ELSE 'host_events' END AS code, count(*)
    FROM held AS h JOIN slices AS s USING (trace_id, event_id)
    WHERE h.stream <> -1 AND s.kind NOT IN ('kernel', 'memcpy', 'memset') GROUP BY ALL
    UNION ALL
    SELECT h.trace_id, 'mtia_sync', count(*) FROM held AS h JOIN slices AS s USING (trace_id, event_id)
    WHERE category = 'mtia_ccp_events' AND s.kind = 'device_sync' GROUP BY h.trace_id
    UNION ALL
    SELECT trace_id, 'no_stream', count(*) FROM op WHERE hta_stream = -1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'devices', count(DISTINCT device_id) FROM op GROUP BY trace_id HAVING count(DISTINCT device_id) > 1
    UNION ALL
    SELECT trace_id, 'communication', count(*) FROM op
    WHERE kind = 'kernel' AND (activity = 'communication') <> (hta_type = 'COMMUNICATION') GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'types', count(*) FROM op WHERE (kind = 'kernel') <> (hta_type IN ('COMPUTATION', 'COMMUNICATION')) GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'copies', count(*) FROM op WHERE copies > 1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'pairs', count(*)
    FROM (SELECT trace_id, correlation FROM held WHERE stream = -1 AND correlation <> -1 GROUP BY ALL HAVING count(*) > 1)
    JOIN op USING (trace_id, correlation) GROUP BY trace_id
    UNION ALL
    SELECT h.trace_id, 'launched_sync', count(*)
    FROM held AS h JOIN slices AS s USING (trace_id, event_id) JOIN gpu_op_link AS l ON h.trace_id = l.trace_id AND h.linked_id = l.launch_id
    WHERE on_device AND s.kind = 'device_sync' GROUP BY h.trace_id
    UNION ALL
    SELECT trace_id, 'streams', count(DISTINCT stream) FROM op GROUP BY trace_id HAVING count(DISTINCT stream) > 1
    UNION ALL
    SELECT trace_id, 'overlap_on_stream', count(*)
    FROM (SELECT trace_id, start_ns < lag(end_ns) OVER (PARTITION BY trace_id, stream ORDER BY start_ns, event_id) AS is_early FROM op)
    WHERE is_early GROUP BY trace_id
    UNION ALL
    SELECT o.trace_id, 'first_event', count(*) FROM op AS o SEMI JOIN held AS h ON o.trace_id = h.trace_id AND o.linked_id = h.event_id
    WHERE linked_id = 0 GROUP BY o.trace_id
    UNION ALL
    SELECT trace_id, 'first_op', count(*) FROM op WHERE event_id = 0 AND launch_name IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'instants', count(*) FROM op WHERE start_ns = launch_start_ns GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'thresholds', count(*) FROM op GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'launch_names', count(*) FROM op
    WHERE NOT is_hta_launch(launch_name) GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'queue_names', count(*) FROM op WHERE NOT is_hta_queue_launch(launch_name) GROUP BY trace_id
)
SELECT trace_id, code, analyses, count, message FROM found JOIN rule USING (code) ORDER BY trace_id, code = 'thresholds', count DESC, code
