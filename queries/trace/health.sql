-- question: Which problems of this trace make its numbers doubtful?
-- since: 0.1
-- param severity (text, default all): error, warning or info; querying only errors is fast
-- columns code
-- column severity (text): error (numbers are missing or wrong), warning (numbers need care), info (a better
--     recording would show more)
-- columns message, count
-- column time_ns (ns): the affected time; NULL: none, or unknown
WITH op AS (
    SELECT trace_id, count(*) AS ops, count(*) - count(launch_id) AS unlinked,
           count(*) FILTER (launch_delay_ns < 0) AS early, -min(launch_delay_ns) AS earliest_ns,
           count(*) FILTER (launch_delay_ns < -thresholds().clock_shift_ns)
               >= thresholds().unseen_share * count(launch_id) AS is_misdated,
           count(*) FILTER (start_ns < earlier_end_ns) AS overlapping, count(is_shared) AS ambiguous,
           min(pid) < max(pid) AS is_merged
    FROM (
        SELECT *, max(end_ns) OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM gpu_ops
    ) LEFT JOIN (
        SELECT trace_id, correlation, TRUE AS is_shared FROM runtime_calls WHERE trace_id IN (
            SELECT trace_id FROM host_thread GROUP BY trace_id HAVING min(pid) < max(pid))
        GROUP BY trace_id, correlation HAVING min(pid) < max(pid)
    ) USING (trace_id, correlation)
    GROUP BY trace_id
),
timed AS (
    SELECT e.trace_id, sum_where(negative, phase = 'X') AS negative,
           sum_where(untimed, phase = 'X') AS untimed, sum_where(absurd, phase = 'X') AS absurd,
           sum_where(events, phase IN ('B', 'E')) AS begins_and_ends,
           sum_where(events, kind = 'other' AND coalesce(category, '') = '') AS uncategorized,
           sum_where(events, kind = 'python') AS frames
    FROM (
        SELECT trace_id, label_id, count(*) AS events, count(*) FILTER (dur_ns < 0) AS negative,
               count(*) FILTER (ts_ns IS NULL OR dur_ns IS NULL OR dur_ns > thresholds().late_time_ns)
                   AS untimed,
               count(*) FILTER (dur_ns > thresholds().absurd_duration_ns
                   AND greatest(dur_ns, abs(ts_ns)) <= thresholds().late_time_ns) AS absurd
        FROM event_row GROUP BY trace_id, label_id
    ) AS e JOIN label USING (label_id) LEFT JOIN slice_label USING (label_id)
    GROUP BY e.trace_id
),
step AS (
    SELECT trace_id, count(*) AS steps, arg_min(dur_ns, start_ns) AS opening_ns,
           opening_ns / nullif(median(dur_ns), 0) AS first_ratio,
           len(list_filter(list(dur_ns), lambda ns: thresholds().cold_step_ratio * ns > opening_ns))
               >= thresholds().fewest_alike AS is_usual
    FROM steps WHERE event_id >= 0 GROUP BY trace_id
),
dilated AS (SELECT *, profiled_ns / nullif(unprofiled_ns, 0) AS dilation FROM measured_steps),
cold AS (
    SELECT trace_id, count(*) FILTER (NOT loads) AS cold_launches, count(*) FILTER (loads) AS cold_loads,
           count(*) FILTER (is_first) AS first_launches, sum_where(ns, is_first) AS first_ns,
           sum_where(ns, loads) AS loading_ns
    FROM cold_calls(thresholds().cold_launch_ns, thresholds().late_launch_ns) GROUP BY trace_id
),
-- First launches count if the trace has too few steps, or without steps too few launches, to show the usual
-- time.
started AS (
    SELECT trace_id, coalesce(cold_launches, 0) AS cold_launches, first_launches,
           coalesce(cold_loads, 0) AS cold_loads,
           loading_ns >= thresholds().load_share * (end_ns - start_ns) AS is_loading,
           coalesce(steps < thresholds().cold_steps, launches < thresholds().few_launches)
               AND first_ns >= thresholds().load_share * (end_ns - start_ns) AS is_first
    FROM trace_span LEFT JOIN cold USING (trace_id) LEFT JOIN step USING (trace_id)
    LEFT JOIN (SELECT trace_id, count(*) AS launches FROM launch_call GROUP BY ALL) USING (trace_id)
),
-- Work done faster than the device's peak allows: its shapes, its times or the device are wrong.
-- What a cache may hold is not evidence, and neither are brief clock boosts.
held AS (
    SELECT trace_id, 'matrix products, convolutions and attention' AS what, 'peak' AS of,
           thresholds().over_peak AS most, busy_ns,
           flops * 1e9 / peak_of(flop_per_s, peak, is_matrix) AS least_ns
    FROM all_work JOIN device_peaks USING (trace_id, device_id) WHERE is_matrix
    UNION ALL
    SELECT trace_id, 'operators of known sizes', 'memory bandwidth', thresholds().over_bandwidth, busy_ns,
           (read_bytes + written_bytes - cached) * 1e9 / memory_bytes_per_s
    FROM all_work JOIN (SELECT *, coalesce(cache_bytes, thresholds().cached_bytes) AS cached
        FROM device_peaks) USING (trace_id, device_id)
    WHERE read_bytes + written_bytes > cached
    UNION ALL
    SELECT trace_id, 'copies from and to the host', 'link to the host', thresholds().over_peak, dur_ns,
           bytes * 1e9 / host_link_bytes_per_s
    FROM gpu_ops JOIN device_peaks USING (trace_id, device_id)
    WHERE copy_kind IN ('HtoD', 'DtoH') AND bytes > thresholds().tiny_copy_bytes
),
beyond AS (
    SELECT trace_id, what, of, sum(busy_ns) AS ns, sum(least_ns) / sum(busy_ns) AS ratio, count(*) AS count
    FROM held WHERE busy_ns > 0 AND least_ns > most * busy_ns GROUP BY ALL
),
worst AS (
    SELECT b.* FROM beyond AS b
    JOIN (SELECT trace_id, sum(dur_ns) AS all_ns FROM gpu_ops GROUP BY trace_id) USING (trace_id)
    WHERE ns >= thresholds().over_share * all_ns
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC, what) = 1
),
-- The product that loses most, and what all of them lose.
uneven AS (
    SELECT trace_id, product, calls, usual_ns, slow_ns,
           sum(sum(excess_ns)) OVER (PARTITION BY trace_id)::BIGINT AS lost_ns
    FROM uneven_product GROUP BY trace_id, device_id, product, calls, usual_ns, slow_ns
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY sum(excess_ns) DESC, product) = 1
),
-- A device that ran far below the clock at which its peaks are stated. Its clock while idle tells nothing.
slowed AS (
    SELECT trace_id, device_id, samples, mhz, clock_mhz AS rated_mhz
    FROM busy_clocks JOIN device_peaks USING (trace_id, device_id)
    WHERE samples >= thresholds().clock_samples AND mhz < thresholds().clock_share * rated_mhz
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY mhz / rated_mhz, device_id) = 1
),
-- Code, severity, count and message of each finding.
findings AS (
    SELECT trace_id, unnest([
        ('truncated', 'error', (damage IS NOT NULL)::BIGINT,
            'the end is missing: ' || damage || ', and ' || format('{:,}', events)
            || ' whole events were loaded'),
        ('rejected_events', 'error', rejected,
            'stretches of the file are no events: the table rejected keeps their text'),
        -- A point of a sweep that could not run has no events.
        ('no_events', 'error',
            (events = 0 AND (metadata->'tracekit'->'sweep'->>'reason') IS NULL)::BIGINT,
            'the trace has no events')
    ]) AS finding, NULL::BIGINT AS time_ns
    FROM trace
    UNION ALL
    SELECT trace_id, (code, severity, count, message), time_ns FROM recorder_finding
    UNION ALL
    SELECT trace_id, ('profiler_dilation', 'warning', (dilation > thresholds().dilation_ratio)::BIGINT,
               'profiling made steps ' || round(dilation, 2) || ' times as long as the '
               || duration_text(unprofiled_ns)
               || ' that they take without it: the host looks slower than it is'),
           profiled_ns - unprofiled_ns
    FROM dilated
    UNION ALL
    SELECT trace_id, ('over_peak', 'warning', count,
               what || ' would run at ' || format('{:.1f} %', 100 * ratio) || ' of the device''s ' || of
               || ': their sizes, their times or the device are not what the trace says'), ns::BIGINT
    FROM worst WHERE coalesce(getvariable('severity'), '') <> 'error'
    UNION ALL
    SELECT trace_id, ('uneven_kernels', 'warning', calls,
               'the same product takes ' || duration_text(usual_ns) || ' to ' || duration_text(slow_ns)
               || ' (' || product || ', ' || calls
               || ' calls): another program used the device, or its clock changed'), lost_ns
    FROM uneven WHERE coalesce(getvariable('severity'), '') <> 'error'
    UNION ALL
    SELECT trace_id, ('slow_clock', 'warning', samples,
               'device ' || device_id || format(' ran at {:.0f} % of its rated clock ({:.0f} of {:.0f} MHz, ',
                   100 * mhz / rated_mhz, mhz, rated_mhz)
               || 'the median of ' || samples
               || ' samples while it was busy): it can reach no more than that of its compute peaks'), NULL
    FROM slowed WHERE coalesce(getvariable('severity'), '') <> 'error'
    UNION ALL
    SELECT trace_id, unnest([
        ('unlinked_gpu_ops', 'warning', unlinked,
            'GPU ops have no ' || if(ambiguous > 0, 'known launch', 'launch in the trace')
            || ' (' || round(100.0 * unlinked / ops, 1)
            || ' % of all): idle time that they end is not attributed'),
        ('negative_duration', 'warning', negative,
            'events have a negative duration and are left out of all sums'),
        ('no_time', 'warning', untimed,
            'complete events have no usable timestamp or duration and are left out of all sums'),
        ('absurd_duration', 'warning', absurd, 'events last longer than a day and are left out of all sums'),
        ('stream_overlap', 'info', overlapping,
            'GPU ops begin before an earlier one on their stream has ended (dependent launch, or a stream '
            || 'that stands for several)'),
        ('starts_before_launch', if(is_misdated, 'error', 'warning'), early,
            if(is_misdated, 'most GPU ops', 'GPU ops') || ' start before their launch call began, by up to '
            || duration_text(earliest_ns) || ': device and host clocks differ'),
        ('begin_end_events', if(begins_and_ends >= thresholds().unseen_share * events, 'error', 'warning'),
            begins_and_ends,
            'events mark a begin or an end (phases B and E) instead of a duration: they are kept and not '
            || 'analyzed'),
        ('no_category', 'warning', uncategorized,
            'complete events have no category, and neither name nor arguments tell what they are: they are '
            || 'kept and not analyzed, so operators, calls or GPU ops may be missing'),
        ('ambiguous_correlation', 'warning', ambiguous,
            'GPU ops have a correlation that several processes use: their launch is not known'),
        ('several_processes', 'warning', is_merged::BIGINT,
            'several processes launch GPU ops in this file: the verdict is about the device with the most '
            || 'kernel time, whichever process uses it'),
        ('no_gpu_ops', 'info', (events > 0 AND ops IS NULL AND NOT is_unread)::BIGINT,
            'no GPU op is in the trace'),
        ('no_steps', 'info', (events > 0 AND steps IS NULL)::BIGINT,
            'no profiler steps are marked: ' || switch_of(profiler, 'no_steps')),
        ('no_stacks', 'info', (frames = 0)::BIGINT,
            'no Python stacks were recorded: time between operators cannot be told apart ('
            || switch_of(profiler, 'no_stacks') || ')'),
        ('cold_first_step', 'warning',
            (steps >= thresholds().cold_steps AND first_ratio > thresholds().cold_step_ratio
                AND NOT is_usual AND coalesce(warmup_steps, 0) = 0)::BIGINT,
            'the first step takes ' || round(first_ratio, 1)
            || ' times the median step: warm up before profiling'),
        ('warmed_up', 'info', if(steps > 0, warmup_steps, 0),
            'steps ran before the recording: what the first recorded one takes beyond the others is the '
            || 'profiler''s start'),
        ('cold_start', 'warning',
            CASE WHEN cold_loads >= thresholds().cold_loads
                     AND (cold_launches >= thresholds().fewest_alike OR is_loading)
                     THEN greatest(cold_launches, cold_loads)
                 WHEN is_first THEN first_launches ELSE 0 END,
            if(is_first AND cold_loads < thresholds().cold_loads,
                'the first launches of kernels, which load their code, take much of the time',
                cold_loads || ' calls load code or ask about it, and '
                || if(is_loading, 'they take much of the time', 'launches take a millisecond or more each'))
            || ': a first run, record a warm one')
    ]), NULL
    FROM (SELECT *, trace_id IN (SELECT trace_id FROM recorder_finding WHERE code = 'unread_device')
        AS is_unread FROM trace) LEFT JOIN op USING (trace_id) LEFT JOIN timed USING (trace_id)
    LEFT JOIN step USING (trace_id) LEFT JOIN measured_steps USING (trace_id)
    LEFT JOIN started USING (trace_id)
    WHERE coalesce(getvariable('severity'), '') <> 'error'
)
SELECT trace_id, finding[1] AS code, finding[2] AS severity, finding[4] AS message, finding[3] AS count,
       time_ns
FROM findings WHERE count > 0 AND is_asked(trace_id)
  AND severity = coalesce(getvariable('severity'), severity)
ORDER BY trace_id, array_position(['error', 'warning', 'info'], severity), code
