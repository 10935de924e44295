-- question: What in this trace makes its numbers doubtful?
-- params trace
-- param severity (text, default all): error, warning or info; errors alone are found at once
-- columns trace_id
-- column code (text): the kind of finding
-- column severity (text): error (numbers are missing or wrong), warning (numbers need care), info (a better
--     recording would tell more)
-- column message (text): what was found, and what it means
-- columns count
WITH broken AS (
    SELECT trace_id, event_id, text FROM rejected
    WHERE NOT regexp_matches(reason, ', not (an event|events)$') AND reason <> 'after the trace''s end'
),
-- Host events of another process than the one before. In a file that one program merged from several
-- processes, this happens between whole events; where processes write into one file, the text of one breaks
-- off.
changes AS (
    SELECT c.trace_id, coalesce(b.event_id > before_id, FALSE) AS is_broken
    FROM (
        SELECT trace_id, event_id, pid, lag(pid) OVER w AS before, lag(event_id) OVER w AS before_id
        FROM event_row JOIN slice_label USING (label_id)
        WHERE trace_id IN (SELECT trace_id FROM broken) AND pid IS NOT NULL
          AND kind IN ('cpu_op', 'runtime', 'driver', 'python')
        WINDOW w AS (PARTITION BY trace_id ORDER BY event_id)
    ) AS c
    ASOF LEFT JOIN broken AS b ON c.trace_id = b.trace_id AND c.event_id >= b.event_id
    WHERE pid <> before
),
shared AS (
    -- There and back, and mostly there.
    SELECT trace_id FROM changes GROUP BY trace_id
    HAVING count(*) FILTER (is_broken) >= 2 AND 2 * count(*) FILTER (is_broken) >= count(*)
    UNION
    -- Another trace's head between the events.
    SELECT trace_id FROM broken JOIN trace USING (trace_id)
    WHERE event_id BETWEEN 1 AND events - 1 AND regexp_matches(text, '"traceEvents"\s*:\s*\[')
),
found AS (
    SELECT trace_id, 'truncated' AS code, 'error' AS severity, 1 AS count,
           'the end is missing: ' || damage || ', and ' || events || ' whole events were loaded' AS message
    FROM trace WHERE damage IS NOT NULL
    UNION ALL
    SELECT trace_id, 'rejected_events', 'error', rejected,
           'stretches of the file are no events: the table rejected keeps their text'
    FROM trace WHERE rejected > 0
    UNION ALL
    SELECT trace_id, 'shared_file', 'error', count(*),
           'two writers shared the file: their texts cut each other off, and only what is whole was loaded '
           || '(give each rank a file of its own)'
    FROM shared JOIN broken USING (trace_id) GROUP BY trace_id
    UNION ALL
    -- A point of a sweep that could not run has none.
    SELECT trace_id, 'no_events', 'error', 1, 'the trace has no events' FROM trace
    WHERE events = 0 AND (metadata->'tracekit'->'sweep'->>'reason') IS NULL
    UNION ALL
    SELECT trace_id, 'unlinked_gpu_ops', 'warning', count(*),
           'GPU ops have no launch in the trace (' || round(100.0 * count(*) / any_value(n), 1)
           || ' % of all): idle time that they end is not attributed'
    FROM gpu_ops ANTI JOIN gpu_op_launch USING (trace_id, event_id)
    JOIN (SELECT trace_id, count(*) AS n FROM gpu_ops GROUP BY ALL) USING (trace_id)
    GROUP BY trace_id
    UNION ALL
    SELECT l.trace_id, 'graph_without_kernels', 'warning', count(*),
           'graph launches have no GPU op in the trace: their work is not seen'
    FROM launches AS l ANTI JOIN gpu_op_launch AS k ON l.trace_id = k.trace_id AND l.event_id = k.launch_id
    WHERE launched_kind = 'graph' GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'negative_duration', 'warning', count(*),
           'events have a negative duration and are left out of all sums'
    FROM event WHERE phase = 'X' AND dur_ns < 0 GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'no_time', 'warning', count(*),
           'complete events have no usable timestamp or duration and are left out of all sums'
    FROM event WHERE phase = 'X' AND (ts_ns IS NULL OR dur_ns IS NULL OR dur_ns > thresholds().late_time_ns)
    GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'absurd_duration', 'warning', count(*), 'events last longer than a day'
    FROM slices WHERE dur_ns > thresholds().absurd_duration_ns GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'stream_overlap', 'info', count(*),
           'GPU ops begin before an earlier one on their stream has ended (dependent launch, or a stream '
           || 'that stands for several)'
    FROM (SELECT *, max(end_ns) OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id
                                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
                                      FROM gpu_ops)
    WHERE start_ns < earlier_end_ns GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'starts_before_launch', 'warning', count(*),
           'GPU ops start before their launch call began, by up to ' || -min(launch_delay_ns)
           || ' ns: device and host clocks differ'
    FROM gpu_op_launch WHERE launch_delay_ns < 0 GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'begin_end_events', 'warning', count(*),
           'events mark a begin or an end (phases B and E) instead of a duration: they are kept and not '
           || 'analysed'
    FROM event WHERE phase IN ('B', 'E') GROUP BY ALL
    UNION ALL
    SELECT e.trace_id, 'no_category', 'warning', count(*),
           'complete events have no category, and neither name nor arguments tell what they are: they are '
           || 'kept and not analysed, so operators, calls or GPU ops may be missing'
    FROM event_row AS e JOIN slice_label USING (label_id) JOIN label USING (label_id)
    WHERE kind = 'other' AND has_no_category(category) GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'ambiguous_correlation', 'warning', count(*),
           'GPU ops have a correlation that several processes use: their launch is not known'
    FROM gpu_ops WHERE (trace_id, correlation) IN (
        SELECT (trace_id, correlation) FROM runtime_calls WHERE correlation IS NOT NULL
        GROUP BY trace_id, correlation HAVING count(DISTINCT pid) > 1
    ) GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'no_gpu_ops', 'info', 1, 'no GPU op is in the trace'
    FROM trace WHERE events > 0 AND trace_id NOT IN (SELECT trace_id FROM gpu_ops)
    UNION ALL
    SELECT trace_id, 'no_steps', 'info', 1,
           'no profiler steps are marked: call profiler.step() once per iteration to see each'
    FROM trace WHERE events > 0 AND trace_id NOT IN (SELECT trace_id FROM steps)
    UNION ALL
    SELECT trace_id, 'no_stacks', 'info', 1,
           'no Python stacks were recorded: time between operators cannot be told apart (with_stack=True)'
    FROM trace WHERE events > 0 AND trace_id NOT IN (SELECT trace_id FROM python_frames)
    UNION ALL
    SELECT trace_id, 'cold_first_step', 'warning', 1,
           'the first step takes ' || round(arg_min(dur_ns, start_ns) / median(dur_ns), 1)
           || ' times the median step: warm up before profiling'
    FROM steps GROUP BY trace_id HAVING count(*) >= thresholds().cold_steps
       AND arg_min(dur_ns, start_ns) > thresholds().cold_step_ratio * median(dur_ns)
    UNION ALL
    SELECT trace_id, 'profiler_dilation', 'warning', 1,
           'profiling made a step ' || round(dilation, 2)
           || ' times as long: the host looks slower than it is'
    FROM (
        SELECT trace_id, TRY_CAST(metadata->'tracekit'->>'profiled_step_ns' AS DOUBLE) AS profiled_ns,
               TRY_CAST(metadata->'tracekit'->>'unprofiled_step_ns' AS DOUBLE) AS plain_ns,
               profiled_ns / nullif(plain_ns, 0) AS dilation
        FROM trace
    )
    WHERE dilation > thresholds().dilation_ratio
)
SELECT trace_id, code, severity, message, count
FROM found
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
  AND severity = coalesce(getvariable('severity'), severity)
ORDER BY trace_id, array_position(['error', 'warning', 'info'], severity), code
