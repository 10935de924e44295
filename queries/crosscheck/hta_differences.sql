-- question: Which of HTA's rules make its numbers differ from tracekit's on this trace?
-- params trace
-- columns trace_id
-- column code (text): the rule
-- column analyses (list of text): HTA's analyses that the rule touches
-- column count (count): events or ops to which it applies
-- column message (text): the rule
-- Only rules that apply to something in the trace: other queries of this topic and views/hta.sql define them.
WITH held AS MATERIALIZED (SELECT * FROM hta_events()),
typed AS (SELECT name, hta_kernel_type(name) AS hta_type FROM (SELECT DISTINCT name FROM gpu_ops)),
op AS MATERIALIZED (
    SELECT o.*, h.stream AS hta_stream, h.start_ns AS hta_start_ns, h.end_ns AS hta_end_ns, h.copies,
           h.linked_id, hta_type, launch_name, launch_start_ns,
           o.start_ns < lag(o.end_ns) OVER before AS is_early
    FROM gpu_ops AS o JOIN typed ON o.name IS NOT DISTINCT FROM typed.name
    LEFT JOIN held AS h ON o.trace_id = h.trace_id AND o.event_id = h.event_id
    LEFT JOIN gpu_op_launch AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    WHERE o.trace_id = coalesce(getvariable('trace'), o.trace_id)
    WINDOW before AS (PARTITION BY o.trace_id, o.stream ORDER BY o.start_ns, o.event_id)
),
-- What is not a GPU op to tracekit, and may be one to HTA.
other AS (
    SELECT trace_id, stream, on_device, linked_id, category, event_kind(category, name) AS kind
    FROM (SELECT * FROM held WHERE stream <> -1 OR category ILIKE '%sync' OR category = 'mtia_ccp_events')
    WHERE kind = 'device_sync' OR (stream <> -1 AND kind NOT IN ('kernel', 'memcpy', 'memset'))
),
shared_correlation AS (
    SELECT trace_id, correlation FROM held WHERE stream = -1 AND correlation <> -1
    GROUP BY trace_id, correlation HAVING count(*) > 1
),
rule (trace_id, code, analyses, count, message) AS (
    SELECT trace_id, 'rounding', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], count(*),
           'shrinks GPU ops to whole microseconds'
    FROM op WHERE hta_start_ns <> start_ns OR hta_end_ns <> end_ns GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'last_step', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], count(*),
           'leaves out GPU ops that were not launched before the last profiler step'
    FROM op WHERE copies IS NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'host_events', ['temporal', 'kernels', 'overlap'], count(*),
           'counts host events that name a stream as GPU work'
    FROM other WHERE kind <> 'device_sync' AND stream <> -1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'sync', ['temporal', 'kernels', 'overlap'], count(*),
           'counts the device''s waits as GPU work'
    FROM other WHERE kind = 'device_sync' AND stream <> -1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'mtia_sync', ['idle', 'launches', 'queue'], count(*),
           'counts the waits and records of MTIA''s command processor as GPU ops'
    FROM other WHERE category = 'mtia_ccp_events' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'no_stream', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'], count(*),
           'leaves out GPU ops whose arguments name no stream'
    FROM op WHERE hta_stream = -1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'devices', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
           count(DISTINCT device_id),
           'takes several devices for one'
    FROM op GROUP BY trace_id HAVING count(DISTINCT device_id) > 1
    UNION ALL
    SELECT trace_id, 'communication', ['temporal', 'kernels', 'overlap'], count(*),
           'takes only ^nccl.*Kernel for communication, and other collectives for compute'
    FROM op WHERE kind = 'kernel' AND (activity = 'communication') <> (hta_type = 'COMMUNICATION')
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'types', ['temporal', 'kernels', 'overlap'], count(*),
           'tells copies from kernels by their names'
    FROM op WHERE (kind = 'kernel') <> (hta_type IN ('COMPUTATION', 'COMMUNICATION')) GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'copies', ['idle', 'launches', 'queue'], count(*),
           'counts a GPU op once for each host event with its correlation'
    FROM op WHERE copies > 1 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'pairs', ['launches', 'queue'], count(*),
           'takes every host event with the correlation of a GPU op for a launch of it'
    FROM op JOIN shared_correlation USING (trace_id, correlation) GROUP BY trace_id
    UNION ALL
    SELECT o.trace_id, 'launched_sync', ['launches', 'queue'], count(*),
           'takes the device''s waits that have the correlation of a launch for GPU ops'
    FROM other AS o JOIN gpu_op_launch AS l ON o.trace_id = l.trace_id AND o.linked_id = l.launch_id
    WHERE on_device AND o.kind = 'device_sync' GROUP BY o.trace_id
    UNION ALL
    SELECT trace_id, 'streams', ['idle'], count(DISTINCT stream),
           'looks at each stream alone, and tracekit at the device'
    FROM op GROUP BY trace_id HAVING count(DISTINCT stream) > 1
    UNION ALL
    SELECT trace_id, 'overlap_on_stream', ['idle'], count(*),
           'counts ops of one stream that overlap as negative idle time'
    FROM op WHERE is_early GROUP BY trace_id
    UNION ALL
    SELECT o.trace_id, 'first_event', ['idle'], count(*),
           'takes the first event of the file for the launch of GPU ops that have none'
    FROM op AS o SEMI JOIN held AS h ON o.trace_id = h.trace_id AND o.linked_id = h.event_id
    WHERE linked_id = 0 GROUP BY o.trace_id
    UNION ALL
    SELECT trace_id, 'first_op', ['queue'], count(*),
           'leaves out the GPU op that is the first event of the file'
    FROM op WHERE event_id = 0 AND launch_name IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'instants', ['queue'], count(*),
           'has no launch waiting whose op starts at the same instant, where tracekit has it waiting'
    FROM op WHERE start_ns = launch_start_ns GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'thresholds', ['idle'], count(*),
           'calls a gap kernel_wait when it is short, where tracekit asks only whether the op had been '
               || 'launched'
    FROM op GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'launch_names', ['launches'], count(*),
           'leaves out launches by other names than its five'
    FROM op WHERE NOT is_hta_launch(launch_name) GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'queue_names', ['queue'], count(*),
           'leaves out launches by other names than its eleven'
    FROM op WHERE NOT is_hta_queue_launch(launch_name) GROUP BY trace_id
)
SELECT trace_id, code, analyses, count, message
FROM rule
ORDER BY trace_id, code = 'thresholds', count DESC, code
