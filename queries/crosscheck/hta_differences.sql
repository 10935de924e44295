-- question: Which of HTA's rules make its numbers differ from tracekit's on this trace?
-- since: 0.1
-- columns code
-- column analyses (list of text): HTA's analyses that the rule affects
-- columns count, message
-- Lists only rules that apply to this trace. This topic's other queries and views/hta.sql define them.
WITH held AS MATERIALIZED (FROM hta_events),
typed AS (SELECT name, hta_kernel_type(name) AS hta_type FROM (SELECT DISTINCT name FROM gpu_ops)),
shared_correlation AS (
    SELECT trace_id, correlation FROM held WHERE stream = -1 AND correlation <> -1
    GROUP BY trace_id, correlation HAVING count(*) > 1
),
op AS (
    SELECT o.*, h.stream AS hta_stream, h.start_ns AS hta_start_ns, h.end_ns AS hta_end_ns, h.copies,
           h.linked_id, hta_type, launch_name, launch_start_ns,
           o.start_ns < lag(o.end_ns) OVER before AS is_early,
           (o.trace_id, o.correlation) IN (SELECT (trace_id, correlation) FROM shared_correlation)
               AS is_paired
    FROM gpu_ops AS o JOIN typed ON o.name IS NOT DISTINCT FROM typed.name
    LEFT JOIN held AS h ON o.trace_id = h.trace_id AND o.event_id = h.event_id
    WHERE is_asked(o.trace_id)
    WINDOW before AS (PARTITION BY o.trace_id, o.stream ORDER BY o.start_ns, o.event_id)
),
-- Events that HTA may count as GPU ops, unlike tracekit.
other AS (
    SELECT h.trace_id, h.stream, category, coalesce(kind, 'other') AS kind, launched
    FROM (FROM held WHERE stream <> -1 OR category ILIKE '%sync' OR category = 'mtia_ccp_events') AS h
    JOIN event_row AS e ON h.trace_id = e.trace_id AND h.event_id = e.event_id
    LEFT JOIN slice_label AS n ON e.label_id = n.label_id
    LEFT JOIN (SELECT trace_id, launch_id, count(*) AS launched FROM gpu_ops GROUP BY ALL) AS l
      ON h.trace_id = l.trace_id AND h.linked_id = l.launch_id AND on_device
    WHERE kind = 'device_sync' OR (h.stream <> -1 AND kind NOT IN ('kernel', 'memcpy', 'memset'))
),
-- Code, analyses, count and message.
rules AS (
    SELECT trace_id, unnest([
        ('rounding', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
            count(*) FILTER (hta_start_ns <> start_ns OR hta_end_ns <> end_ns),
            'shrinks GPU ops to whole microseconds'),
        ('last_step', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
            count(*) FILTER (copies IS NULL),
            'leaves out GPU ops not launched before the last profiler step, or on MTIA in the steps'),
        ('no_stream', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
            count(*) FILTER (hta_stream = -1), 'leaves out GPU ops whose arguments name no stream'),
        ('devices', ['temporal', 'kernels', 'overlap', 'idle', 'launches', 'queue'],
            CASE WHEN count(DISTINCT device_id) > 1 THEN count(DISTINCT device_id) END,
            'takes several devices for one'),
        ('communication', ['temporal', 'kernels', 'overlap'],
            count(*) FILTER (kind = 'kernel'
                AND (activity = 'communication') <> (hta_type = 'COMMUNICATION')),
            'takes only ^nccl, ^hip, ^hccl and ncclKernel for communication, other collectives for compute'),
        ('types', ['temporal', 'kernels', 'overlap'],
            count(*) FILTER ((kind = 'kernel') <> (hta_type IN ('COMPUTATION', 'COMMUNICATION'))),
            'tells kernels from copies and waits by their names'),
        ('copies', ['idle', 'launches', 'queue'], count(*) FILTER (copies > 1),
            'counts a GPU op once for each host event with its correlation'),
        ('pairs', ['launches', 'queue'], count(*) FILTER (is_paired),
            'takes every host event with the correlation of a GPU op for a launch of it'),
        ('streams', ['idle'], CASE WHEN count(DISTINCT stream) > 1 THEN count(DISTINCT stream) END,
            'looks at each stream alone, and tracekit at the device'),
        ('overlap_on_stream', ['idle'], count(*) FILTER (is_early),
            'counts ops of one stream that overlap as negative idle time'),
        ('first_event', ['idle'],
            count(*) FILTER (linked_id = 0 AND trace_id IN (SELECT trace_id FROM held WHERE event_id = 0)),
            'takes the first event of the file for the launch of GPU ops that have none'),
        ('first_op', ['queue'], count(*) FILTER (event_id = 0 AND launch_name IS NOT NULL),
            'leaves out the GPU op that is the first event of the file'),
        ('instants', ['queue'], count(*) FILTER (start_ns = launch_start_ns),
            'has no launch waiting whose op starts at the same instant, where tracekit has it waiting'),
        ('thresholds', ['idle'], count(*),
            'calls a gap kernel_wait when it is short, where tracekit asks only whether the op had been '
            || 'launched'),
        ('launch_names', ['launches'], count(*) FILTER (NOT is_hta_launch(launch_name)),
            'leaves out launches by other names than its five'),
        ('queue_names', ['queue'], count(*) FILTER (NOT is_hta_queue_launch(launch_name)),
            'leaves out launches by other names than its twelve')
    ]) AS rule
    FROM op GROUP BY trace_id
    UNION ALL
    SELECT trace_id, unnest([
        ('host_events', ['temporal', 'kernels', 'overlap'],
            count(*) FILTER (kind <> 'device_sync' AND stream <> -1),
            'counts host events that name a stream as GPU work'),
        ('sync', ['temporal'], count(*) FILTER (kind = 'device_sync' AND stream <> -1),
            'counts the device''s waits as GPU work'),
        ('mtia_sync', ['kernels', 'overlap', 'idle', 'launches', 'queue'],
            count(*) FILTER (category = 'mtia_ccp_events'),
            'counts the waits and records of MTIA''s command processor as GPU ops'),
        ('launched_sync', ['launches', 'queue'],
            sum_where(launched, kind = 'device_sync'),
            'takes the device''s waits that have the correlation of a launch for GPU ops')
    ])
    FROM other GROUP BY trace_id
)
SELECT trace_id, rule[1] AS code, rule[2] AS analyses, rule[3] AS count, rule[4] AS message
FROM rules WHERE count > 0
ORDER BY trace_id, code = 'thresholds', count DESC, code
