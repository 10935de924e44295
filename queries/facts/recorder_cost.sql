-- fact: The recorder's cost to the host's main thread, by the cost of an event.
-- into: recorder_finding
-- needs: gpu_ops
-- when: kind = 'cpu_op'
-- The main thread is the one that launches most or, if nothing is launched, runs the most operators.
-- A slow host also records slowly: an event costs a multiple of the time of a nearly empty operator. Frames
-- far more numerous than operators are those of short functions in loops, which cost less.
WITH launching AS (SELECT trace_id, pid, tid, count(*) AS launches FROM gpu_ops WHERE launch_id IS NOT NULL
    GROUP BY ALL),
recorded AS (
    SELECT trace_id, max(ts_ns + dur_ns) - min(ts_ns) AS span_ns,
           count(*) FILTER (kind = 'cpu_op') AS operators, count(*) FILTER (kind = 'python') AS frames,
           count(*) FILTER (kind IN ('runtime', 'driver')) AS calls,
           count(*) FILTER (has(traits, 'trivial')) AS trivial,
           median(dur_ns) FILTER (has(traits, 'trivial')) AS trivial_ns
    FROM event_row JOIN slice_label USING (label_id) LEFT JOIN launching USING (trace_id, pid, tid)
    WHERE kind IN ('cpu_op', 'python', 'runtime', 'driver')
        AND dur_ns BETWEEN 0 AND thresholds().late_time_ns
    GROUP BY trace_id, pid, tid
    QUALIFY row_number() OVER (PARTITION BY trace_id
        ORDER BY max(coalesce(launches, 0)) DESC, operators DESC, pid, tid) = 1
),
priced AS (
    SELECT r.*, coalesce(record_shapes, FALSE) AS is_shaped,
           thresholds().usual_frames * operators AS usual_frames,
           CASE WHEN trivial < thresholds().fewest_trivial THEN thresholds().trivial_operator_ns
                ELSE least(trivial_ns, thresholds().slow_trivial_ns) END AS unit_ns,
           (unit_ns * (operators * (thresholds().recorded_operator
                   + if(is_shaped, thresholds().recorded_shapes, 0)
                   + if(coalesce(profile_memory, FALSE), thresholds().recorded_memory, 0))
               + calls * thresholds().recorded_call
               + least(frames, usual_frames) * thresholds().recorded_frame
               + greatest(frames - usual_frames, 0) * thresholds().recorded_looped))::BIGINT AS ns
    FROM recorded AS r JOIN trace USING (trace_id)
)
SELECT trace_id, 'recorder_cost' AS code, 'info' AS severity, operators + frames + calls AS count,
       format('recording took at least {} of the host''s main thread: {:,} operators{}{}{}',
           format('{:.1f} %', 100 * ns / span_ns), operators,
           if(is_shaped, ' with shapes (record_shapes)', ''),
           if(calls > 0, format(', {:,} calls of the GPU''s runtime', calls), ''),
           if(frames > 0, format(' and {:,} Python frames (with_stack)', frames), '')) AS message,
       ns AS time_ns, NULL AS event_id
FROM priced WHERE operators >= thresholds().few_launches
    AND ns BETWEEN thresholds().cost_share * span_ns AND span_ns
